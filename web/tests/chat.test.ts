import { describe, expect, it } from "vitest";
import { addCalls, canRetry } from "../src/chat/answering";
import { indented, splitCalls, withJsonBlock } from "../src/chat/calls";
import { imageBytes, imageType, isImageUrl } from "../src/chat/image";
import { requestBody, SettingError, toolsOf } from "../src/chat/request";
import { search } from "../src/chat/search";
import type { Conversation, Message, ToolCall } from "../src/chat/store";
import { fileName, fromFile, toJson, toMarkdown } from "../src/chat/transfer";
import { attach, cut, drop, everyMessage, renew, switchTo } from "../src/chat/versions";

const user = (content: string): Message => ({ id: `u-${content}`, role: "user", content });
const answer = (content: string, more: Partial<Message> = {}): Message => ({ id: `a-${content}`, role: "assistant", content, end: "stop", ...more });
const chat = (messages: Message[], more: Partial<Conversation> = {}): Conversation => ({ id: "1", title: "", model: "m", settings: {}, messages, updated: 5, ...more });
const png = "data:image/png;base64,iVBORw0KGgo=";
const texts = (messages: Message[]) => messages.map(({ content }) => content);

describe("versions", () => {
  const talk = () => [user("q1"), answer("a1"), user("q2"), answer("a2")];

  it("keeps what followed an answer that is given again", () => {
    const messages = talk();
    const versions = cut(messages, 1);
    messages.push(answer("b1"));
    attach(messages[1]!, versions);
    expect(texts(messages)).toEqual(["q1", "b1"]);
    expect([messages[1]!.version, messages[1]!.versions!.length]).toEqual([1, 2]);
    switchTo(messages, 1, 0);
    expect(texts(messages)).toEqual(["q1", "a1", "q2", "a2"]);
    expect([messages[1]!.version, messages[1]!.versions!.length]).toEqual([0, 2]);
    expect(JSON.parse(JSON.stringify(messages))).toEqual(messages);
    switchTo(messages, 1, 1);
    expect(texts(messages)).toEqual(["q1", "b1"]);
    expect(texts([...everyMessage(messages)])).toEqual(["q1", "b1", "a1", "q2", "a2"]);
  });

  it("nests: a version has versions of its own", () => {
    const messages = talk();
    let versions = cut(messages, 3);
    messages.push(answer("b2"));
    attach(messages[3]!, versions);
    versions = cut(messages, 0);
    messages.push(user("other"));
    attach(messages[0]!, versions);
    switchTo(messages, 0, 0);
    expect(texts(messages)).toEqual(["q1", "a1", "q2", "b2"]);
    switchTo(messages, 3, 0);
    expect(texts(messages)).toEqual(["q1", "a1", "q2", "a2"]);
    expect([...everyMessage(messages)]).toHaveLength(6);
  });

  it("undoes a new version", () => {
    const messages = talk();
    const versions = cut(messages, 0);
    messages.push(user("new"));
    attach(messages[0]!, versions);
    drop(messages, 0, 0);
    expect(messages).toEqual(talk());
  });

  it("undoes the third version and keeps the second", () => {
    const messages = [user("q"), answer("a")];
    for (const text of ["b", "c"]) {
      const versions = cut(messages, 1);
      messages.push(answer(text));
      attach(messages[1]!, versions);
    }
    drop(messages, 1, 1);
    expect(texts(messages)).toEqual(["q", "b"]);
    expect([messages[1]!.version, messages[1]!.versions!.length]).toEqual([1, 2]);
  });

  it("replaces a failed answer in its place", () => {
    const messages = [user("q"), answer("a")];
    const versions = cut(messages, 1);
    messages.push(answer("", { end: "error" }));
    attach(messages[1]!, versions);
    const again = renew(messages, 1)!;
    messages.push(answer("b"));
    attach(messages[1]!, again);
    expect([messages[1]!.version, messages[1]!.versions!.length]).toEqual([1, 2]);
    expect(renew([user("q"), answer("")], 1)).toBeUndefined();
  });
});

