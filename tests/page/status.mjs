// The status page.

import assert from "node:assert/strict";
import { eventually, isAccessible, open, picture, pictures, story } from "./helpers.mjs";

export const statusChecks = {
  async "shows metrics and the plan"(browser, url) {
    const { page, problems, close } = await open(browser, `${url}/status`);
    await page.locator(".state.live").waitFor();
    await page.locator(".plan rect").nth(30).waitFor({ state: "attached" });
    assert.match(await page.locator(".facts").innerText(), /Version\s+graft \d.*Memory of the process\s+\d/s);
    assert.match(await page.locator(".model", { hasText: "sprout" }).innerText(), /46.6M parameters · Q6_K · 37 MiB · context 4,096 · cpu: weights/);
    await isAccessible(page);
    assert.match(await page.locator(".plan header .legend").innerText(), /cpu\s+\d+(\.\d)? MiB/);
    const body = { model: "sprout", messages: [{ role: "user", content: story }], temperature: 2, max_tokens: 400 };
    const work = [1, 2, 3].map((seed) => fetch(`${url}/v1/chat/completions`, { method: "POST", body: JSON.stringify({ ...body, seed }) }));
    const value = async (title) => (await page.locator(".chart", { hasText: title }).locator("b").first().innerText()).replace(/[^\d.]/g, "");
    const colours = await page.locator(".chart-value b").evaluateAll((nodes) => nodes.map((node) => getComputedStyle(node).color));
    assert.equal(new Set(colours).size, 1, "no value is a warning");
    await eventually("tokens per second", async () => Number(await value("Generated")) > 0);
    await Promise.all(work);
    await page.waitForTimeout(pictures ? 6000 : 1500);
    assert.ok(Number(await value("Time to first token")) > 0);

    // The server keeps the readings: a page that is opened now has them.
    await page.waitForTimeout(5500);
    await page.reload();
    await page.locator(".state.live").waitFor();
    await page.locator(".plan rect").nth(30).waitFor({ state: "attached" });
    const line = page.locator(".chart", { hasText: "Generated" }).locator("path.line").first();
    assert.ok((await line.getAttribute("d")).split("L").length > 2);
    await page.locator(".ranges button", { hasText: "1 h" }).click();
    assert.match(await page.locator(".chart-axis").first().innerText(), /−1 h/);
    await page.locator(".ranges button", { hasText: "5 min" }).click();

    await page.locator(".plan rect").nth(20).hover();
    assert.match(await page.locator(".plan-detail code").innerText(), /^model\.layers\.\d/);
    assert.match(await page.locator(".plan-detail").innerText(), /Operator\s+cpu\./);
    assert.match(await page.locator(".plan-detail").innerText(), /Type\s+(F32|Q\d_\w+)/);
    await picture(page, "status", { fullPage: true });
    await page.locator(".plan rect[tabindex='0']").focus();
    const before = await page.locator(".plan-detail code").innerText();
    await page.keyboard.press("ArrowRight");
    assert.notEqual(await page.locator(".plan-detail code").innerText(), before);
    await page.emulateMedia({ colorScheme: "dark" });
    await picture(page, "status-dark");
    await isAccessible(page);
    assert.deepEqual(problems, []);

    await page.route("**/v1/plan", (route) => route.fulfill({ json: { models: [largePlan()] } }));
    await page.reload();
    await page.locator(".plan rect").nth(400).waitFor({ state: "attached" });
    await page.emulateMedia({ colorScheme: "light" });
    await page.locator(".plan rect").nth(131).hover();
    await picture(page, "status-large");
    await close();
  },
};

export const modelChecks = {
  async "loads and unloads models"(browser, url) {
    const { page, problems, close } = await open(browser, `${url}/status`);
    const other = page.locator(".model", { hasText: "other" });
    await other.locator("button", { hasText: "Load" }).click();
    await other.locator("button", { hasText: "Unload" }).waitFor();
    await page.locator(".plan h3", { hasText: "other" }).waitFor();
    await other.locator("button", { hasText: "Unload" }).click();
    await other.locator("button", { hasText: /^Load/ }).waitFor();
    assert.match(await other.innerText(), /not loaded/);

    await page.goto(url);
    await page.click("#model");
    await page.locator("dialog .model-name", { hasText: "other" }).click();
    await page.locator("#model", { hasText: /other.*not loaded/s }).waitFor();
    await page.fill("#question", "x".repeat(400));
    await page.locator(".gauge", { hasText: /^about 100 of 4,096 tokens$/ }).waitFor();
    assert.deepEqual(problems, []);
    await close();
  },
};

// A plan with 61 layers on two GPUs and the CPU.
function largePlan() {
  const placements = [];
  const totals = {};
  const add = (module, device, bytes) => {
    placements.push({ module, class: "Linear", role: "linear", generate_op: `${device.split(":")[0]}.q4_k`, prefill_op: null, generate_device: device, prefill_device: device, out_device: device, line: 3, weight_bytes: bytes });
    totals[device] = (totals[device] ?? 0) + bytes;
  };
  add("model.embed_tokens", "cpu", 9e8);
  for (let layer = 0; layer < 61; ++layer) {
    const gpu = layer < 30 ? "cuda:0" : "cuda:1";
    const at = `model.layers.${layer}`;
    add(`${at}.input_layernorm`, gpu, 28672);
    for (const [name, bytes] of [["q_a_proj", 1e7], ["q_b_proj", 3e7], ["kv_a_proj", 4e6], ["kv_b_proj", 1.5e7], ["o_proj", 1.1e8]]) add(`${at}.self_attn.${name}`, gpu, bytes);
    if (layer < 3) add(`${at}.mlp.down_proj`, gpu, 3.9e8);
    else {
      add(`${at}.mlp.shared_experts`, gpu, 4.4e7);
      add(`${at}.mlp.experts`, layer > 56 ? gpu : "cpu", 6.3e9);
    }
  }
  add("model.norm", "cuda:1", 28672);
  add("lm_head", "cuda:1", 9e8);
  return { name: "deepseek-v3", model: "deepseek-v3", family: "deepseek_v3", placements, transfer_map: {}, weight_bytes: totals };
}
