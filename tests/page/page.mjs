// page.mjs GRAFT MODEL CHROMIUM: starts `graft serve` and tests its web pages in a browser.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [graft, model, executablePath] = process.argv.slice(2);
const pictures = process.env.SCREENSHOTS;
const question = "Find the sum of 62 and 1.";
const sum = "62 + 1 = 63";
const story = "Tell me a long story about a fox.";
const longAnswer = readFileSync(new URL("long_answer.md", import.meta.url), "utf8");
if (pictures) mkdirSync(pictures, { recursive: true });

async function start(keys) {
  const server = spawn(graft, ["serve", "--port", "0", "--model", `sprout=${model}`], {
    env: { ...process.env, ...(keys ? { GRAFT_API_KEYS: keys } : {}) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface({ input: server.stdout });
  const line = await Promise.race([
    new Promise((resolve) => lines.once("line", resolve)),
    new Promise((_, reject) => server.once("exit", (code) => reject(new Error(`graft serve ended with ${code}`)))),
  ]);
  return { server, url: line.match(/https?:\S+/)[0] };
}

async function eventually(what, holds) {
  let last;
  for (let i = 0; i < 600; ++i) {
    last = await holds();
    if (last) return last;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`timeout: ${what}`);
}

// Opens a page in a fresh browser context and records script errors and requests to other origins.
async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: "en-US", colorScheme: "light", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    // 4xx and 5xx responses, which some tests provoke, are logged to the console too.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) problems.push(message.text());
  });
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== new URL(url).origin && protocol !== "blob:") problems.push(`requested ${request.url()}`);
  });
  await page.goto(url);
  return { page, problems, close: () => context.close() };
}

const picture = async (page, name, options = {}) => pictures && page.screenshot({ path: join(pictures, `${name}.png`), ...options });
const answers = (page) => page.locator(".answer");
const lastText = async (page) => (await answers(page).last().locator("> .markdown").innerText()).trim();
const isDone = (page) => answers(page).last().locator(".actions button").first().waitFor();

async function send(page, text) {
  await page.fill("#question", text);
  await page.press("#question", "Enter");
}

async function ask(page, text) {
  await send(page, text);
  await page.locator(".bubble", { hasText: text }).last().waitFor();
  await isDone(page);
  return lastText(page);
}

async function setting(page, values) {
  await page.click("#settings");
  for (const [name, value] of Object.entries(values)) await page.fill(`dialog [name=${name}]`, value);
  await page.click("dialog button[type=submit]");
}