describe("requests", () => {
  it("have files before the question, in a fence that they do not close", () => {
    const body = requestBody(chat([{ ...user("Why?"), files: [{ name: "a.md", text: "```\nx\n```\n" }] }]));
    expect(body.messages[0]!.content).toBe("a.md:\n````\n```\nx\n```\n````\n\nWhy?");
  });

  it("have images before the text, and the names of those that were not kept", () => {
    const content = (more: Partial<Message>) => requestBody(chat([{ ...user("Why?"), ...more }])).messages[0]!.content;
    const part = { type: "image_url", image_url: { url: png } };
    expect(content({ images: [{ name: "a.png", url: png }] })).toEqual([part, { type: "text", text: "Why?" }]);
    expect(content({ images: [{ name: "a.png", url: png }], content: "" })).toEqual([part]);
    const lost = "[b.png: this image is no longer available]\n\nWhy?";
    expect(content({ images: [{ name: "b.png", url: "" }] })).toBe(lost);
    expect(content({ images: [{ name: "b.png", url: "" }, { name: "a.png", url: png }] })).toEqual([part, { type: "text", text: lost }]);
  });

  it("have calls and results", () => {
    const calls: ToolCall[] = [{ id: "c1", name: "f", arguments: '{"x":1}' }];
    const { messages } = requestBody(chat([user("q"), answer("", { calls }), { id: "t", role: "tool", callId: "c1", content: "2" }]));
    expect(messages).toEqual([
      { role: "user", content: "q" },
      { role: "assistant", content: "", tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: '{"x":1}' } }] },
      { role: "tool", content: "2", tool_call_id: "c1" },
    ]);
  });

  it("have all settings under the server's names", () => {
    const settings = { min_p: 0.1, stop: ["x"], thinking: false, tools: '{"name": "f"}', format: "schema" as const, schema: '{"type":"object"}' };
    expect(JSON.parse(JSON.stringify(requestBody(chat([], { settings }), true)))).toEqual({
      model: "m",
      messages: [],
      min_p: 0.1,
      stop: ["x"],
      tools: [{ type: "function", function: { name: "f" } }],
      response_format: { type: "json_schema", json_schema: { name: "answer", schema: { type: "object" } } },
      chat_template_kwargs: { enable_thinking: false },
      continue_final_message: true,
      add_generation_prompt: false,
    });
  });

  it("refuse tools that are not JSON, with the reason", () => {
    for (const text of ["[", "3", "[{}]"]) expect(() => toolsOf(text)).toThrow(SettingError);
    expect(() => requestBody(chat([], { settings: { tools: "{" } }))).toThrow(SettingError);
  });
});

describe("tool calls", () => {
  it("are put together from deltas", () => {
    const calls: ToolCall[] = [];
    addCalls(calls, [{ index: 0, id: "c", function: { name: "f", arguments: "" } }]);
    addCalls(calls, [{ index: 0, function: { arguments: '{"a"' } }, { index: 1, id: "d", function: { name: "g" } }]);
    addCalls(calls, [{ index: 0, function: { arguments: ":1}" } }]);
    expect(calls).toEqual([
      { id: "c", name: "f", arguments: '{"a":1}' },
      { id: "d", name: "g", arguments: "" },
    ]);
  });

  it.each([
    ["plain", "plain", []],
    ['Let me see.\n<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>', "Let me see.", ["f"]],
    ['<tool_call>{"name": "f", "arg', "", []],
    ["<tool_call>\nnothing\n</tool_call>", "```json\nnothing\n```", []],
    ['```\n<tool_call>{"name": "f"}</tool_call>\n```', '```\n<tool_call>{"name": "f"}</tool_call>\n```', []],
  ])("are found in text: %s", (content, text, names) => {
    const found = splitCalls(content);
    expect(found.text).toBe(text);
    expect(found.calls.map(({ name }) => name)).toEqual(names);
  });

  it("and JSON are indented", () => {
    expect(withJsonBlock('{"a": 1}')).toBe('```json\n{\n  "a": 1\n}\n```');
    expect(withJsonBlock("{no json}")).toBe("{no json}");
    expect(indented("not json")).toBe("not json");
  });
});

