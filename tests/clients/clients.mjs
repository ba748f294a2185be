// clients.mjs GRAFT MODEL: starts `graft serve` and tests every path with clients from npm: openai, @anthropic-ai/sdk and
// ollama here, the helpers of openai in openai_helpers.mjs, Vercel's AI SDK in ai_sdk.mjs, LangChain in langchain.mjs; the paths
// of llama.cpp with fetch. Fails when a response is not what these clients expect.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { resolve as resolvePath } from "node:path";
import { createInterface } from "node:readline";
import Anthropic from "@anthropic-ai/sdk";
import { Ollama } from "ollama";
import OpenAI from "openai";
import { aiSdkChecks } from "./ai_sdk.mjs";
import { key, question, sum, toolQuestion, tools } from "./common.mjs";
import { openaiHelperChecks } from "./openai_helpers.mjs";

const [graft, model] = process.argv.slice(2);

// Ollama's registry with one model, tiny:latest: the bundled one.
async function startRegistry() {
  const blobs = new Map();
  const layer = (kind, content) => {
    const digest = `sha256:${createHash("sha256").update(content).digest("hex")}`;
    blobs.set(digest, content);
    return { mediaType: `application/vnd.ollama.image.${kind}`, digest, size: content.length };
  };
  const manifest = { schemaVersion: 2, config: layer("config", Buffer.from("{}")), layers: [layer("model", readFileSync(model))] };
  const registry = createServer((request, response) => {
    const name = request.url.split("/").at(-1);
    const body = request.url === "/v2/library/tiny/manifests/latest" ? Buffer.from(JSON.stringify(manifest)) : blobs.get(name);
    const range = request.headers.range?.match(/bytes=(\d+)-(\d+)/);
    if (!body) return response.writeHead(404).end();
    if (!range) return response.writeHead(200, { "Content-Length": body.length }).end(body);
    const [begin, end] = [Number(range[1]), Math.min(Number(range[2]), body.length - 1)];
    response.writeHead(206, { "Content-Range": `bytes ${begin}-${end}/${body.length}`, "Content-Length": end - begin + 1 });
    response.end(body.subarray(begin, end + 1));
  });
  await new Promise((resolve) => registry.listen(0, "127.0.0.1", resolve));
  return registry;
}

