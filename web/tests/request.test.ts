import { expect, it } from "vitest";
import { requestBody } from "../src/chat/request";
import type { Conversation } from "../src/chat/store";

it("sends what was said and the settings that were made", () => {
  const conversation: Conversation = {
    id: "1",
    title: "t",
    model: "m",
    settings: { system: "Be brief.", temperature: 0 },
    messages: [
      { id: "a", role: "user", content: "one" },
      { id: "b", role: "assistant", content: "", end: "error", error: "no" },
      { id: "c", role: "user", content: "two" },
      { id: "d", role: "assistant", content: "2", reasoning: "hm", end: "stop" },
      { id: "e", role: "user", content: "three" },
    ],
    updated: 0,
  };
  expect(JSON.parse(JSON.stringify(requestBody(conversation)))).toEqual({
    model: "m",
    temperature: 0,
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "one" },
      { role: "user", content: "two" },
      { role: "assistant", content: "2" },
      { role: "user", content: "three" },
    ],
  });
  expect(requestBody({ ...conversation, model: "", settings: { system: " " }, messages: [] })).toEqual({ messages: [] });
});
