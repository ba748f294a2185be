// The chat page: images of questions. Sprout reads none: where one has to be sent, the page is told that it does, and the
// request is answered here.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { deflateSync } from "node:zlib";
import { answers, eventually, fitsTheWidth, isAccessible, isDone, open, picture, properEnd, rowMenu, send, streamOf, textOf } from "./helpers.mjs";

// zlib.crc32 is not in Node 18.
function crc32(bytes) {
  let sum = ~0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let i = 0; i < 8; ++i) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
}

function png(width, height, [red, green, blue]) {
  const chunk = (name, data) => {
    const body = Buffer.concat([Buffer.from(name), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  const row = Buffer.from([0, ...Array.from({ length: width }, () => [red, green, blue]).flat()]);
  const rows = deflateSync(Buffer.concat(Array.from({ length: height }, () => row)));
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", head), chunk("IDAT", rows), chunk("IEND", Buffer.alloc(0))]);
}

function bmp([red, green, blue]) {
  const file = Buffer.alloc(58);
  file.write("BM");
  for (const [at, value] of [[2, 58], [10, 54], [14, 40], [18, 1], [22, 1], [26, 0x180001], [34, 4]]) file.writeUInt32LE(value, at);
  file.set([blue, green, red], 54);
  return file;
}

const blue = png(400, 200, [20, 60, 200]);
const red = png(30, 60, [220, 30, 30]);
const gif = Buffer.from("R0lGODlhAQABAIAAAP8AAP///yH5BAAAAAAALAAAAAABAAEAAAICRAEAOw==", "base64");
const file = (name, buffer) => ({ name, mimeType: "application/octet-stream", buffer });
const urlOf = (buffer, type = "png") => `data:image/${type};base64,${buffer.toString("base64")}`;
const part = (url) => ({ type: "image_url", image_url: { url } });
const chips = (page) => page.locator(".composer .chips li");
const shown = (page) => page.locator(".user .images canvas");

const withVision = (page) => page.route("**/api/show", (route) => route.fulfill({ json: { capabilities: ["completion", "vision"] } }));

// The bodies of the requests, which get a short answer.
async function record(page) {
  const bodies = [];
  await page.route("**/v1/chat/completions", (route) => {
    bodies.push(route.request().postDataJSON());
    return route.fulfill({ status: 200, contentType: "text/event-stream", body: streamOf([{ content: "I see." }], properEnd) });
  });
  return bodies;
}

// "paste" into the input or "drop" on it, as the browser does.
const give = (page, kind, name, buffer, text = "") =>
  page.evaluate(
    ([kind, name, bytes, text]) => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(bytes)], name, { type: "image/png" }));
      if (text) data.setData("text/plain", text);
      const options = { bubbles: true, cancelable: true, clipboardData: data, dataTransfer: data };
      const event = kind === "paste" ? new ClipboardEvent(kind, options) : new DragEvent(kind, options);
      return !document.querySelector("#question").dispatchEvent(event);
    },
    [kind, name, [...buffer], text],
  );

// The colour in the middle of a canvas, once it is drawn.
const colour = (canvas) =>
  eventually("a drawn image", () =>
    canvas.evaluate((node) => {
      const { data } = node.getContext("2d").getImageData(node.width >> 1, node.height >> 1, 1, 1);
      return data[3] === 255 && [...data.slice(0, 3)].join();
    }),
  );