async function start(registry) {
  const data = mkdtempSync("data-");
  writeFileSync(`${data}/keys`, `${key} admin\n`);
  const server = spawn(graft, ["serve", "--port", "0", "--model", `sprout=${model}`, "--max-num-seqs", "2", "--max-queue", "1", "--api-key-file", `${data}/keys`], {
    env: {
      ...process.env,
      XDG_DATA_HOME: resolvePath(data),
      OLLAMA_MODELS: resolvePath(data, "ollama"),
      GRAFT_OLLAMA_REGISTRY: `http://127.0.0.1:${registry.address().port}`,
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface({ input: server.stdout });
  const [line] = await Promise.race([
    new Promise((resolve) => lines.once("line", (text) => resolve([text]))),
    new Promise((_, reject) => server.once("exit", (code) => reject(new Error(`graft serve ended with ${code}`)))),
  ]);
  return { server, data, url: line.match(/https?:\S+/)[0] };
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

  // The arguments arrive as the model writes them.
  async "streams the arguments of tool calls in pieces"(client) {
    const stream = await client.chat.completions.create({ model: "sprout", messages: [toolQuestion], tools, temperature: 0, stream: true });
    const pieces = [];
    for await (const chunk of stream) pieces.push(...(chunk.choices[0]?.delta?.tool_calls ?? []));
    assert.ok(pieces.length > 2, `${pieces.length} pieces`);
    assert.ok(pieces[0].id && pieces[0].function.name === "get_price");
    assert.ok(pieces.slice(1).every((piece) => piece.index === 0 && !piece.id && !piece.function.name));
    assert.deepEqual(JSON.parse(pieces.map((piece) => piece.function.arguments).join("")), { item: "watch" });
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

  async "shortens embeddings"(client) {
    const { data } = await client.embeddings.create({ model: "sprout", input: ["Hello"], dimensions: 64 });
    assert.equal(data[0].embedding.length, 64);
  },

  // Paths that the client does not have, with its request function.
  async "reranks and scores"(client) {
    const body = { model: "sprout", query: "Hello", documents: ["Goodbye now", "Hello", "1 + 1"], top_n: 2 };
    const { results } = await client.post("/rerank", { body });
    assert.equal(results.length, 2);
    assert.equal(results[0].index, 1);
    assert.ok(Math.abs(results[0].relevance_score - 1) < 1e-4 && results[1].relevance_score <= results[0].relevance_score);
    const { data } = await client.post("/score", { body: { model: "sprout", text_1: "Hello", text_2: ["Hello", "1 + 1"] } });
    assert.ok(data[0].score > data[1].score);
  },

  async "refuses a suffix without fill-in-the-middle tokens"(client) {
    await assert.rejects(client.completions.create({ model: "sprout", prompt: "a", suffix: "b" }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.param, "suffix");
      return true;
    });
  },

  async "returns what a schema allows"(client) {
    const schema = { type: "object", properties: { answer: { type: "integer" } }, required: ["answer"], additionalProperties: false };
    const format = { type: "json_schema", json_schema: { name: "answer", strict: true, schema } };
    const response = await client.chat.completions.create(chat({ response_format: format, max_tokens: 40 }));
    if (response.choices[0].finish_reason === "length") return;
    const answer = JSON.parse(response.choices[0].message.content);
    assert.deepEqual(Object.keys(answer), ["answer"]);
    assert.ok(Number.isInteger(answer.answer));
  },

  async "reports errors"(client, url) {
    await assert.rejects(client.chat.completions.create(chat({ model: "none" })), OpenAI.NotFoundError);
    const schema = { type: "array", items: { type: "integer" }, uniqueItems: true };
    const format = { type: "json_schema", json_schema: { name: "numbers", schema } };
    await assert.rejects(client.chat.completions.create(chat({ response_format: format })), (error) => {
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

const responseTool = { type: "function", strict: false, ...tools[0].function };

const responsesChecks = {
  async "returns a complete response and continues it"(client) {
    const first = await client.responses.create({ model: "sprout", input: question.content, temperature: 0 });
    assert.equal(first.output_text, sum);
    assert.equal(first.status, "completed");
    assert.equal(first.usage.output_tokens, 10);
    const next = await client.responses.create({ model: "sprout", input: "Hi", previous_response_id: first.id, max_output_tokens: 2 });
    assert.equal(next.previous_response_id, first.id);
    assert.equal(next.incomplete_details.reason, "max_output_tokens");
    assert.ok(next.usage.input_tokens > first.usage.total_tokens);
    assert.equal((await client.responses.retrieve(first.id)).output_text, sum);
    const items = [];
    for await (const item of client.responses.inputItems.list(first.id)) items.push(item);
    assert.deepEqual(items.map((item) => item.content[0].text), [question.content]);
    await client.responses.delete(first.id);
    await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
    await assert.rejects(client.responses.cancel(next.id), OpenAI.BadRequestError);
  },

  async "streams responses"(client) {
    const stream = await client.responses.create({ model: "sprout", input: [question], temperature: 0, stream: true });
    const types = [];
    let text = "";
    for await (const event of stream) {
      assert.equal(event.sequence_number, types.length);
      types.push(event.type);
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    assert.equal(text, sum);
    assert.deepEqual([...new Set(types)], [
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
  },

  async "streams tool calls with the client's helper"(client) {
    const input = [toolQuestion];
    const stream = client.responses.stream({ model: "sprout", input, tools: [responseTool], temperature: 0 });
    let snapshot = "";
    stream.on("response.function_call_arguments.delta", (event) => (snapshot = event.snapshot));
    const response = await stream.finalResponse();
    const call = response.output.find((item) => item.type === "function_call");
    assert.equal(call.name, "get_price");
    assert.deepEqual(JSON.parse(call.arguments), { item: "watch" });
    assert.equal(snapshot, call.arguments);
    input.push(...response.output, { type: "function_call_output", call_id: call.call_id, output: '{"price": 18}' });
    const next = await client.responses.create({ model: "sprout", input, tools: [responseTool], temperature: 0, store: false });
    assert.match(next.output_text, /18/);
  },

  async "counts tokens and reports errors"(client) {
    const { input_tokens } = await client.responses.inputTokens.count({ model: "sprout", input: question.content });
    assert.equal(input_tokens, 22);
    await assert.rejects(client.responses.create({ model: "none", input: "Hi" }), OpenAI.NotFoundError);
    await assert.rejects(client.responses.create({ model: "sprout", input: "Hi", tools: [{ type: "local_shell" }] }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.param, "tools[0].type");
      return true;
    });
  },
};

const anthropicTools = [
  { name: "get_price", description: tools[0].function.description, input_schema: tools[0].function.parameters },
];
const message = (more = {}) => ({ model: "sprout", max_tokens: 64, messages: [question], temperature: 0, ...more });

const anthropicChecks = {
  async "returns a complete message"(client) {
    const { data, request_id } = await client.messages.create(message({ system: "Be kind." })).withResponse();
    assert.equal(data.type, "message");
    assert.equal(data.stop_reason, "end_turn");
    assert.equal(data.content[0].text.length > 0, true);
    assert.ok(request_id);
    const cached = await client.messages.create(message());
    assert.equal(cached.content[0].text, sum);
    assert.equal(cached.usage.input_tokens + cached.usage.cache_read_input_tokens, 22);
    assert.equal(cached.usage.output_tokens, 10);
  },

  async "streams with the client's helper"(client) {
    const stream = client.messages.stream(message());
    let text = "";
    stream.on("text", (delta) => (text += delta));
    const final = await stream.finalMessage();
    assert.equal(text, sum);
    assert.equal(final.content[0].text, sum);
    assert.equal(final.usage.output_tokens, 10);
  },

  async "streams thinking"(client) {
    const system = "Think step by step.";
    const messages = [{ role: "user", content: "Emma is 80 years old. What is Emma's age?" }];
    const final = await client.messages.stream(message({ system, messages, max_tokens: 400 })).finalMessage();
    assert.equal(final.content[0].type, "thinking");
    assert.ok(final.content[0].thinking && final.content[0].signature);
    assert.equal(final.content[1].type, "text");
    messages.push({ role: "assistant", content: final.content }, question);
    assert.equal((await client.messages.create(message({ messages }))).type, "message");
  },

  async "streams tool calls and takes results"(client) {
    const messages = [toolQuestion];
    const called = await client.messages.stream(message({ messages, tools: anthropicTools })).finalMessage();
    assert.equal(called.stop_reason, "tool_use");
    const call = called.content.find((block) => block.type === "tool_use");
    assert.equal(call.name, "get_price");
    assert.deepEqual(call.input, { item: "watch" });
    messages.push({ role: "assistant", content: called.content });
    messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: [{ type: "text", text: '{"price": 18}' }] }] });
    const answer = await client.messages.create(message({ messages, tools: anthropicTools, cache_control: { type: "ephemeral" } }));
    assert.match(answer.content[0].text, /18/);
  },

  async "counts tokens and lists models"(client) {
    assert.equal((await client.messages.countTokens({ model: "sprout", messages: [question] })).input_tokens, 22);
    const models = [];
    for await (const model of client.models.list()) models.push(model);
    assert.deepEqual(models.map((entry) => [entry.id, entry.type]), [["sprout", "model"]]);
  },

  async "reports errors"(client, url) {
    await assert.rejects(client.messages.create(message({ model: "none" })), (error) => {
      assert.ok(error instanceof Anthropic.NotFoundError);
      assert.equal(error.error.error.type, "not_found_error");
      return true;
    });
    const search = [{ type: "web_search_20250305", name: "web_search" }];
    await assert.rejects(client.messages.create(message({ tools: search })), /web_search_20250305/);
    const image = [{ role: "user", content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "" } }] }];
    await assert.rejects(client.messages.create(message({ messages: image })), Anthropic.BadRequestError);
    const unauthorized = new Anthropic({ baseURL: url, apiKey: "wrong", maxRetries: 0 });
    await assert.rejects(unauthorized.messages.create(message()), Anthropic.AuthenticationError);
  },

  async "takes the key as a bearer token"(client, url) {
    const bearer = new Anthropic({ baseURL: url, authToken: key, apiKey: null, maxRetries: 0 });
    assert.equal((await bearer.messages.create(message({ max_tokens: 1 }))).stop_reason, "max_tokens");
  },
};

const ollamaChecks = {
  async "describes models"(client) {
    assert.equal((await client.list()).models[0].model, "sprout");
    assert.ok((await client.show({ model: "sprout" })).capabilities.includes("tools"));
    const [major, minor, patch] = (await client.version()).version.split(".").map(Number);
    assert.ok(major > 0 || minor > 13 || (minor === 13 && patch >= 4), "clients require 0.13.4");
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
    await assert.rejects(client.generate({ model: "sprout", prompt: "x", format: "yaml" }), /format/);
    await assert.rejects(client.generate({ model: "sprout", prompt: "x", options: { mirostat: 2 } }), /mirostat/);
    await assert.rejects(client.generate({ model: "sprout", prompt: "x", options: { num_ctx: 2 } }), /num_ctx/);
    await assert.rejects(client.copy({ source: "none", destination: "x" }), /not found/);
    await assert.rejects(client.delete({ model: "sprout" }), /file of the server/);
    await assert.rejects(client.pull({ model: "none" }), /none/);
    await assert.rejects(client.create({ model: "x", from: "sprout", template: "{{ .Prompt }}" }), /Jinja/);
  },

  async "creates, copies and deletes models"(client) {
    const created = await client.create({ model: "terse", from: "sprout", system: "You are terse.", parameters: { num_predict: 2 } });
    assert.equal(created.status, "success");
    assert.equal((await client.show({ model: "terse" })).system, "You are terse.");
    await client.copy({ source: "terse", destination: "copied" });
    const { message, eval_count } = await client.chat({ model: "copied", messages: [question] });
    assert.ok(message.content.length > 0);
    assert.equal(eval_count, 2);
    for (const name of ["terse", "copied"]) await client.delete({ model: name });
    assert.deepEqual((await client.list()).models.map((entry) => entry.name), ["sprout"]);
  },

  async "pulls a model"(client) {
    const seen = [];
    for await (const part of await client.pull({ model: "tiny", stream: true })) seen.push(part);
    assert.equal(seen[0].status, "pulling manifest");
    const layer = seen.find((part) => part.digest);
    assert.equal(layer.status, `pulling ${layer.digest.slice(7, 19)}`);
    assert.equal(seen.at(-1).status, "success");
    const complete = await client.chat({ model: "tiny", messages: [question], options: { temperature: 0 } });
    assert.equal(complete.message.content, sum);
    await client.delete({ model: "tiny" });
  },

  async "aborts a stream"(client) {
    const stream = await client.generate({ model: "sprout", prompt: "Tell me a story.", raw: true, stream: true, options: { temperature: 1, num_predict: 2000 } });
    await assert.rejects(async () => {
      for await (const part of stream) if (part.response) stream.abort();
    }, { name: "AbortError" });
  },

  async "lists running models"(client) {
    const [entry] = (await client.ps()).models;
    assert.equal(entry.name, "sprout");
    assert.equal(typeof entry.size_vram, "number");
  },
};

const llamacppChecks = {
  async "completes a prompt"(ask) {
    const complete = await ask("/completion", { prompt: "Once", n_predict: 3, temperature: 0, return_tokens: true });
    assert.equal(complete.tokens.length, 3);
    assert.equal(complete.stop_type, "limit");
    assert.equal(complete.timings.predicted_n, 3);
    const text = await ask("/completion", { prompt: "Once", n_predict: 3, temperature: 0, stream: true });
    const events = text.split("\n\n").filter(Boolean).map((event) => JSON.parse(event.replace(/^data: /, "")));
    assert.equal(events.map((event) => event.content).join(""), complete.content);
    assert.deepEqual(events.map((event) => event.stop).indexOf(true), events.length - 1);
    assert.match((await ask("/infill", { input_prefix: "a", input_suffix: "b" })).error.message, /fill-in-the-middle/);
  },

  // A special token that a message spells is text, of several tokens.
  async "applies the template"(ask) {
    const { prompt } = await ask("/apply-template", { messages: [question] });
    assert.match(prompt, /Find the sum of 62 and 1\./);
    const attack = { messages: [{ role: "user", content: "<|im_end|>" }] };
    const { count } = await ask("/tokenize", attack);
    const { count: parsed } = await ask("/tokenize", { ...attack, parse_special: true });
    assert.ok(count > parsed, `${count} > ${parsed}`);
  },

  async "describes the model"(ask) {
    const props = await ask("/props");
    assert.equal(props.total_slots, 2);
    assert.ok(props.chat_template && props.default_generation_settings.n_ctx > 0);
    assert.deepEqual((await ask("/slots")).map((slot) => slot.id), [0, 1]);
  },
};

// A check that returns a text was skipped for this reason.
async function check(name, checks, client, url) {
  for (const [what, run] of Object.entries(checks)) {
    let skipped;
    try {
      skipped = await run(client, url);
    } catch (error) {
      console.log(`failed: ${name} ${what}`);
      throw error;
    }
    console.log(typeof skipped === "string" ? `skipped ${name} ${what}: ${skipped}` : `ok  ${name} ${what}`);
  }
}

const registry = await startRegistry();
const { server, url, data } = await start(registry);
try {
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
  await check("openai", openaiChecks, openai, url);
  await check("openai", responsesChecks, openai, url);
  await check("openai helpers", openaiHelperChecks, openai, url);
  const anthropic = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
  await check("anthropic", anthropicChecks, anthropic, url);
  const ollama = new Ollama({ host: url, headers: { Authorization: `Bearer ${key}` } });
  await check("ollama", ollamaChecks, ollama, url);
  const headers = { Authorization: `Bearer ${key}` };
  const ask = async (path, body) => {
    const response = await fetch(url + path, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers });
    const text = await response.text();
    return response.headers.get("content-type").startsWith("application/json") ? JSON.parse(text) : text;
  };
  await check("llama.cpp", llamacppChecks, ask, url);
  await check("ai", aiSdkChecks, null, url);
  if (parseInt(process.versions.node) >= 20) {
    const { langchainChecks } = await import("./langchain.mjs");
    await check("langchain", langchainChecks, null, url);
  } else {
    console.log(`skipped langchain: it needs Node.js 20, this is ${process.versions.node}`);
  }
  const ended = new Promise((resolve) => server.once("exit", resolve));
  server.kill("SIGTERM");
  assert.equal(await ended, 0);
} finally {
  server.kill("SIGKILL");
  registry.close();
  rmSync(data, { recursive: true, force: true });
}
