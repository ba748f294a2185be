// graft serve: models over HTTP, in the words of OpenAI's and Ollama's clients.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <fmt/format.h>

#include "graft/api/catalog.h"
#include "graft/base/error.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/options/rule_options.h"
#include "graft/cli/terminal.h"
#include "graft/server/service.h"

namespace graft::cli {
namespace {

struct Options {
  std::vector<std::string> models;
  ModelOptions model;  // of each of them; of its choice only the folders count
  std::string api_key_file;
  bool shared_cache = false;
  std::string pooling = "mean";
  std::size_t max_body_mib = 32;
  std::size_t stream_buffer_kib = 4096;
  bool lazy = false;
  bool profile = false;
  server::ServiceConfig service;
};

// NAME=PATH, a path, or the name of a model in the catalog, which is then its name here too.
server::NamedPath named_model(const std::string& text, const api::Catalog& catalog) {
  const std::size_t equals = text.find('=');
  std::error_code error;
  if (equals != std::string::npos && !std::filesystem::exists(text, error))
    return {.name = text.substr(0, equals), .path = catalog.find(text.substr(equals + 1))};
  const std::filesystem::path path = catalog.find(text);
  for (const api::ModelEntry& entry : catalog.list()) {
    if (entry.path == path) return {.name = entry.name, .path = path};
  }
  return {.name = path.extension() == ".gguf" ? path.stem().string()
                                              : (path / "").parent_path().filename().string(),
          .path = path};
}

// The same model twice is one; two models of one name are a mistake.
void add_model(std::vector<server::NamedPath>& models, server::NamedPath model) {
  if (model.name.empty()) fail("--model: a name is empty");
  const auto same = std::ranges::find(models, model.name, &server::NamedPath::name);
  if (same == models.end()) {
    models.push_back(std::move(model));
  } else if (same->path != model.path) {
    fail("--model: two models are called ", model.name, "; give one another name (NAME=PATH)");
  }
}

// Those that were named; without names every model that could be, the bundled one first.
std::vector<server::NamedPath> served_models(const Options& options) {
  const api::Catalog catalog = options.model.model.catalog();
  std::vector<server::NamedPath> models;
  for (const std::string& text : options.models)
    add_model(models, named_model(text, catalog));
  if (models.empty()) {
    for (const api::ModelEntry& entry : catalog.list())
      add_model(models, {.name = entry.name, .path = entry.path});
  }
  if (models.empty()) fail("no model to serve: give one by --model");
  return models;
}

server::ApiKeys read_keys(const Options& options) {
  server::ApiKeys keys;
  if (!options.api_key_file.empty()) {
    keys.add_lines(read_text_file(options.api_key_file), options.api_key_file);
    if (keys.empty()) fail(options.api_key_file, ": has no keys");
  }
  if (const char* list = std::getenv("GRAFT_API_KEYS")) keys.add_list(list);
  return keys;
}

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

void say_where(const server::ServiceConfig& config, std::uint16_t port) {
  const std::string& host = config.http.host;
  const bool is_v6 = host.find(':') != std::string::npos;
  // To standard output, for scripts that ask for port 0; at once, though it is no terminal.
  fmt::print("graft serves at {}://{}:{}\n", config.http.tls_key.empty() ? "http" : "https",
             is_v6 ? "[" + host + "]" : host, port);
  std::fflush(stdout);
  if (is_loopback(host)) return;
  warn(fmt::format("{} can be reached from other machines", host));
  if (config.access.keys.empty()) warn("there is no API key: everybody who reaches it may use it");
  if (config.http.tls_key.empty()) warn("there is no TLS: what is said can be read on the way");
}

void serve_models(Options& options) {
  server::ServiceConfig& config = options.service;
  config.pool.models = served_models(options);
  const api::EngineConfig engine = config.pool.llm.engine;
  config.pool.llm = options.model.config();
  config.pool.llm.engine = engine;
  config.pool.llm.profile = options.profile;
  config.access.keys = read_keys(options);
  config.access.separate_caches = !options.shared_cache;
  config.pooling = options.pooling == "last" ? api::Pooling::Last : api::Pooling::Mean;
  server::http::Limits& limits = config.http.limits;
  limits.max_body_bytes = options.max_body_mib << 20U;
  limits.max_total_body_bytes = std::max(limits.max_total_body_bytes, limits.max_body_bytes);
  limits.max_buffered_bytes = options.stream_buffer_kib << 10U;
  config.preload = !options.lazy;
  server::serve(config, [&](std::uint16_t port) { say_where(config, port); });
}

void add_model_options(CLI::App& command, Options& options) {
  server::PoolConfig& pool = options.service.pool;
  command.add_option(
      "-m,--model", options.models,
      "Model to serve: path, name, or NAME=PATH; any number (default: all that `graft models` "
      "lists, the first for requests that name none)");
  ModelChoice::add_folders_to(command, options.model.model.folders);
  options.model.add_all_but_model_to(command);
  command.add_option("--chat-template", pool.chat_template,
                     "Template instead of the models': a file or a built-in name (chatml …)");
  command.add_option("--max-model-len", pool.llm.engine.max_model_len,
                     "Longest prompt and answer, tokens (default: the model's)");
  command.add_option("--max-num-seqs", pool.llm.engine.max_num_seqs,
                     "Answers computed at once (default: 128)");
  command.add_option("--max-num-batched-tokens", pool.llm.engine.max_num_batched_tokens,
                     "Tokens of one step, over all answers (default: 2048)");
  command.add_option("--gpu-memory-utilization", pool.llm.engine.gpu_memory_utilization,
                     "Share of free memory that the KV cache may take (default: 0.9)");
  command.add_flag("--enforce-eager", pool.llm.engine.enforce_eager, "No CUDA graphs");
  command.add_option("--kv-blocks", pool.llm.engine.num_kvcache_blocks,
                     "Blocks of the KV cache (default: from memory)");
  command.add_option(
      "--keep-alive", pool.keep_alive_seconds,
      "Seconds without requests after which a model is unloaded (default: 300; -1: never)");
  command.add_option("--max-loaded-models", pool.max_loaded,
                     "Models loaded at once (default: as memory allows)");
  command.add_option("--pooling", options.pooling, "Embeddings from: mean (default) or last token")
      ->check(CLI::IsMember({"mean", "last"}));
  command.add_flag("--lazy", options.lazy, "Load the first model when it is first asked for");
  command.add_flag("--profile", options.profile,
                   "Measure the time of every module, for /v1/plan and the status page");
}

// A million seconds are for ever, and fit the clock; at zero no client could be fast enough.
std::string seconds_problem(const std::string& text) {
  double value = 0;
  const bool is_number = CLI::detail::lexical_cast(text, value);
  // Not as two comparisons for what is wrong: NaN would pass both.
  if (is_number && value >= 1e-3 && value <= 1e6) return {};
  return "0.001 to 1000000 seconds are needed, not " + text;
}

void add_time_limits(CLI::App& command, server::http::Limits& limits) {
  const auto add = [&](const char* name, double& seconds, const char* help) {
    command.add_option(name, seconds, help)->check(seconds_problem);
  };
  add("--header-timeout", limits.header_seconds,
      "Seconds for a client to send the head of a request (default: 10)");
  add("--body-timeout", limits.body_seconds, "Seconds for it to send the body (default: 60)");
  add("--idle-timeout", limits.idle_seconds,
      "Seconds between two requests of a connection (default: 75)");
  add("--write-timeout", limits.write_seconds,
      "Seconds for a client to take what is sent to it (default: 60)");
  add("--ping-seconds", limits.keep_alive_seconds,
      "Quiet seconds after which a stream gets a comment (default: 15)");
}

void add_server_options(CLI::App& command, Options& options) {
  server::ServiceConfig& config = options.service;
  command.add_option("--host", config.http.host, "Address to listen at (default: 127.0.0.1)");
  command.add_option("--port", config.http.port, "Port (default: 8000; 0: any that is free)");
  command.add_option("--tls-cert", config.http.tls_certificate,
                     "Certificate chain (PEM) for HTTPS");
  command.add_option("--tls-key", config.http.tls_key, "Its private key (PEM)");
  command.add_option("--api-key-file", options.api_key_file,
                     "Keys, one per line, plain or sha256:HEX; also in GRAFT_API_KEYS");
  command.add_flag("--shared-cache", options.shared_cache,
                   "Let requests with different keys share prefixes in the cache");
  command.add_option("--cors-origin", config.access.origins,
                     "Origin of web pages that may ask, or *; any number (default: none)");
  command
      .add_option("--max-queue", config.max_waiting,
                  "Answers that may wait for their turn, per model (default: 2048)")
      ->check(CLI::Range(0, 1 << 20));
  command.add_option("--max-body-mib", options.max_body_mib, "Largest request, MiB (default: 32)")
      ->check(CLI::Range(1, 4096));
  command
      .add_option("--max-connections", config.http.limits.max_connections,
                  "Connections at once; more wait to be taken (default: 10000)")
      ->check(CLI::Range(1, 1 << 20));
  command
      .add_option("--stream-buffer-kib", options.stream_buffer_kib,
                  "Waiting bytes at which a slow reader is cut off, KiB (default: 4096)")
      ->check(CLI::Range(1, 1 << 20));
  add_time_limits(command, config.http.limits);
  command.add_option("--access-log", config.access_log,
                     "File for a JSON line per request, without prompts; - for standard output");
}

}  // namespace

void add_serve(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("serve", "Serve models over HTTP, for clients of OpenAI and of Ollama");
  add_model_options(*command, *options);
  add_server_options(*command, *options);
  command->callback([options] { serve_models(*options); });
}

}  // namespace graft::cli