export const imageChecks = {
  async "sends images and shows them"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await withVision(page);
    const bodies = await record(page);
    await page.setInputFiles("#files", [file("sea.png", blue), file("note.txt", Buffer.from("hello"))]);
    await chips(page).nth(1).waitFor();
    assert.equal(await give(page, "paste", "pasted.png", red), true);
    await chips(page).nth(2).waitFor();
    assert.equal(await give(page, "paste", "cell.png", red, "text of a table"), false, "text is pasted as text");
    assert.equal(await give(page, "drop", "dropped.gif", gif), true);
    await chips(page).nth(3).waitFor();
    assert.equal(await chips(page).count(), 4);
    const thumbnail = page.locator(".chips canvas[aria-label='Image: sea.png']");
    assert.equal(await colour(thumbnail), "20,60,200");
    await picture(page, "images-composer");
    await isAccessible(page);
    await page.locator("[aria-label='Delete: dropped.gif']").focus();
    await page.keyboard.press("Enter");
    assert.equal(await chips(page).count(), 3);
    await send(page, "What is this?");
    await isDone(page);
    const text = "note.txt:\n```\nhello\n```\n\nWhat is this?";
    assert.deepEqual(bodies[0].messages, [{ role: "user", content: [part(urlOf(blue)), part(urlOf(red)), { type: "text", text }] }]);
    assert.equal(await chips(page).count(), 0);
    assert.equal(await shown(page).count(), 2);
    assert.equal(await colour(shown(page).first()), "20,60,200");
    const hasShape = async (canvas, shape) => {
      const { width, height } = await canvas.boundingBox();
      assert.ok(Math.abs(width / height / shape - 1) < 0.1, `${width} x ${height}`);
    };
    await hasShape(shown(page).first(), 2);
    await hasShape(shown(page).last(), 0.5);
    await picture(page, "images");
    await isAccessible(page);
    await page.emulateMedia({ colorScheme: "dark" });
    await isAccessible(page);
    await picture(page, "images-dark");
    await page.setViewportSize({ width: 360, height: 700 });
    await fitsTheWidth(page);
    await hasShape(shown(page).first(), 2);
    assert.deepEqual(problems, []);
    await close();
  },

  async "keeps images in versions, the storage and files"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await withVision(page);
    const bodies = await record(page);
    await page.setInputFiles("#files", [file("sea.png", blue), file("fire.png", red)]);
    await chips(page).nth(1).waitFor();
    await page.press("#question", "Enter"); // images without a text
    await isDone(page);
    assert.deepEqual(bodies[0].messages[0].content, [part(urlOf(blue)), part(urlOf(red))]);
    assert.equal(await page.locator(".chat-row .chat-title").innerText(), "sea.png");

    await answers(page).last().locator("[aria-label='Answer again']").click();
    await eventually("the second request", () => bodies.length === 2);
    assert.deepEqual(bodies[1].messages, bodies[0].messages);
    await isDone(page);

    await page.locator(".user").hover();
    await page.locator(".user [aria-label=Edit]").click();
    await isAccessible(page);
    await page.locator(".editor [aria-label='Delete: sea.png']").click();
    await page.fill(".edit-area", "And this?");
    await picture(page, "images-edit");
    await page.press(".edit-area", "Enter");
    await eventually("the third request", () => bodies.length === 3);
    assert.deepEqual(bodies[2].messages[0].content, [part(urlOf(red)), { type: "text", text: "And this?" }]);
    await isDone(page);
    assert.equal(await shown(page).count(), 1);
    await page.locator(".user [aria-label='Previous version']").click();
    assert.equal(await shown(page).count(), 2);

    await page.waitForTimeout(1200);
    await page.reload();
    assert.equal(await colour(shown(page).nth(1)), "220,30,30");
    const [json] = await Promise.all([page.waitForEvent("download"), rowMenu(page, "Export as JSON")]);
    assert.deepEqual(JSON.parse(readFileSync(await json.path(), "utf8")).messages[0].images[0], { name: "sea.png", url: urlOf(blue) });
    const [markdown] = await Promise.all([page.waitForEvent("download"), rowMenu(page, "Export as Markdown")]);
    assert.match(readFileSync(await markdown.path(), "utf8"), /## User\n\n\*Image: sea\.png\*\n\n\*Image: fire\.png\*/);
    await rowMenu(page, "Delete");
    await page.setInputFiles("#import", await json.path());
    assert.equal(await colour(shown(page).first()), "20,60,200");
    assert.deepEqual(problems, []);
    await close();
  },

  async "reads every format"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await withVision(page);
    const drawn = (type) =>
      page.evaluate(async (type) => {
        const canvas = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
        canvas.getContext("2d").fillRect(0, 0, 8, 8);
        const blob = await new Promise((resolve) => canvas.toBlob(resolve, type));
        return [...new Uint8Array(await blob.arrayBuffer())];
      }, type);
    const files = { png: red, jpeg: Buffer.from(await drawn("image/jpeg")), webp: Buffer.from(await drawn("image/webp")), gif, bmp: bmp([220, 30, 30]) };
    await page.setInputFiles("#files", Object.entries(files).map(([type, bytes]) => file(type, bytes)));
    await chips(page).nth(4).waitFor();
    for (const type of Object.keys(files)) await colour(page.locator(`.chips canvas[title=${type}]`));
    const bodies = await record(page);
    await send(page, "Which?");
    await isDone(page);
    const urls = bodies[0].messages[0].content.slice(0, 5).map(({ image_url }) => image_url.url);
    assert.deepEqual(urls, Object.entries(files).map(([type, bytes]) => urlOf(bytes, type)));
    assert.deepEqual(problems, []);
    await close();
  },

  async "refuses images that cannot be sent"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    const refused = async (name, buffer, reason) => {
      await page.setInputFiles("#files", [file(name, buffer)]);
      await page.locator(".toast", { hasText: reason }).waitFor();
      assert.equal(await chips(page).count(), 0);
    };
    await refused("big.png", Buffer.concat([red, Buffer.alloc(32 << 20)]), "“big.png” has 32 MiB; at most 32 MiB can be attached.");
    await refused("half.png", blue.subarray(0, 30), "“half.png” is an image that cannot be decoded.");
    await refused("wide.gif", Buffer.concat([Buffer.from("GIF89a"), Buffer.alloc(20)]), "“wide.gif” is an image that cannot be decoded.");

    // The server itself says that this model has no vision.
    await page.setInputFiles("#files", [file("fire.png", red)]);
    const refusal = page.locator(".composer [role=status]", { hasText: "The model sprout does not read images." });
    await refusal.waitFor();
    await isAccessible(page);
    await picture(page, "images-refused");
    let isSent = false;
    page.on("request", (request) => (isSent ||= request.url().endsWith("/v1/chat/completions")));
    await send(page, "What is this?");
    await page.locator(".toast", { hasText: "does not read images" }).waitFor();
    assert.equal(await page.inputValue("#question"), "What is this?");
    await page.locator("[aria-label='Delete: fire.png']").click();
    await refusal.waitFor({ state: "detached" });
    assert.equal(isSent, false);
    await page.press("#question", "Enter");
    await isDone(page);
    assert.equal(isSent, true);
    assert.deepEqual(problems, []);
    await close();
  },

  async "shows why the server refused an image"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    const chat = [{ role: "user", content: [part(urlOf(red)), { type: "text", text: "What is this?" }] }, { role: "assistant", content: "Red." }];
    await page.setInputFiles("#import", { name: "chat.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(chat)) });
    assert.equal(await colour(shown(page)), "220,30,30");
    await send(page, "Really?");
    await isDone(page);
    assert.match(await textOf(answers(page).last().locator(".note")), /answered 400: .*sprout reads no images/);
    assert.deepEqual(problems, []);
    await close();
  },

  async "tells which images the storage does not keep"(browser, url) {
    const { page, problems, close } = await open(browser, url);
    await withVision(page);
    const bodies = await record(page);
    const large = Buffer.concat([blue, Buffer.alloc(6 << 20)]); // decoders ignore what follows the end
    await page.setInputFiles("#files", [file("large.png", large)]);
    await chips(page).first().waitFor();
    await send(page, "What is this?");
    await page.locator(".toast", { hasText: "storage is full: images of this chat" }).waitFor();
    await isDone(page);
    await page.setInputFiles("#files", [file("fire.png", red)]);
    await chips(page).first().waitFor();
    await send(page, "And this?");
    await eventually("two requests", () => bodies.length === 2);
    await isDone(page);
    assert.equal(bodies[1].messages[0].content[0].image_url.url, urlOf(large), "it is there until the page is closed");

    await page.waitForTimeout(1200);
    await page.reload();
    await page.locator(".no-image", { hasText: "large.png: the image was not kept" }).waitFor();
    assert.equal(await colour(shown(page)), "220,30,30");
    await isAccessible(page);
    await picture(page, "images-dropped");
    await send(page, "Why?");
    await eventually("three requests", () => bodies.length === 3);
    assert.equal(bodies[2].messages[0].content, "[large.png: this image is no longer available]\n\nWhat is this?");
    assert.deepEqual(bodies[2].messages[2].content[0], part(urlOf(red)));
    assert.deepEqual(problems, []);
    await close();
  },
};
