// clients.mjs GRAFT MODEL: starts `graft serve` and tests every path with the official clients, openai and
// ollama from npm. Fails when a response is not what these clients expect.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Ollama } from "ollama";
import OpenAI from "openai";

const [graft, model] = process.argv.slice(2);
const key = "secret";
const question = { role: "user", content: "Find the sum of 62 and 1." };
const sum = "62 + 1 = 63";
const toolQuestion = { role: "user", content: "How much does the item watch cost?" };
const tools = [
  {
    type: "function",
    function: {
      name: "get_price",
      description: "Get the price of an item",
      parameters: {
        type: "object",
        properties: { item: { type: "string", description: "The item" } },
        required: ["item"],
      },
    },
  },
];

async function start() {
  const server = spawn(graft, ["serve", "--port", "0", "--model", `sprout=${model}`, "--max-num-seqs", "2", "--max-queue", "1"], {
    env: { ...process.env, GRAFT_API_KEYS: key },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface({ input: server.stdout });
  const [line] = await Promise.race([
    new Promise((resolve) => lines.once("line", (text) => resolve([text]))),
    new Promise((_, reject) => server.once("exit", (code) => reject(new Error(`graft serve ended with ${code}`)))),
  ]);
  return { server, url: line.match(/https?:\S+/)[0] };
}

async function eventually(what, holds) {
  for (let i = 0; i < 600; ++i) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`timeout: ${what}`);
}

const chat = (more = {}) => ({ model: "sprout", messages: [question], temperature: 0, ...more });

const openaiChecks = {
  async "lists models"(client) {
    const models = await client.models.list();
    assert.deepEqual(models.data.map((entry) => entry.id), ["sprout"]);
    assert.equal((await client.models.retrieve("sprout")).object, "model");
  },

  async "returns a complete response"(client) {
    const { data, response } = await client.chat.completions.create(chat()).withResponse();
    assert.equal(data.choices[0].message.content, sum);
    assert.equal(data.choices[0].finish_reason, "stop");
    assert.equal(data.usage.total_tokens, 32);
    assert.ok(response.headers.get("x-request-id"));
  },

  async "streams"(client) {
    const stream = await client.chat.completions.create(chat({ stream: true, stream_options: { include_usage: true } }));
    let text = "";
    let usage = null;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta?.content ?? "";
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, sum);
    assert.equal(usage.completion_tokens, 10);
  },

  async "returns logprobs and several choices"(client) {
    const { choices } = await client.chat.completions.create(
      chat({ temperature: 1, n: 2, seed: 3, logprobs: true, top_logprobs: 2, max_completion_tokens: 3 }),
    );
    assert.equal(choices.length, 2);
    assert.equal(choices[1].logprobs.content.length, 3);
    assert.equal(choices[0].logprobs.content[0].top_logprobs.length, 2);
  },

  async "streams tool calls with the client's helper"(client) {
    const runner = client.chat.completions.stream({ model: "sprout", messages: [toolQuestion], tools, temperature: 0 });
    const message = await runner.finalMessage();
    assert.equal(message.tool_calls[0].function.name, "get_price");
    assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { item: "watch" });
    assert.equal((await runner.finalChatCompletion()).choices[0].finish_reason, "tool_calls");
    const next = await client.chat.completions.create({
      model: "sprout",
      messages: [toolQuestion, message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: '{"price": 18}' }],
      tools,
      temperature: 0,
    });
    assert.match(next.choices[0].message.content, /18/);
  },

  async "completes text"(client) {
    const complete = await client.completions.create({ model: "sprout", prompt: ["Once", "The"], max_tokens: 3, temperature: 0 });
    assert.deepEqual(complete.choices.map((choice) => choice.index), [0, 1]);
    const stream = await client.completions.create({ model: "sprout", prompt: "Once", max_tokens: 3, temperature: 0, stream: true });
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0].text;
    assert.equal(text, complete.choices[0].text);
  },

  // Without encoding_format the client requests base64 and decodes it.
  async "embeds"(client) {
    const { data } = await client.embeddings.create({ model: "sprout", input: ["Hello", "world"] });
    assert.equal(data[1].embedding.length, 512);
    const length = Math.hypot(...data[0].embedding);
    assert.ok(Math.abs(length - 1) < 1e-4, `length ${length}`);
    const floats = await client.embeddings.create({ model: "sprout", input: "Hello", encoding_format: "float" });
    assert.ok(Math.abs(floats.data[0].embedding[0] - data[0].embedding[0]) < 1e-6);
  },

  async "reports errors"(client, url) {
    await assert.rejects(client.chat.completions.create(chat({ model: "none" })), OpenAI.NotFoundError);
    await assert.rejects(client.chat.completions.create(chat({ response_format: { type: "json_object" } })), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.param, "response_format");
      return true;
    });
    const unauthorized = new OpenAI({ baseURL: `${url}/v1`, apiKey: "wrong", maxRetries: 0 });
    await assert.rejects(unauthorized.models.list(), OpenAI.AuthenticationError);
  },

  async "returns 429 when the queue is full, and frees slots on disconnect"(client) {
    const endless = chat({ stream: true, ignore_eos: true });
    const streams = await Promise.all([1, 2, 3].map(() => client.chat.completions.create(endless)));
    await assert.rejects(client.chat.completions.create(chat()), (error) => {
      assert.ok(error instanceof OpenAI.RateLimitError);
      assert.ok(error.headers.get("retry-after"));
      return true;
    });
    for (const stream of streams) stream.controller.abort();
    await eventually("a free slot", async () => {
      try {
        return (await client.chat.completions.create(chat())).choices.length === 1;
      } catch (error) {
        assert.ok(error instanceof OpenAI.RateLimitError);
        return false;
      }
    });
  },
};

