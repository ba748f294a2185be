// LangChain with its packages for OpenAI (chat and responses), Anthropic and Ollama.

import assert from "node:assert/strict";
import { ChatAnthropic } from "@langchain/anthropic";
import { HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOllama, OllamaEmbeddings } from "@langchain/ollama";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { z } from "zod";
import { key, question, sum, toolQuestion } from "./common.mjs";

const Answer = z.object({ answer: z.number().int() });
const price = tool(async () => '{"price": 18}', {
  name: "get_price",
  description: "Get the price of an item",
  schema: z.object({ item: z.string().describe("The item") }),
});

const base = { model: "sprout", temperature: 0, maxRetries: 0, maxTokens: 64 };
const headers = { Authorization: `Bearer ${key}` };
const openai = (url) => ({ apiKey: key, configuration: { baseURL: `${url}/v1` } });
const models = {
  ChatOpenAI: (url) => new ChatOpenAI({ ...base, ...openai(url) }),
  "ChatOpenAI with responses": (url) => new ChatOpenAI({ ...base, ...openai(url), useResponsesApi: true }),
  ChatAnthropic: (url) => new ChatAnthropic({ ...base, apiKey: key, anthropicApiUrl: url }),
  ChatOllama: (url) => new ChatOllama({ ...base, baseUrl: url, headers }),
};

const checksOf = {
  async "invokes"(model) {
    const message = await model.invoke(question.content);
    assert.equal(message.text, sum);
    assert.equal(message.usage_metadata.output_tokens, 10);
  },

  async "streams"(model) {
    const pieces = [];
    for await (const chunk of await model.stream(question.content)) pieces.push(chunk.text);
    assert.equal(pieces.join(""), sum);
    assert.ok(pieces.length > 3, `${pieces.length} pieces`);
  },

  async "returns structured output"(model) {
    Answer.parse(await model.withStructuredOutput(Answer, { method: "jsonSchema" }).invoke(question.content));
  },

  async "calls tools"(model) {
    const bound = model.bindTools([price]);
    const asked = new HumanMessage(toolQuestion.content);
    const called = await bound.invoke([asked]);
    assert.deepEqual(called.tool_calls.map((call) => [call.name, call.args]), [["get_price", { item: "watch" }]]);
    const answer = await bound.invoke([asked, called, await price.invoke(called.tool_calls[0])]);
    assert.match(answer.text, /18/);
  },
};

export const langchainChecks = {
  async "embeds"(_, url) {
    for (const model of [
      new OpenAIEmbeddings({ model: "sprout", ...openai(url) }),
      new OllamaEmbeddings({ model: "sprout", baseUrl: url, headers }),
    ]) {
      assert.deepEqual((await model.embedDocuments(["Hello", "world"])).map((vector) => vector.length), [512, 512]);
      assert.equal((await model.embedQuery("Hello")).length, 512);
    }
  },

  async "ChatOpenAI forces a tool"(_, url) {
    const message = await models.ChatOpenAI(url).bindTools([price], { tool_choice: "required" }).invoke(question.content);
    assert.equal(message.tool_calls[0].name, "get_price");
  },
};
for (const [name, create] of Object.entries(models)) {
  for (const [what, run] of Object.entries(checksOf)) langchainChecks[`${name} ${what}`] = (_, url) => run(create(url));
}
