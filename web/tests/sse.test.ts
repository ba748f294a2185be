import { expect, it } from "vitest";
import { EventParser, events } from "../src/sse";

const stream = ': ping\n\ndata: {"a":"héllo 你好 🌱"}\n\nevent: x\r\ndata:one\r\ndata: two\r\n\r\nid: 3\rdata: last\r\rdata: [DONE]\n\ndata: cut';
const want = ['{"a":"héllo 你好 🌱"}', "one\ntwo", "last", "[DONE]"];

it("gives the same events for any chunking", () => {
  const bytes = new TextEncoder().encode(stream);
  for (let size = 1; size <= bytes.length; ++size) {
    const parser = new EventParser();
    const got: string[] = [];
    for (let at = 0; at < bytes.length; at += size) got.push(...parser.push(bytes.subarray(at, at + size)));
    expect(got, `pieces of ${size}`).toEqual(want);
  }
});

it("reads a body, and cancels it when the reader has enough", async () => {
  let isCancelled = false;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new TextEncoder().encode("data: x\n\n")),
    cancel: () => {
      isCancelled = true;
    },
  });
  for await (const event of events(body)) {
    expect(event).toBe("x");
    break;
  }
  expect(isCancelled).toBe(true);
});
