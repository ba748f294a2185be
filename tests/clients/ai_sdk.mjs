// Vercel's AI SDK (ai) with the providers that people point at other servers: @ai-sdk/openai (chat and responses),
// @ai-sdk/openai-compatible, @ai-sdk/anthropic.

import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, embedMany, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { key, question, sum, toolQuestion } from "./common.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false; // that the providers do not know the model

const Answer = z.object({ answer: z.number().int() });
const price = tool({
  description: "Get the price of an item",
  inputSchema: z.object({ item: z.string().describe("The item") }),
  execute: async () => ({ price: 18 }),
});

const providers = {
  "openai chat": (url) => createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).chat("sprout"),
  "openai responses": (url) => createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).responses("sprout"),
  "openai-compatible": (url) =>
    createOpenAICompatible({ name: "graft", baseURL: `${url}/v1`, apiKey: key, includeUsage: true, supportsStructuredOutputs: true })("sprout"),
  anthropic: (url) => createAnthropic({ baseURL: `${url}/v1`, apiKey: key })("sprout"),
};
// The Anthropic provider forces a tool for a schema unless it knows that the model has structured output.
const providerOptions = { anthropic: { structuredOutputMode: "outputFormat" } };

const checksOf = {
  async "generates text"(model) {
    const result = await generateText({ ...model, prompt: question.content });
    assert.equal(result.text, sum);
    assert.equal(result.finishReason, "stop");
    assert.equal(result.usage.inputTokens, 22);
    assert.equal(result.usage.outputTokens, 10);
  },

  async "streams text"(model) {
    const result = streamText({ ...model, prompt: question.content });
    const pieces = [];
    for await (const piece of result.textStream) pieces.push(piece);
    assert.equal(pieces.join(""), sum);
    assert.ok(pieces.length > 3, `${pieces.length} pieces`);
    assert.equal(await result.finishReason, "stop");
    assert.equal((await result.usage).outputTokens, 10);
  },

  async "generates an object"(model) {
    const result = await generateText({ ...model, prompt: question.content, providerOptions, output: Output.object({ schema: Answer }) });
    Answer.parse(result.output);
  },

  async "streams an object"(model) {
    let failure;
    const onError = ({ error }) => (failure = error);
    const output = Output.object({ schema: Answer });
    const result = streamText({ ...model, prompt: question.content, providerOptions, output, onError });
    let last;
    for await (const partial of result.partialOutputStream) last = partial;
    if (failure) throw failure;
    Answer.parse(last);
  },

  async "calls tools in steps"(model) {
    const result = await generateText({ ...model, prompt: toolQuestion.content, tools: { get_price: price }, stopWhen: stepCountIs(3) });
    assert.deepEqual(result.steps[0].toolCalls.map((call) => [call.toolName, call.input]), [["get_price", { item: "watch" }]]);
    assert.equal(result.steps[0].finishReason, "tool-calls");
    assert.match(result.text, /18/);
  },

  async "streams tool calls in steps"(model) {
    const result = streamText({ ...model, prompt: toolQuestion.content, tools: { get_price: price }, stopWhen: stepCountIs(3) });
    const types = new Set();
    for await (const part of result.fullStream) types.add(part.type);
    for (const type of ["tool-input-delta", "tool-call", "tool-result", "text-delta", "finish"]) assert.ok(types.has(type), type);
    assert.match(await result.text, /18/);
  },

  async "forces a tool"(model, url) {
    const result = await generateText({ ...model, prompt: question.content, tools: { get_price: price }, toolChoice: "required" });
    assert.equal(result.toolCalls[0].toolName, "get_price");
  },
};

export const aiSdkChecks = {
  async "embeds"(_, url) {
    const model = createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).embedding("sprout");
    const { embeddings } = await embedMany({ model, values: ["Hello", "world"], maxRetries: 0 });
    assert.deepEqual(embeddings.map((vector) => vector.length), [512, 512]);
  },

  async "reports errors"(_, url) {
    const model = createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).chat("none");
    await assert.rejects(generateText({ model, prompt: "Hi", maxRetries: 0 }), (error) => {
      assert.ok(APICallError.isInstance(error));
      assert.equal(error.statusCode, 404);
      assert.match(error.message, /none/);
      return true;
    });
  },
};
for (const [provider, create] of Object.entries(providers)) {
  for (const [what, run] of Object.entries(checksOf)) {
    const options = { temperature: 0, maxOutputTokens: 64, maxRetries: 0 };
    aiSdkChecks[`${provider} ${what}`] = (_, url) => run({ model: create(url), ...options }, url);
  }
}
