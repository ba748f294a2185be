// The pages of a server with API keys.

import assert from "node:assert/strict";
import { question, sum, eventually, open, picture, answers, lastText, send, setting, textOf } from "./helpers.mjs";

export const keyChecks = {
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
    assert.match(await textOf(answers(page).last()), /requires an API key/);
    await page.fill("dialog [name=key]", "guess");
    await page.click("dialog button[type=submit]");
    await page.locator("dialog .note", { hasText: "The API key is wrong." }).waitFor();
    await page.fill("dialog [name=key]", "secret");
    await page.click("dialog button[type=submit]");
    await page.locator("#model", { hasText: "sprout" }).waitFor();
    await setting(page, { temperature: "0" });
    assert.deepEqual(await page.locator(".note button").allInnerTexts(), ["Enter the API key"]);
    await answers(page).last().locator("[aria-label='Answer again']").click();
    await eventually("an answer", async () => (await lastText(page)) === sum);
    await page.goto(`${url}/status`);
    await page.locator(".state.live").waitFor();
    assert.deepEqual(problems, []);
    await close();
  },
};
