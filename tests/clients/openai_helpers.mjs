// The helpers of the openai client: zod schemas and the runner of tools.

import assert from "node:assert/strict";
import { zodFunction, zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { question, toolQuestion } from "./common.mjs";

const Answer = z.object({ answer: z.number().int(), unit: z.enum(["apples", "pears"]) });
const model = "sprout";
const base = { model, messages: [question], temperature: 0 };

function priceTool(calls) {
  return zodFunction({
    name: "get_price",
    description: "Get the price of an item",
    parameters: z.object({ item: z.string().describe("The item") }),
    function: async (input) => {
      calls.push(input);
      return { price: 18 };
    },
  });
}

export const openaiHelperChecks = {
  async "parses a chat completion with a zod schema"(client) {
    const completion = await client.chat.completions.parse({ ...base, response_format: zodResponseFormat(Answer, "answer") });
    Answer.parse(completion.choices[0].message.parsed);
  },

  async "parses a streamed chat completion with a zod schema"(client) {
    const stream = client.chat.completions.stream({ ...base, response_format: zodResponseFormat(Answer, "answer") });
    let num_deltas = 0;
    stream.on("content.delta", ({ parsed }) => (num_deltas += parsed ? 1 : 0));
    const completion = await stream.finalChatCompletion();
    Answer.parse(completion.choices[0].message.parsed);
    assert.ok(num_deltas > 0, "partial objects");
  },

  async "parses a response with a zod schema"(client) {
    const text = { format: zodTextFormat(Answer, "answer") };
    const response = await client.responses.parse({ model, input: question.content, temperature: 0, text });
    Answer.parse(response.output_parsed);
  },

  // zod writes a pattern for most of these, some with assertions, and names it as the format.
  async "parses what zod says of strings"(client) {
    const kinds = {
      email: z.email(), uuid: z.uuid(), date: z.iso.date(), time: z.iso.time(), ipv4: z.ipv4(), cidr: z.cidrv4(), ulid: z.ulid(), phone: z.e164(),
      start: z.string().startsWith("ab").max(9), lower: z.string().lowercase().max(9), id: z.nanoid(), size: z.string().min(2).max(4),
    };
    for (const [name, kind] of Object.entries(kinds)) {
      const shape = z.object({ value: kind });
      const response_format = zodResponseFormat(shape, name);
      // What the model writes is short where the pattern is; others may be cut off.
      const { choices } = await client.chat.completions.create({ ...base, max_tokens: 100, response_format });
      if (choices[0].finish_reason === "stop") shape.parse(JSON.parse(choices[0].message.content));
      else assert.equal(name, "email");
    }
  },

  async "refuses to parse an output that was cut off"(client) {
    const request = { ...base, max_tokens: 2, response_format: zodResponseFormat(Answer, "answer") };
    await assert.rejects(client.chat.completions.parse(request), { name: "Error", message: /length/ });
  },

  // The model decides whether it calls; with this question it does.
  async "runs tools"(client) {
    for (const stream of [false, true]) {
      const calls = [];
      const runner = client.chat.completions.runTools({ ...base, messages: [toolQuestion], tools: [priceTool(calls)], stream });
      assert.match(await runner.finalContent(), /18/);
      assert.deepEqual(calls, [{ item: "watch" }]);
      assert.deepEqual(runner.messages.map((message) => message.role), ["user", "assistant", "tool", "assistant"]);
    }
  },

  async "runs tools where the model calls none"(client) {
    const calls = [];
    const runner = client.chat.completions.runTools({ ...base, tools: [priceTool(calls)], tool_choice: "none" });
    assert.ok((await runner.finalContent()).length > 0);
    assert.deepEqual(calls, []);
  },

  async "runs a forced tool"(client, url) {
    const calls = [];
    const tool_choice = { type: "function", function: { name: "get_price" } };
    const runner = client.chat.completions.runTools({ ...base, tools: [priceTool(calls)], tool_choice });
    await runner.done();
    assert.equal(calls.length, 1);
    assert.equal(typeof calls[0].item, "string");
  },
};
