// The chat page with 500 messages: CPU time of the page's thread, which does not depend on what else the machine
// does. The limits are several times what it needs.

import assert from "node:assert/strict";
import { answers, ask, longAnswer, mockStream, open, properEnd, streamOf } from "./helpers.mjs";

const numMessages = 500;

function longChat() {
  const messages = [];
  for (let i = 0; i < numMessages; i += 2) {
    messages.push({ id: `q${i}`, role: "user", content: `Question ${i}` });
    messages.push({ id: `a${i}`, role: "assistant", content: longAnswer, end: "stop", model: "sprout" });
  }
  return { id: "long", title: "Long", model: "sprout", settings: {}, messages, updated: 1 };
}

export const speedChecks = {
  async "is fast with 500 messages"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await page.setInputFiles("#import", { name: "long.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(longChat())) });
    await page.locator(".chat-title", { hasText: "Long" }).waitFor();
    await page.keyboard.press("Control+k");
    const session = await page.context().newCDPSession(page);
    await session.send("Performance.enable", { timeDomain: "threadTicks" });
    const cpu = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value * 1000;
    // CPU milliseconds until the page has drawn what `work` changed.
    const cost = async (work) => {
      const before = await cpu();
      await work();
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      return (await cpu()) - before;
    };
    const opened = await cost(async () => {
      await page.locator(".chat-title", { hasText: "Long" }).click();
      await answers(page).last().locator("table").waitFor();
    });
    const typed = (await cost(() => page.locator("#question").pressSequentially("twenty characters..."))) / 20;
    await page.fill("#question", "");
    await mockStream(page, streamOf(longAnswer.match(/[\s\S]{1,7}/g).map((content) => ({ content })), properEnd));
    const answered = await cost(() => ask(page, "And one more?"));
    console.log(`  ${numMessages} messages: shown in ${Math.round(opened)} ms, ${typed.toFixed(1)} ms per key, an answer of ${longAnswer.length} characters in ${Math.round(answered)} ms`);
    const atEnd = await page.locator(".scroller").evaluate((node) => node.scrollHeight - node.scrollTop - node.clientHeight);
    assert.ok(atEnd < 40, `${atEnd} pixels below the end`);
    assert.ok(opened < 5000 && typed < 50 && answered < 3000);
    assert.deepEqual(problems, []);
    await close();
  },
};