describe("files of chats", () => {
  const calls: ToolCall[] = [{ id: "c", name: "f", arguments: "{}" }];
  const versions = [[], [answer("other")]];
  const full = chat([user("q\n<!-- graft:user -->"), answer("a", { model: "m", reasoning: "hm", calls, versions, version: 0 })], { title: "T", settings: { temperature: 0 } });

  it("read JSON back", () => {
    const [read] = fromFile(toJson([full]));
    expect({ ...read, id: "1" }).toEqual(full);
    expect(fromFile(toJson([full, full]))).toHaveLength(2);
    expect(read!.id).not.toBe("1");
  });

  it("read Markdown back", () => {
    const text = toMarkdown(full, "T");
    expect(text).toContain("## Assistant (m)");
    const [read] = fromFile(text);
    expect(read!.title).toBe("T");
    expect(read!.messages[0]).toMatchObject({ role: "user", content: "q\n<!-- graft:user -->" });
    expect(read!.messages[1]!.content).toContain("a");
  });

  it("keep images in JSON and name them in Markdown", () => {
    const images = [{ name: "a.png", url: png }];
    const asked = chat([{ ...user("q"), images }, answer("a")]);
    expect(fromFile(toJson([asked]))[0]!.messages[0]!.images).toEqual(images);
    expect(toMarkdown(asked, "T")).toContain("*Image: a.png*\n\nq");
    const parts = [{ type: "text", text: "q" }, { type: "image_url", image_url: { url: png } }, { type: "image_url", image_url: { url: "http://x/y.png" } }, 3];
    const [read] = fromFile(JSON.stringify([{ role: "user", content: parts }]));
    expect(read!.messages[0]).toMatchObject({ content: "q", images: [{ name: "image 1", url: png }] });
  });

  it("have images of known types only", () => {
    for (const url of ["http://x/y.png", "data:image/svg+xml;base64,AAAA", "data:text/html,<p>", `${png}"`, "data:image/png;base64,", 7]) {
      expect(isImageUrl(String(url))).toBe(false);
      const [read] = fromFile(JSON.stringify({ messages: [{ role: "user", content: "q", images: [{ name: "a", url }, null] }] }));
      expect(read!.messages[0]!.images).toEqual([{ name: "a", url: "" }]);
    }
    const type = (text: string) => imageType(Uint8Array.from(text, (letter) => letter.charCodeAt(0)));
    expect(type("\x89PNG\r\n\x1a\n")).toBe("image/png");
    expect(type("BMW and others")).toBeUndefined();
    expect(type("RIFF....WAVE")).toBeUndefined();
    expect(imageBytes({ name: "a", url: png })).toBe(8);
  });

  it("read lists of messages in OpenAI's format", () => {
    const [read] = fromFile('[{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"a"}]');
    expect(texts(read!.messages)).toEqual(["q", "a"]);
    expect(read!.settings).toEqual({ system: "s" });
  });

  it.each(["", "hello", "{}", "[]", "3", "null", '{"messages": 3}', '[{"role": "user"', '{"conversations": [1, null]}', '{"messages":[{"role":"x"}]}'])(
    "are refused: %s",
    (text) => expect(fromFile(text)).toEqual([]),
  );

  it("do not keep values of other types", () => {
    const [read] = fromFile('{"messages":[{"role":"assistant","content":3,"calls":[{"name":7}],"versions":[[]],"version":4,"files":"x","end":9}]}');
    expect(read!.messages[0]).toEqual({ id: expect.any(String) as string, role: "assistant", content: "", calls: [{ id: "", name: "", arguments: "" }], end: "stop" });
  });

  it("have a name from the title", () => {
    expect(fileName("What is 1/2?", "md")).toBe("What-is-1-2.md");
    expect(fileName("???", "json")).toBe("chat.json");
  });
});

describe("search", () => {
  const chats = [chat([user("Where is Oslo?"), answer("In Norway.")]), chat([user("Apples"), answer("red", { versions: [[], [answer("green pears")]], version: 0 })], { title: "Fruit" })];

  it("finds words in titles, messages and other versions", () => {
    const found = (query: string) => search(chats, query).map(({ conversation }) => chats.indexOf(conversation));
    expect(found("norway oslo")).toEqual([0]);
    expect(found("FRUIT apples")).toEqual([1]);
    expect(found("pears")).toEqual([1]);
    expect(found("norway fruit")).toEqual([]);
    expect(search(chats, "norway")[0]!.excerpt).toBe("In Norway.");
    expect(search(chats, "norway")[0]!.message).toBe("a-In Norway.");
  });
});

it("offers another try only where it can help", () => {
  const failed = (status: number) => canRetry(answer("", { end: "error", failure: { status } }));
  expect([0, 200, 408, 429, 500, 503].map(failed)).toEqual(Array(6).fill(true));
  expect([400, 401, 403, 404, 413, 501].map(failed)).toEqual(Array(6).fill(false));
  expect(canRetry(answer("x", { end: "lost" }))).toBe(true);
  expect(canRetry(answer("x"))).toBe(false);
});
