// graft serve: serves models over HTTP with OpenAI-, Anthropic- and Ollama-compatible APIs.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "graft/api/catalog.h"
#include "graft/base/error.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/options/named_model.h"
#include "graft/cli/options/speculate_option.h"
#include "graft/cli/options/tier_options.h"
#include "graft/cli/text_file.h"
#include "graft/hub/environment.h"
#include "graft/hub/fetch/allowed_hosts.h"
#include "graft/ops/lora.h"
#include "graft/server/service.h"

namespace graft::cli {
namespace {

struct ServeOptions {
  std::vector<std::string> models;
  ModelOptions model;  // for every model; only the folders of model.model are used
  std::string api_key_file;
  std::string limits_file;
  server::ClientLimits client_limits;
  server::LogConfig log;
  std::string log_level = "info";
  std::string log_format = "text";
  bool shared_cache = false;
  std::string snapshot_dir;
  std::string image_hosts;  // HOST[:PORT],…
  TierOptions tiers;
  SpeculateOption speculate;
  std::string pooling = "mean";
  std::size_t max_body_mib = 32;
  std::size_t stream_buffer_kib = 4096;
  std::size_t max_response_mib = 64;
  std::size_t response_store_mib = 64;
  bool lazy = false;
  bool profile = false;
  double drain_seconds = 0;  // 0: the default
  server::ServiceConfig service;
};

// Ignores a repeated model; two models with the same name are an error.
void add_model(std::vector<server::NamedPath>& models, server::NamedPath model) {
  if (model.name.empty()) fail("--model: empty model name");
  const auto same = std::ranges::find(models, model.name, &server::NamedPath::name);
  if (same == models.end()) {
    models.push_back(std::move(model));
  } else if (same->path != model.path) {
    fail("--model: two models are named ", model.name, "; rename one with NAME=PATH");
  }
}

// The models given with --model, else all of the catalog, the bundled one first.
std::vector<server::NamedPath> served_models(const ServeOptions& options) {
  const api::Catalog catalog = options.model.model.catalog();
  std::vector<server::NamedPath> models;
  for (const std::string& text : options.models)
    add_model(models, named_model(text, catalog));
  if (models.empty()) {
    for (const api::ModelEntry& entry : catalog.list())
      add_model(models, {.name = entry.name, .path = entry.path});
  }
  if (models.empty()) fail("no model to serve; pass one with --model");
  return models;
}

server::ApiKeys read_keys(const ServeOptions& options) {
  server::ApiKeys keys;
  if (!options.api_key_file.empty()) {
    keys.add_lines(read_text_file(options.api_key_file), options.api_key_file);
    if (keys.empty()) fail(options.api_key_file, ": contains no keys");
  }
  if (const char* list = std::getenv("GRAFT_API_KEYS")) {
    const std::size_t num_before = keys.size();
    keys.add_list(list);
    // For example an unset variable in a script: without keys, any client could use the server.
    if (keys.size() == num_before)
      fail("GRAFT_API_KEYS: is set but contains no keys; unset it to serve without them");
  }
  return keys;
}

server::LimitTable read_limits(const ServeOptions& options, const server::ApiKeys& keys) {
  if (options.limits_file.empty()) return server::LimitTable(options.client_limits);
  return server::LimitTable::parse(read_text_file(options.limits_file), options.limits_file,
                                   options.client_limits, keys);
}

// An absolute path: the folder must exist.
std::filesystem::path checked_folder(const std::string& folder) {
  if (folder.empty()) return {};
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    fail("--snapshot-dir ", folder, ": no such folder");
  return std::filesystem::absolute(folder);
}

// Of a list with commas.
std::vector<std::string> image_hosts(const std::string& list) {
  std::vector<std::string> hosts;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) hosts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  try {
    hub::AllowedHosts{hosts};
  } catch (const Error& error) {
    fail("--allow-image-urls: ", error.what());
  }
  return hosts;
}

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

void print_address(const server::ServiceConfig& config, std::uint16_t port, server::Logs& logs) {
  const std::string& host = config.http.host;
  const bool is_v6 = host.find(':') != std::string::npos;
  // The first line: scripts that pass --port 0 read the port from it.
  logs.print(fmt::format("graft serves at {}://{}:{}",
                         config.http.tls_key.empty() ? "http" : "https",
                         is_v6 ? "[" + host + "]" : host, port));
  if (is_loopback(host)) return;
  logs.warn(fmt::format("{} is reachable from other machines", host));
  if (config.access.keys.empty()) logs.warn("no API key is set: any client can use the server");
  if (config.http.tls_key.empty())
    logs.warn("TLS is off: requests and responses are not encrypted");
}

void serve_models(ServeOptions& options) {
  server::ServiceConfig& config = options.service;
  options.log.level = *server::parse_log_level(options.log_level);
  options.log.is_json = options.log_format == "json";
  server::Logs logs(options.log);
  config.pool.models = served_models(options);
  const api::EngineConfig engine = config.pool.llm.engine;
  config.pool.llm = options.model.config(ops::kMaxAdapters);
  config.pool.llm.engine = engine;
  options.tiers.apply_to(config.pool.llm.engine);
  options.speculate.apply_to(config.pool.llm.engine);
  config.pool.llm.profile = options.profile;
  config.pool.llm.on_warning = [&logs](const std::string& line) { logs.warn(line); };
  config.pool.llm.on_placement = [&logs](const std::string& summary) {
    logs.log(server::LogLevel::Info, "placement",
             fmt::format("placement: {}; `graft plan --auto` prints the rules", summary));
  };
  config.access.keys = read_keys(options);
  config.access.bound_host = config.http.host;
  config.hub = hub::read_environment();
  config.client_limits = read_limits(options, config.access.keys);
  config.read_keys = [&options] { return read_keys(options); };
  config.read_limits = [&options](const server::ApiKeys& keys) {
    return read_limits(options, keys);
  };
  if (options.drain_seconds > 0) {
    config.http.drain = {.min_seconds = options.drain_seconds,
                         .max_seconds = options.drain_seconds};
  }
  config.access.separate_caches = !options.shared_cache;
  config.pooling = options.pooling == "last" ? api::Pooling::Last : api::Pooling::Mean;
  server::http::Limits& limits = config.http.limits;
  limits.max_body_bytes = options.max_body_mib << 20U;
  limits.max_total_body_bytes = std::max(limits.max_total_body_bytes, limits.max_body_bytes);
  limits.max_buffered_bytes = options.stream_buffer_kib << 10U;
  config.limits.max_response_bytes = options.max_response_mib << 20U;
  config.response_store.max_bytes = options.response_store_mib << 20U;
  config.preload = !options.lazy;
  config.snapshot_dir = checked_folder(options.snapshot_dir);
  config.image_hosts = image_hosts(options.image_hosts);
  server::serve(config, logs, [&](std::uint16_t port) { print_address(config, port, logs); });
}

// 0.001 to 1000000 seconds: more would overflow the clock, 0 would time out every client.
std::string seconds_problem(const std::string& text) {
  double value = 0;
  const bool is_number = parse_number(text, value);
  // Written so that NaN is rejected.
  if (is_number && value >= 1e-3 && value <= 1e6) return {};
  return "expected 0.001 to 1000000 seconds, got " + text;
}

void add_model_options(Command& command, ServeOptions& options) {
  server::PoolConfig& pool = options.service.pool;
  command.add_option(
      "-m,--model,MODEL", options.models,
      "Model to serve as path, name or NAME=PATH; repeatable (default: all models of `graft "
      "models`); requests without a model use the first");
  ModelChoice::add_folders_to(command, options.model.model.folders);
  options.model.add_all_but_model_to(command);
  command.add_option("--chat-template", pool.chat_template,
                     "Chat template file or built-in name, e.g. chatml (default: the model's)");
  command.add_option("--max-model-len", pool.llm.engine.max_model_len,
                     "Max tokens of prompt and output (default: the model's context length)");
  command.add_option("--max-num-seqs", pool.llm.engine.max_num_seqs,
                     "Max number of running sequences (default: 128)");
  command.add_option(
      "--max-num-batched-tokens", pool.llm.engine.max_num_batched_tokens,
      "Max tokens per step over all sequences (default: 2048; more, as memory allows, "
      "when prefill streams experts from host memory)");
  command.add_option("--gpu-memory-utilization", pool.llm.engine.gpu_memory_utilization,
                     "Fraction of free memory for the KV cache (default: 0.9)");
  command.add_flag("--enforce-eager", pool.llm.engine.enforce_eager, "Disable CUDA graphs");
  command.add_option("--kv-blocks", pool.llm.engine.num_kvcache_blocks,
                     "Number of KV cache blocks (default: as many as fit into memory)");
  options.tiers.add_to(command);
  options.speculate.add_to(command);
  command.add_option("--keep-alive", pool.keep_alive_seconds,
                     "Idle seconds before a model is unloaded (default: 300; -1: never)");
  command.add_option("--max-loaded-models", pool.max_loaded,
                     "Max number of loaded models (default: as many as fit into memory)");
  command
      .add_option("--switch-seconds", pool.switch_seconds,
                  "Seconds that a model waits for one of --max-loaded-models before new requests "
                  "for a model in use wait instead (default: 10)")
      ->check(seconds_problem);
  command.add_option("--pooling", options.pooling, "Pooling of embeddings: mean (default) or last")
      ->check(IsMember({"mean", "last"}));
  command.add_flag("--lazy", options.lazy,
                   "Load the first model on the first request instead of at start");
  command.add_flag("--profile", options.profile,
                   "Measure time per module, shown in /v1/plan and on the status page");
}

void add_time_limits(Command& command, server::http::Limits& limits) {
  const auto add = [&](const char* name, double& seconds, const char* help) {
    command.add_option(name, seconds, help)->check(seconds_problem);
  };
  add("--header-timeout", limits.header_seconds,
      "Timeout for request headers in seconds (default: 10)");
  add("--body-timeout", limits.body_seconds,
      "Timeout for the request body in seconds (default: 60)");
  add("--idle-timeout", limits.idle_seconds,
      "Timeout for idle connections in seconds (default: 75)");
  add("--write-timeout", limits.write_seconds,
      "Timeout for writing 64 KiB to a client in seconds (default: 60)");
  add("--ping-seconds", limits.keep_alive_seconds,
      "SSE keep-alive interval in seconds (default: 15)");
}

void add_request_limits(Command& command, ServeOptions& options) {
  server::RequestLimits& limits = options.service.limits;
  command
      .add_option("--max-answers", limits.max_answers,
                  "Max answers per request: prompts x n (default: 2048)")
      ->check(Range(1, 1 << 20));
  command
      .add_option("--max-output-tokens", limits.max_output_tokens,
                  "Max output tokens per request over all answers (default: 1048576; one answer "
                  "may always fill the context)")
      ->check(Range(1, 1 << 30));
  command
      .add_option("--max-response-mib", options.max_response_mib,
                  "Max size of a response that is not streamed, in MiB (default: 64)")
      ->check(Range(1, 4096));
  command
      .add_option("--response-store-mib", options.response_store_mib,
                  "Memory for responses of /v1/responses that clients may refer to later, in MiB; "
                  "the least recently used are dropped (default: 64; 0: keep none)")
      ->check(Range(0, 1 << 20));
}

void add_client_limits(Command& command, ServeOptions& options) {
  command
      .add_option("--max-client-answers", options.client_limits.concurrent_answers,
                  "Max running and queued answers of a client: an API key, or an address without "
                  "keys (default: 4096)")
      ->check(Range(1, 1 << 30));
  command
      .add_option("--max-client-queued-tokens", options.client_limits.queued_tokens,
                  "Max prompt tokens of a client that wait for their first output token (default: "
                  "4194304)")
      ->check(Range(1, 1 << 30));
  command.add_option("--limits", options.limits_file,
                     "YAML file with limits per API key: requests and tokens per minute, "
                     "concurrent answers, queued tokens; SIGHUP reads it again");
}

void add_client_options(Command& command, server::AccessConfig& access) {
  command.add_option(
      "--cors-origin", access.origins,
      "Allowed CORS origin, may end in *; repeatable (always: localhost and desktop apps)");
  command.add_option(
      "--allowed-host", access.hosts,
      "Host name under which clients may reach the server, or * for any; repeatable (always: "
      "localhost, IP addresses, this machine's name and --host)");
  command.add_option("--public-url", access.public_url,
                     "URL of the server behind a proxy, e.g. https://chat.example; allows its host "
                     "and its origin");
  command.add_option("--trusted-proxy", access.trusted_proxies,
                     "Address or network of a proxy whose X-Forwarded-For and X-Forwarded-Host are "
                     "used; repeatable (default: none)");
}

void add_image_hosts(Command& command, std::string& hosts) {
  command.add_option("--allow-image-urls", hosts,
                     "Hosts that http and https URLs of images in messages are fetched from, as "
                     "HOST[:PORT],…; private addresses only where an entry is the address "
                     "(default: none)");
}

void add_server_options(Command& command, ServeOptions& options) {
  server::ServiceConfig& config = options.service;
  command.add_option("--host", config.http.host, "Address to listen on (default: 127.0.0.1)");
  command.add_option("--port", config.http.port,
                     "Port to listen on (default: 8000; 0: any free port)");
  command.add_option("--tls-cert", config.http.tls_certificate, "TLS certificate chain (PEM file)");
  command.add_option("--tls-key", config.http.tls_key, "TLS private key (PEM file)");
  command.add_option(
      "--api-key-file", options.api_key_file,
      "File with one API key per line, plain or sha256:HEX, then name=NAME and admin where "
      "wanted; also GRAFT_API_KEYS");
  command.add_flag("--allow-pull", config.access.allow_pull,
                   "Let every client pull, create, copy and delete models (default: admin keys; "
                   "without keys, clients of a server on a loopback address)");
  command.add_flag("--shared-cache", options.shared_cache,
                   "Share the prefix cache, with its tiers, between API keys");
  command.add_option("--snapshot-dir", options.snapshot_dir,
                     "Existing folder to which admins save running answers with their KV cache, "
                     "and from which they restore them, see /v1/sequences (default: none)");
  add_image_hosts(command, options.image_hosts);
  add_client_options(command, config.access);
  command
      .add_option("--max-queue", config.max_waiting,
                  "Max waiting requests per model (default: 16384)")
      ->check(Range(0, 1 << 20));
  command
      .add_option("--max-body-mib", options.max_body_mib,
                  "Max request body size in MiB (default: 32)")
      ->check(Range(1, 4096));
  command
      .add_option("--max-connections", config.http.limits.max_connections,
                  "Max open connections; more wait to be accepted (default: 10000)")
      ->check(Range(1, 1 << 20));
  command
      .add_option("--stream-buffer-kib", options.stream_buffer_kib,
                  "Output in KiB that waits for a slow client before its request is paused "
                  "(default: 4096)")
      ->check(Range(1, 1 << 20));
  add_request_limits(command, options);
  add_client_limits(command, options);
  add_time_limits(command, config.http.limits);
  command
      .add_option(
          "--drain-seconds", options.drain_seconds,
          "Seconds after SIGTERM during which the port stays open, /ready is 503 and running "
          "responses end (default: until they have ended, 1 to 30)")
      ->check(seconds_problem);
  command.add_option("--access-log", options.log.access_path,
                     "Write one JSON line per request, without prompts, to this file; - is stdout");
  command
      .add_option("--log-level", options.log_level,
                  "Messages on standard error: error, warning, info (default: loads and unloads of "
                  "models) or debug (every step)")
      ->check(IsMember({"error", "warning", "info", "debug"}));
  command
      .add_option("--log-format", options.log_format,
                  "Form of the messages on standard error: text (default) or json")
      ->check(IsMember({"text", "json"}));
}

}  // namespace

void add_serve(Command& app) {
  auto options = std::make_shared<ServeOptions>();
  Command* command = app.add_subcommand(
      "serve", "Serve models over HTTP with OpenAI-, Anthropic- and Ollama-compatible APIs");
  add_model_options(*command, *options);
  add_server_options(*command, *options);
  command->callback([options] { serve_models(*options); });
}

}  // namespace graft::cli
