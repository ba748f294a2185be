// page.mjs GRAFT MODEL CHROMIUM: starts `graft serve` and tests its web pages in a browser. ONLY=PATTERN runs the checks
// whose names match the regular expression.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { chatChecks } from "./chat.mjs";
import { featureChecks } from "./features.mjs";
import { imageChecks } from "./images.mjs";
import { keyChecks } from "./keys.mjs";
import { speedChecks } from "./speed.mjs";
import { modelChecks, statusChecks } from "./status.mjs";

const [graft, model, executablePath] = process.argv.slice(2);

async function start(keys) {
  const server = spawn(graft, ["serve", "--port", "0", "--model", `sprout=${model}`, "--model", `other=${model}`], {
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

const browser = await chromium.launch({
  executablePath,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
let numFailed = 0;
try {
  for (const [list, keys] of [[{ ...chatChecks, ...featureChecks, ...imageChecks, ...speedChecks, ...statusChecks, ...modelChecks }, undefined], [keyChecks, "secret"]]) {
    const { server, url } = await start(keys);
    try {
      for (const [name, check] of Object.entries(list)) {
        if (process.env.ONLY && !new RegExp(process.env.ONLY).test(name)) continue;
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
