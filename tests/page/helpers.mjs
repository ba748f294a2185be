// What the checks of the web pages share.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const pictures = process.env.SCREENSHOTS;
export const question = "Find the sum of 62 and 1.";
export const sum = "62 + 1 = 63";
export const story = "Tell me a long story about a fox.";
export const longAnswer = readFileSync(new URL("long_answer.md", import.meta.url), "utf8");
if (pictures) mkdirSync(pictures, { recursive: true });

export async function eventually(what, holds) {
  let last;
  for (let i = 0; i < 600; ++i) {
    last = await holds();
    if (last) return last;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`timeout: ${what}`);
}

// PAGES=web/dist tests the pages of this folder, with the server's policy, instead of those in the program, which need a
// build of it.
async function servePages(page) {
  const folder = process.env.PAGES;
  if (!folder) return;
  await page.route(/\/(status)?$/, async (route) => {
    const { "content-security-policy": policy } = (await route.fetch()).headers();
    assert.ok(policy, "a page has a policy");
    const name = route.request().url().endsWith("/status") ? "status.html" : "index.html";
    await route.fulfill({ path: join(folder, name), headers: { "Content-Type": "text/html", "Content-Security-Policy": policy } });
  });
  await page.route(/\/assets\//, (route) => route.fulfill({ path: join(folder, new URL(route.request().url()).pathname) }));
}

// Opens a page in a fresh browser context and records script errors and requests to other origins.
export async function open(browser, url, options = {}) {
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
  await servePages(page);
  await page.goto(url);
  return { page, problems, close: () => context.close() };
}

export const picture = async (page, name, options = {}) => pictures && page.screenshot({ path: join(pictures, `${name}.png`), ...options });
export const answers = (page) => page.locator(".answer");
// A message is laid out, and has an innerText, one frame after it is in the DOM.
export const textOf = (locator) => eventually("a text", async () => (await locator.innerText()).trim());
export const lastText = (page) => textOf(answers(page).last().locator("> .markdown"));
export const isDone = (page) => answers(page).last().locator(".actions [aria-label='Answer again']").waitFor();
// A bubble is there before its text is.
export const bubbles = (page) =>
  eventually("texts in all bubbles", async () => {
    const texts = await page.locator(".bubble").allInnerTexts();
    return texts.every((text) => text !== "") && texts;
  });

export async function send(page, text) {
  await page.fill("#question", text);
  await page.press("#question", "Enter");
}

export async function ask(page, text) {
  await send(page, text);
  await page.locator(".bubble", { hasText: text }).last().waitFor();
  await isDone(page);
  return lastText(page);
}

export async function setting(page, values) {
  await page.click("#settings");
  const folded = page.locator("dialog details:not([open]) summary");
  if (await folded.count()) await folded.click();
  for (const [name, value] of Object.entries(values)) {
    const input = page.locator(`dialog [name=${name}]`);
    if ((await input.evaluate((node) => node.tagName)) === "SELECT") await input.selectOption(value);
    else await input.fill(value);
  }
  await page.click("dialog button[type=submit]");
}

// An entry of the menu of the current chat.
export async function rowMenu(page, label) {
  const row = page.locator(".chat-row.current");
  await row.hover();
  await row.locator("[aria-haspopup=menu]").click();
  await page.locator(".menu [role=menuitem]", { hasText: label }).click();
}

export const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

// No finding of axe-core that it calls serious or critical.
export async function isAccessible(page) {
  await page.evaluate(axe); // the page's policy forbids a script element
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join("; ")}`), []);
}

export async function fitsTheWidth(page) {
  const [content, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(content <= room, `${content} pixels of page in ${room}`);
}

// A server's event stream, for cases that Sprout does not produce.
export const streamOf = (deltas, end) =>
  deltas.map((delta) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`).join("") + end;
export const endOf = (reason) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: reason }] })}\n\ndata: ${JSON.stringify({
  choices: [],
  usage: { prompt_tokens: 31, completion_tokens: 412, prompt_tokens_details: { cached_tokens: 16 } },
})}\n\ndata: [DONE]\n\n`;
export const properEnd = endOf("stop");

export async function mockStream(page, body) {
  await page.route("**/v1/chat/completions", (route) => route.fulfill({ status: 200, contentType: "text/event-stream", body }));
}