async function fitsTheWidth(page) {
  const [content, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(content <= room, `${content} pixels of page in ${room}`);
}

// A server's event stream, for cases that Sprout does not produce.
const streamOf = (deltas, end) =>
  deltas.map((delta) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`).join("") + end;
const properEnd = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}\n\ndata: ${JSON.stringify({
  choices: [],
  usage: { prompt_tokens: 31, completion_tokens: 412, prompt_tokens_details: { cached_tokens: 16 } },
})}\n\ndata: [DONE]\n\n`;

async function mockStream(page, body) {
  await page.route("**/v1/chat/completions", (route) => route.fulfill({ status: 200, contentType: "text/event-stream", body }));
}

const checks = {
  async "sends a question and streams the answer"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await page.locator("#model option", { hasText: "sprout" }).waitFor({ state: "attached" });
    await picture(page, "empty");
    await setting(page, { temperature: "0" });
    assert.equal(await ask(page, question), sum);
    const stats = await answers(page).last().locator(".stats").innerText();
    assert.match(stats, /tokens\/s.*10 tokens.*22 prompt tokens, \d+ cached/s);
    assert.equal(await page.locator(".chat-row.current").innerText(), question);

    // The same prompt again hits the prefix cache.
    await answers(page).last().locator("[aria-label='Answer again']").click();
    await eventually("cached tokens", async () => /16 cached/.test((await answers(page).last().innerText()) ?? ""));
    assert.equal(await answers(page).count(), 1);

    await page.locator(".user").first().hover();
    await page.locator(".user [aria-label=Edit]").click();
    await page.fill(".edit-area", "Find the sum of 5 and 7.");
    await page.press(".edit-area", "Enter");
    await eventually("another sum", async () => (await lastText(page)).includes("12"));
    assert.deepEqual(await page.locator(".bubble").allInnerTexts(), ["Find the sum of 5 and 7."]);
    assert.deepEqual(problems, []);
    await close();
  },

  async "stops and keeps the partial answer"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await setting(page, { temperature: "2", max_tokens: "3000", seed: "1" });
    await send(page, story);
    await eventually("text", async () => (await answers(page).count()) > 0 && (await lastText(page)).length > 20);
    await page.locator("#send.running").waitFor();
    await page.keyboard.press("Escape");
    await isDone(page);
    assert.match(await answers(page).last().innerText(), /Stopped\./);
    const text = await lastText(page);
    await page.reload();
    await isDone(page);
    assert.equal(await lastText(page), text);
    assert.equal(await page.locator(".top h1").innerText(), story);
    assert.deepEqual(problems, []);
    await close();
  },

  async "keeps conversations, their names and settings"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await setting(page, { temperature: "0", system: "Think step by step." });
    await ask(page, question);
    const reasoning = answers(page).last().locator(".reasoning");
    assert.equal(await reasoning.locator(".markdown").isVisible(), false);
    await reasoning.locator("summary").click();
    await eventually("the reasoning", async () => (await reasoning.locator(".markdown").innerText()).length > 5);

    await page.keyboard.press("Control+k");
    assert.equal(await answers(page).count(), 0);
    await page.fill("#question", "one");
    await page.press("#question", "Shift+Enter");
    await page.locator("#question").pressSequentially("two");
    await page.press("#question", "Enter");
    await isDone(page);
    assert.equal(await page.locator(".bubble").innerText(), "one\ntwo");

    const row = page.locator(".chat-row.current");
    const rowButton = async (label) => {
      await row.hover();
      await row.locator(`[aria-label="${label}"]`).click();
    };
    await rowButton("Rename");
    await page.fill(".chat-row input", "Numbers");
    await page.press(".chat-row input", "Enter");
    await page.waitForTimeout(1200);
    await page.reload();
    assert.deepEqual(await page.locator(".chat-title").allInnerTexts(), ["Numbers", question]);
    await page.click("#settings");
    assert.equal(await page.inputValue("dialog [name=system]"), "Think step by step.");
    await picture(page, "settings");
    await page.keyboard.press("Escape");

    const [file] = await Promise.all([page.waitForEvent("download"), rowButton("Export as JSON")]);
    const exported = JSON.parse(readFileSync(await file.path(), "utf8"));
    assert.equal(exported.title, "Numbers");
    assert.equal(exported.messages[0].content, "one\ntwo");

    await rowButton("Delete");
    assert.equal(await page.locator(".chat-row").count(), 1);
    await page.locator(".toast button").click();
    assert.equal(await page.locator(".chat-row").count(), 2);
    await rowButton("Delete");
    await page.waitForTimeout(1200);
    await page.reload();
    assert.deepEqual(await page.locator(".chat-title").allInnerTexts(), [question]);
    assert.deepEqual(problems, []);
    await close();
  },

  async "renders markdown without executing HTML"(browser, url) {
    const { page, problems, close } = await open(browser, url, { permissions: ["clipboard-read", "clipboard-write"] });
    const deltas = longAnswer.match(/[\s\S]{1,7}/g).map((content) => ({ content }));
    await mockStream(page, streamOf([{ reasoning_content: "Which *method*? " }, { reasoning: "Centres." }, ...deltas], properEnd));
    await ask(page, "Write a Python function that finds the longest palindrome in a text.");
    const answer = answers(page).last();
    assert.equal(await answer.locator("h2").innerText(), "Longest palindrome");
    assert.equal(await answer.locator("ol > li").count(), 3);
    assert.equal(await answer.locator("td").count(), 9);
    assert.equal(await answer.locator("img, script").count(), 0);
    assert.deepEqual(await answer.locator("a").evaluateAll((links) => links.map(({ protocol }) => protocol)), ["https:"]);
    assert.match(await lastText(page), /<img src=x onerror=/);
    assert.ok((await answer.locator(".tok-keyword").count()) > 5);
    assert.match(await page.title(), /^Write a Python/);
    await answer.locator(".copy-code").click();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^def longest_palindrome[\s\S]*for"\)\)$/);
    await page.locator(".scroller").evaluate((node) => (node.scrollTop = 0));
    await page.waitForTimeout(1700);
    await picture(page, "answer");
    await page.locator(".to-end").waitFor();

    await page.emulateMedia({ colorScheme: "dark" });
    assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), "dark");
    await picture(page, "answer-dark");
    await page.click("#theme");
    assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), "light");
    await page.click("#theme");
    assert.match(await page.locator("#theme").getAttribute("title"), /dark/);
    await page.emulateMedia({ colorScheme: "light" });
    assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), "dark");
    await page.click("#theme");

    await page.click("#language");
    assert.equal(await page.getAttribute("html", "lang"), "zh-Hans");
    assert.match(await page.locator(".new-chat").innerText(), /新对话/);
    assert.match(await answers(page).last().locator(".stats").innerText(), /词元/);
    await picture(page, "chinese");
    await page.reload();
    assert.match(await page.locator(".new-chat").innerText(), /新对话/);
    assert.deepEqual(problems, []);
    await close();
  },

  async "fits a phone"(browser, url) {
    const { page, problems, close } = await open(browser, url, { viewport: { width: 375, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 });
    await picture(page, "phone-empty");
    await fitsTheWidth(page);
    await mockStream(page, streamOf([{ content: longAnswer }], properEnd));
    await ask(page, "A palindrome, please");
    await fitsTheWidth(page);
    await page.locator(".scroller").evaluate((node) => (node.scrollTop = 0));
    await picture(page, "phone");
    await page.locator(".scroller").evaluate((node) => (node.scrollTop = node.scrollHeight));
    await picture(page, "phone-end");
    await page.click("#menu");
    await page.locator(".chat-row").waitFor();
    await page.waitForTimeout(400);
    await picture(page, "phone-menu");
    await page.locator(".sidebar .new-chat").click();
    assert.equal(await answers(page).count(), 0);
    await page.click("#settings");
    await fitsTheWidth(page);
    await picture(page, "phone-settings");
    await page.goto(`${url}/status`);
    await page.locator(".plan rect").first().waitFor();
    await fitsTheWidth(page);
    await picture(page, "phone-status", { fullPage: true });
    assert.deepEqual(problems, []);
    await close();
  },

  async "shows the server's error messages"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await setting(page, { top_p: "7" });
    await send(page, question);
    await isDone(page);
    assert.match(await answers(page).last().locator(".note").innerText(), /400: .*top_p/);
    await picture(page, "error");
    await setting(page, { top_p: "" });
    await page.locator(".note button").click();
    await eventually("an answer", async () => /63/.test(await lastText(page)));
    await isDone(page); // questions are not sent before

    await mockStream(page, streamOf([{ content: "It begins" }], ""));
    await ask(page, "again");
    assert.equal(await lastText(page), "It begins");
    assert.match(await answers(page).last().innerText(), /connection was lost/);
    await mockStream(page, streamOf([{ content: "Half" }], 'data: {"error":{"message":"the engine fell over"}}\n\n'));
    await ask(page, "and again");
    assert.equal(await lastText(page), "Half");
    assert.match(await answers(page).last().innerText(), /the engine fell over/);
    assert.deepEqual(problems, []);
    await close();
  },

  async "shows metrics and the plan"(browser, url) {
    const { page, problems, close } = await open(browser, `${url}/status`);
    await page.locator(".state.live").waitFor();
    assert.ok((await page.locator(".plan rect").count()) > 30);
    assert.match(await page.locator(".legend").innerText(), /cpu\s+\d+(\.\d)? MiB/);
    const body = { model: "sprout", messages: [{ role: "user", content: story }], temperature: 2, max_tokens: 400 };
    const work = [1, 2, 3].map((seed) => fetch(`${url}/v1/chat/completions`, { method: "POST", body: JSON.stringify({ ...body, seed }) }));
    const value = async (title) => (await page.locator(".chart", { hasText: title }).locator("b").first().innerText()).replace(/[^\d.]/g, "");
    await eventually("tokens per second", async () => Number(await value("Generated")) > 0);
    await Promise.all(work);
    await page.waitForTimeout(pictures ? 6000 : 1500);
    assert.ok(Number(await value("Time to first token")) > 0);

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

const keyChecks = {
  async "asks for the API key when the server requires one"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await page.locator("dialog[open]").waitFor();
    await picture(page, "key");
    await page.keyboard.press("Escape"); // the dialog must not reopen
    await page.locator("dialog").waitFor({ state: "detached" });
    await page.waitForTimeout(300);
    assert.equal(await page.locator("dialog").count(), 0);
    await send(page, question);
    await page.locator("dialog[open]").waitFor();
    assert.match(await answers(page).last().innerText(), /401: .*API key/);
    await page.fill("dialog [name=key]", "secret");
    await page.click("dialog button[type=submit]");
    await page.locator("#model option", { hasText: "sprout" }).waitFor({ state: "attached" });
    await setting(page, { temperature: "0" });
    await page.locator(".note button").click();
    await eventually("an answer", async () => (await lastText(page)) === sum);
    await page.goto(`${url}/status`);
    await page.locator(".state.live").waitFor();
    assert.deepEqual(problems, []);
    await close();
  },
};

const browser = await chromium.launch({
  executablePath,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
let numFailed = 0;
try {
  for (const [list, keys] of [[checks, undefined], [keyChecks, "secret"]]) {
    const { server, url } = await start(keys);
    try {
      for (const [name, check] of Object.entries(list)) {
        if (process.env.ONLY && !name.includes(process.env.ONLY)) continue;
        try {
          await check(browser, url);
          console.log(`ok: ${name}`);
        } catch (error) {
          ++numFailed;
          console.error(`FAILED: ${name}\n${error.stack}`);
        }
      }
    } finally {
      server.kill();
    }
  }
} finally {
  await browser.close();
}
process.exit(numFailed === 0 ? 0 : 1);