const ollamaChecks = {
  async "describes models"(client) {
    assert.equal((await client.list()).models[0].model, "sprout");
    assert.ok((await client.show({ model: "sprout" })).capabilities.includes("tools"));
    assert.ok((await client.version()).version);
  },

  async "returns complete responses and streams"(client) {
    const options = { temperature: 0 };
    const complete = await client.chat({ model: "sprout", messages: [question], options });
    assert.equal(complete.message.content, sum);
    assert.ok(complete.total_duration > 0);
    let text = "";
    for await (const part of await client.chat({ model: "sprout", messages: [question], options, stream: true }))
      text += part.message.content;
    assert.equal(text, sum);
    let generated = "";
    for await (const part of await client.generate({ model: "sprout", prompt: question.content, options, stream: true }))
      generated += part.response;
    assert.equal(generated, sum);
  },

  async "calls tools"(client) {
    const { message } = await client.chat({ model: "sprout", messages: [toolQuestion], tools, options: { temperature: 0 } });
    assert.deepEqual(message.tool_calls[0].function.arguments, { item: "watch" });
  },

  async "embeds"(client) {
    const { embeddings } = await client.embed({ model: "sprout", input: ["Hello", "world"] });
    assert.deepEqual(embeddings.map((vector) => vector.length), [512, 512]);
  },

  async "reports errors"(client) {
    await assert.rejects(client.chat({ model: "none", messages: [question] }), /none/);
    await assert.rejects(client.generate({ model: "sprout", prompt: "x", format: "json" }), /format/);
  },

  async "aborts a stream"(client) {
    const stream = await client.generate({ model: "sprout", prompt: "Tell me a story.", raw: true, stream: true, options: { temperature: 1, num_predict: 2000 } });
    await assert.rejects(async () => {
      for await (const part of stream) if (part.response) stream.abort();
    }, { name: "AbortError" });
  },

  async "lists running models"(client) {
    assert.equal((await client.ps()).models[0].name, "sprout");
  },
};

async function check(name, checks, client, url) {
  for (const [what, run] of Object.entries(checks)) {
    await run(client, url);
    console.log(`ok  ${name} ${what}`);
  }
}

const { server, url } = await start();
try {
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
  await check("openai", openaiChecks, openai, url);
  const ollama = new Ollama({ host: url, headers: { Authorization: `Bearer ${key}` } });
  await check("ollama", ollamaChecks, ollama, url);
  const ended = new Promise((resolve) => server.once("exit", resolve));
  server.kill("SIGTERM");
  assert.equal(await ended, 0);
} finally {
  server.kill("SIGKILL");
}
