// The chat page: versions, tool calls, formulas, files, search, import and export, continued answers, presets.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { answers, ask, bubbles, endOf, eventually, isAccessible, isDone, lastText, longAnswer, mockStream, open, picture, properEnd, question, rowMenu, send, setting, streamOf, sum, textOf } from "./helpers.mjs";

const priceTool = JSON.stringify({
  name: "get_price",
  description: "Get the price of an item",
  parameters: { type: "object", properties: { item: { type: "string", description: "The item" } }, required: ["item"] },
});
const formulas = String.raw`The area is $\int_0^1 x^2\,dx = \frac{1}{3}$.

$$
x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}
$$

| n | $n^2$ |
|--:|---|
| 2 | 4 |

Unknown: $\foo{x}$, and it costs $5 or $10.`;

export const featureChecks = {
  async "keeps versions of questions and answers"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await setting(page, { temperature: "0" });
    await ask(page, question);
    await ask(page, "Find the sum of 5 and 7.");
    const first = answers(page).first();
    await first.locator("[aria-label='Answer again']").click();
    await first.locator(".versions", { hasText: "2/2" }).waitFor();
    assert.deepEqual(await bubbles(page), [question]);
    await picture(page, "versions");
    await first.locator("[aria-label='Previous version']").click();
    assert.deepEqual(await bubbles(page), [question, "Find the sum of 5 and 7."]);

    await page.locator(".user").first().hover();
    await page.locator(".user").first().locator("[aria-label=Edit]").click();
    await page.fill(".edit-area", "Find the sum of 1 and 1.");
    await page.press(".edit-area", "Enter");
    await isDone(page);
    assert.deepEqual(await bubbles(page), ["Find the sum of 1 and 1."]);
    await page.locator(".toast button", { hasText: "Undo" }).click();
    assert.deepEqual(await bubbles(page), [question, "Find the sum of 5 and 7."]);
    assert.equal(await page.locator(".user .versions").count(), 0);

    await page.waitForTimeout(1200);
    await page.reload();
    await isDone(page);
    await answers(page).first().locator("[aria-label='Next version']").click();
    assert.deepEqual(await bubbles(page), [question]);
    assert.deepEqual(problems, []);
    await close();
  },

  async "shows tool calls and sends their results"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await setting(page, { temperature: "0", tools: priceTool });
    await send(page, "How much does the item watch cost?");
    await isDone(page);
    const call = page.locator(".answer .call");
    assert.match(await call.locator("summary").innerText(), /Calls\s+get_price\s+\{"item":\s*"watch"\}/);
    assert.equal(await call.locator("pre").isVisible(), false);
    assert.doesNotMatch(await page.locator(".log").innerText(), /tool_call/);
    await call.locator("summary").click();
    assert.equal(await call.locator("pre").innerText(), '{\n  "item": "watch"\n}');
    await page.fill("[name=result]", '{"price": 12}');
    await picture(page, "tools");
    await isAccessible(page);
    await page.locator(".results button").click();
    await eventually("the price", async () => /12/.test(await lastText(page)));
    await isDone(page);
    assert.match(await page.locator(".tool summary").innerText(), /Result of\s+get_price/);
    assert.equal(await page.locator(".results").count(), 0);

    // Without tools in the request, the server leaves the call in the text.
    await mockStream(page, streamOf([{ content: "Wait.\n<tool_call>\n" }, { content: '{"name": "f", "arguments": {"a": 1}}\n</tool_call>' }], properEnd));
    await ask(page, "And now?");
    assert.equal(await lastText(page), "Wait.");
    assert.match(await page.locator(".answer .call").last().innerText(), /Calls\s+f/);
    await mockStream(page, streamOf([{ content: '{"name": "Anna", ' }, { content: '"age": 31}' }], properEnd));
    await ask(page, "As JSON");
    assert.match(await lastText(page), /\{\n  "name": "Anna",\n  "age": 31\n\}/);

    await setting(page, { tools: "[{" });
    await send(page, "again");
    await isDone(page);
    assert.match(await textOf(answers(page).last().locator(".note")), /tools: .*JSON/);
    assert.deepEqual(problems, []);
    await close();
  },

  async "renders formulas and tables"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await mockStream(page, streamOf(formulas.match(/[\s\S]{1,5}/g).map((content) => ({ content })), properEnd));
    await ask(page, "Some formulas");
    const answer = answers(page).last();
    assert.equal(await answer.locator("math").count(), 3);
    const square = answer.locator("math").first().locator("msup", { hasText: "x2" });
    assert.equal(await square.evaluate((node) => node.namespaceURI), "http://www.w3.org/1998/Math/MathML");
    const [base, power] = await square.evaluate(({ children }) => [...children].map((child) => child.getBoundingClientRect().bottom));
    assert.ok(power < base - 2, "the exponent is raised");
    assert.equal(await answer.locator("math[display=block] mfrac msqrt").count(), 1);
    assert.deepEqual(await answer.locator(".math-source").allInnerTexts(), ["$\\foo{x}$"]);
    assert.match(await lastText(page), /it costs \$5 or \$10\./);
    await picture(page, "formulas");
    assert.deepEqual(problems, []);
    await close();
  },

  async "attaches text files"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await page.setInputFiles("#files", [
      { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("The code word is lantern.\n") },
      { name: "photo.png", mimeType: "image/png", buffer: Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 1, 2, 0xff]) },
    ]);
    await page.locator(".toast", { hasText: "“photo.png” is neither text nor an image" }).waitFor();
    assert.match(await page.locator(".chips").innerText(), /notes\.txt\s+26 B/);
    const sent = page.waitForRequest("**/v1/chat/completions");
    await send(page, "What is the code word?");
    const { messages } = (await sent).postDataJSON();
    assert.equal(messages[0].content, "notes.txt:\n```\nThe code word is lantern.\n```\n\nWhat is the code word?");
    await isDone(page);
    assert.match(await page.locator(".user .file").innerText(), /notes\.txt/);
    assert.equal(await page.locator(".chips li").count(), 0);
    assert.deepEqual(problems, []);
    await close();
  },

  async "searches, exports and imports chats"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await setting(page, { temperature: "0" });
    await ask(page, question);
    await page.keyboard.press("Control+k");
    await ask(page, "What is the capital of France?");
    await page.fill("#search", "paris");
    await eventually("one chat", async () => (await page.locator(".chat-row").count()) === 1);
    assert.match(await page.locator(".chat-row").innerText(), /France\?\s+.*Paris/s);
    await page.fill("#search", "nothing like this");
    assert.match(await page.locator(".chats").innerText(), /No chat has these words/);
    await page.fill("#search", "63");
    await page.locator(".chat-row .chat-title").click();
    await page.locator(".answer.marked").waitFor();
    await page.fill("#search", "");

    const [file] = await Promise.all([page.waitForEvent("download"), rowMenu(page, "Export as Markdown")]);
    const markdown = readFileSync(await file.path(), "utf8");
    assert.match(file.suggestedFilename(), /\.md$/);
    assert.match(markdown, /^# Find the sum of 62 and 1\.[\s\S]*## User[\s\S]*## Assistant \(sprout\)[\s\S]*62 \+ 1 = 63/);
    const [all] = await Promise.all([
      page.waitForEvent("download"),
      page.click("#all-chats").then(() => page.locator(".menu [role=menuitem]", { hasText: "Export all" }).click()),
    ]);
    await rowMenu(page, "Delete");
    await rowMenu(page, "Delete");
    assert.equal(await page.locator(".chat-row").count(), 0);
    await page.setInputFiles("#import", await all.path());
    await page.locator(".toast", { hasText: "2 chats imported" }).waitFor();
    assert.equal(await page.locator(".chat-row").count(), 2);
    await page.setInputFiles("#import", { name: "one.md", mimeType: "text/markdown", buffer: Buffer.from(markdown) });
    await page.locator(".toast", { hasText: "1 chats imported" }).waitFor();
    assert.equal(await lastText(page), sum);
    await page.setInputFiles("#import", { name: "bad.json", mimeType: "application/json", buffer: Buffer.from("{}") });
    await page.locator(".toast", { hasText: "“bad.json” has no chats" }).waitFor();
    assert.equal(await page.locator(".chat-row").count(), 3);
    assert.deepEqual(problems, []);
    await close();
  },

  // The request is answered here: it is checked, not the server.
  async "continues a cut answer"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await mockStream(page, streamOf([{ content: "There was once" }], endOf("length")));
    await ask(page, "A story");
    assert.match(await answers(page).last().locator(".note").innerText(), /token limit/);
    const bodies = [];
    await page.route("**/v1/chat/completions", (route) => {
      bodies.push(route.request().postDataJSON());
      return route.fulfill({ status: 200, contentType: "text/event-stream", body: streamOf([{ content: " a fox." }], properEnd) });
    });
    await page.locator(".note button", { hasText: "Continue" }).click();
    await eventually("the rest", async () => (await lastText(page)) === "There was once a fox.");
    await isDone(page);
    assert.deepEqual(bodies[0].messages.at(-1), { role: "assistant", content: "There was once" });
    assert.equal(bodies[0].continue_final_message, true);
    assert.equal(bodies[0].add_generation_prompt, false);
    assert.match(await answers(page).last().locator(".stats").innerText(), /824 tokens/);
    assert.equal(await answers(page).count(), 1);
    assert.equal(await answers(page).last().locator(".note").isVisible(), false);
    assert.deepEqual(problems, []);
    await close();
  },

  async "sends settings and keeps presets"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await page.click("#settings");
    await page.selectOption("dialog [name=preset]", "Think step by step.");
    assert.equal(await page.inputValue("dialog [name=system]"), "Think step by step.");
    await page.fill("dialog [name=system]", "You are a sailor.");
    await page.locator("dialog .presets button", { hasText: "Save as preset" }).click();
    await page.fill("dialog [name=system]", "");
    await page.selectOption("dialog [name=preset]", "You are a sailor.");
    await isAccessible(page);
    await picture(page, "settings-presets");
    await page.click("dialog button[type=submit]");
    await setting(page, { min_p: "0.1", repetition_penalty: "1.1", stop: "one\ntwo", thinking: "off", response_format: "json" });
    const sent = page.waitForRequest("**/v1/chat/completions");
    await send(page, question);
    const { messages, min_p, repetition_penalty, stop, chat_template_kwargs, response_format } = (await sent).postDataJSON();
    assert.deepEqual(messages[0], { role: "system", content: "You are a sailor." });
    assert.deepEqual({ min_p, repetition_penalty, stop, chat_template_kwargs, response_format }, {
      min_p: 0.1,
      repetition_penalty: 1.1,
      stop: ["one", "two"],
      chat_template_kwargs: { enable_thinking: false },
      response_format: { type: "json_object" },
    });
    await isDone(page);
    assert.deepEqual(problems, []);
    await close();
  },

  async "is accessible"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await page.locator("#model", { hasText: "sprout" }).waitFor();
    await isAccessible(page);
    await mockStream(page, streamOf([{ reasoning_content: "Hm." }, { content: longAnswer }, { content: `\n\n${formulas}` }], properEnd));
    await ask(page, "A palindrome, please");
    await page.waitForTimeout(1000);
    await isAccessible(page);
    await page.emulateMedia({ colorScheme: "dark" });
    await isAccessible(page);
    await page.click("#model");
    await isAccessible(page);
    await page.keyboard.press("Escape");
    await page.locator(".chat-row.current").hover();
    await page.locator(".chat-row.current [aria-haspopup=menu]").click();
    await isAccessible(page);
    await page.keyboard.press("ArrowDown");
    assert.match(await page.evaluate(() => document.activeElement.textContent), /JSON/);
    await page.keyboard.press("Escape");
    await page.locator(".menu").waitFor({ state: "detached" });
    assert.deepEqual(problems, []);
    await close();
  },
};
