// The chat page: questions and answers, chats, settings, errors.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { answers, ask, bubbles, eventually, fitsTheWidth, isDone, lastText, longAnswer, mockStream, open, picture, properEnd, question, rowMenu, send, setting, story, streamOf, sum } from "./helpers.mjs";

export const chatChecks = {
  async "sends a question and streams the answer"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await page.locator("#model", { hasText: /sprout\s*37 MiB · Q6_K · cpu/ }).waitFor();
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
    assert.deepEqual(await bubbles(page), ["Find the sum of 5 and 7."]);
    await eventually("the size of the context", async () => /^\d\d of 4,096 tokens$/.test(await page.locator(".gauge").innerText()));
    assert.deepEqual(problems, []);
    await close();
  },

  // An answer stands closer to its question than to the next one.
  async "suggests what the model can do"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await page.locator("#model", { hasText: "sprout" }).waitFor();
    await setting(page, { temperature: "0" });
    await page.locator(".suggestions button").first().click();
    await isDone(page);
    assert.match(await lastText(page), /^I can do small sums/);
    await ask(page, question);
    const boxes = await page.locator(".message").evaluateAll((nodes) =>
      nodes.map((node) => [node.querySelector(".bubble, .markdown").getBoundingClientRect()].map(({ top, bottom }) => ({ top, bottom }))[0]));
    assert.equal(boxes.length, 4);
    assert.ok(boxes[1].top - boxes[0].bottom < boxes[2].top - boxes[1].bottom, JSON.stringify(boxes));
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

    await rowMenu(page, "Rename");
    await page.fill(".chat-row input", "Numbers");
    await page.press(".chat-row input", "Enter");
    await page.waitForTimeout(1200);
    await page.reload();
    assert.deepEqual(await page.locator(".chat-title").allInnerTexts(), ["Numbers", question]);
    await page.click("#settings");
    assert.equal(await page.inputValue("dialog [name=system]"), "Think step by step.");
    await picture(page, "settings");
    await page.keyboard.press("Escape");

    const [file] = await Promise.all([page.waitForEvent("download"), rowMenu(page, "Export as JSON")]);
    const exported = JSON.parse(readFileSync(await file.path(), "utf8"));
    assert.equal(exported.title, "Numbers");
    assert.equal(exported.messages[0].content, "one\ntwo");

    await rowMenu(page, "Delete");
    assert.equal(await page.locator(".chat-row").count(), 1);
    await page.locator(".toast button").click();
    assert.equal(await page.locator(".chat-row").count(), 2);
    await rowMenu(page, "Delete");
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
    // The same request would fail again: the setting is offered instead, with the reason.
    assert.deepEqual(await page.locator(".note button").allInnerTexts(), ["Change the setting"]);
    await page.locator(".note button").click();
    assert.equal(await page.evaluate(() => document.activeElement.name), "top_p");
    assert.match(await page.locator("#reason-top_p").innerText(), /400: .*top_p/);
    await page.fill("dialog [name=top_p]", "2");
    assert.equal(await page.locator("#reason-top_p").innerText(), "Must be between 0 and 1.");
    await page.fill("dialog [name=top_p]", "");
    await page.click("dialog button[type=submit]");
    await answers(page).last().locator("[aria-label='Answer again']").click();
    await eventually("an answer", async () => /63/.test(await lastText(page)));
    await isDone(page); // questions are not sent before

    await mockStream(page, streamOf([{ content: "It begins" }], ""));
    await ask(page, "again");
    assert.equal(await lastText(page), "It begins");
    assert.match(await answers(page).last().innerText(), /connection was lost/);
    assert.deepEqual(await page.locator(".note button").allInnerTexts(), ["Continue", "Try again"]);
    await mockStream(page, streamOf([{ content: "Half" }], 'data: {"error":{"message":"the engine fell over"}}\n\n'));
    await ask(page, "and again");
    assert.equal(await lastText(page), "Half");
    assert.match(await answers(page).last().innerText(), /the engine fell over/);
    assert.deepEqual(await answers(page).last().locator(".note button").allInnerTexts(), ["Try again"]);
    assert.deepEqual(problems, []);
    await close();
  },

};
