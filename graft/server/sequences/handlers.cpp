#include "graft/server/sequences/handlers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/engine/snapshots/output_text.h"
#include "graft/engine/snapshots/snapshot.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/json_text.h"
#include "graft/server/openai/completion_response.h"
#include "graft/server/openai/wire.h"
#include "graft/server/sequences/request.h"

namespace graft::server::sequences {
namespace {

namespace fs = std::filesystem;

void check_allowed(const HandlerContext& context, const http::Request& request) {
  if (context.access.model_changes(request) != ModelChanges::All) {
    throw ApiError(403,
                   str(request.path,
                       ": needs an admin key, which has the word admin after it in the file of "
                       "--api-key-file"),
                   {}, "admin_key_required");
  }
  if (!context.snapshot_dir.empty()) return;
  throw ApiError(501, str(request.path, ": the server was started without --snapshot-dir"));
}

fs::path file_of(const HandlerContext& context, const std::string& filename) {
  check_filename(filename);
  return context.snapshot_dir / filename;
}

// The latest one of this id: clients may choose it, and choose it again.
RunningGeneration find_running(const HandlerContext& context, const std::string& id) {
  const std::vector<RunningGeneration> running = context.running.list();
  const auto found = std::find_if(running.rbegin(), running.rend(),
                                  [&](const RunningGeneration& one) { return one.id == id; });
  if (found == running.rend()) {
    throw ApiError(404, str("no running request has the id '", id, "' (header x-request-id)"), {},
                   "sequence_not_found");
  }
  return *found;
}

api::SequenceId sequence_of(const RunningGeneration& running, const SaveRequest& request) {
  const auto num_prompts = static_cast<std::int64_t>(running.requests.size());
  if (request.prompt >= num_prompts) {
    throw ApiError(400, str("prompt: ", request.prompt, " of ", num_prompts, " prompts"), "prompt");
  }
  if (request.sample >= running.num_samples) {
    throw ApiError(400, str("sample: ", request.sample, " of ", running.num_samples, " samples"),
                   "sample");
  }
  return {.request = running.requests[static_cast<std::size_t>(request.prompt)],
          .sample = running.is_copied ? 0 : request.sample};
}

http::Response list(const HandlerContext& context, const http::Request& request) {
  check_allowed(context, request);
  OrderedJson data = OrderedJson::array();
  for (const RunningGeneration& running : context.running.list()) {
    data.push_back({{"id", running.id},
                    {"path", running.path},
                    {"model", running.model},
                    {"prompts", running.requests.size()},
                    {"samples", running.num_samples}});
  }
  return {.body = ordered_text({{"object", "list"}, {"data", data}})};
}

http::Response save(const HandlerContext& context, const std::string& id, const SaveRequest& save) {
  const std::string filename = save.filename.empty() ? id : save.filename;
  const fs::path file = file_of(context, filename);
  const RunningGeneration running = find_running(context, id);
  const std::shared_ptr<LoadedModel> lease = running.loaded.lock();
  const api::SequenceId sequence = sequence_of(running, save);
  const auto finished = [&] {
    return ApiError(404, str("request '", id, "': this sample has finished"), {},
                    "sequence_not_found");
  };
  if (lease == nullptr) throw finished();
  try {
    lease->llm().save(sequence, file);
  } catch (const engine::UnknownSequence&) {
    throw finished();
  } catch (const Error& error) {
    throw ApiError(500, error.what());
  }
  std::error_code ignored;
  return {.body = ordered_text({{"id", id},
                                {"object", "sequence.snapshot"},
                                {"model", running.model},
                                {"filename", filename},
                                {"bytes", fs::file_size(file, ignored)}})};
}

// What the output was when it was saved.
std::string saved_text(const tokenizer::Tokenizer& tokenizer, const engine::Snapshot& snapshot) {
  const auto detokenizer = engine::make_detokenizer(tokenizer, snapshot.params);
  return engine::replay_output(
      *detokenizer, snapshot.params,
      std::span(snapshot.tokens).subspan(static_cast<std::size_t>(snapshot.num_prompt)));
}

void go_on(const HandlerContext& context,
           const http::ExchangePtr& exchange,
           const std::string& filename,
           const RestoreRequest& request,
           Lease lease) {
  LoadedModel& model = *lease;
  engine::Snapshot snapshot = engine::read_snapshot(context.snapshot_dir / filename);
  const api::SamplingParams& params = snapshot.params;
  if (request.echo && params.logprobs) {
    throw ApiError(
        400, "echo: the saved request has logprobs, and those before the save are not in the file",
        "echo");
  }
  const auto prompt_end = snapshot.tokens.begin() + snapshot.num_prompt;
  const bool has_output = prompt_end != snapshot.tokens.end();
  GenerationInput input = {.prompts = {{snapshot.tokens.begin(), prompt_end}},
                           .params = params,
                           .client = context.access.client_of(exchange->request()),
                           .is_stream = request.is_stream,
                           .stream_head = openai::sse_head(),
                           .structured_field = "structured_output"};
  openai::CompletionResponseOptions options = {
      .is_stream = request.is_stream,
      .include_usage = request.include_usage,
      .wants_logprobs = params.logprobs.has_value(),
      .prompt_logprobs = has_output ? std::nullopt : params.prompt_logprobs,
      .tokenizer = &model.tokenizer()};
  if (request.echo) {
    options.echoes.push_back(saved_text(model.tokenizer(), snapshot));
    input.size.echo_bytes = options.echoes.back().size();
  }
  input.snapshot = std::make_shared<engine::Snapshot>(std::move(snapshot));
  input.snapshot_name = filename;
  auto writer = std::make_unique<openai::CompletionResponseWriter>(
      openai::new_identity("cmpl", model.name()), std::move(options));
  start_generation(exchange, std::move(lease), std::move(input), std::move(writer),
                   context.generation());
}

void restore(const HandlerContext& context,
             const http::ExchangePtr& exchange,
             const std::string& id,
             RestoreRequest request) {
  const std::string filename = request.filename.empty() ? id : request.filename;
  std::error_code error;
  if (!fs::is_regular_file(file_of(context, filename), error)) {
    throw ApiError(404, str("no saved sequence '", filename, "'"), "filename",
                   "sequence_not_found");
  }
  const std::string model = request.model;
  context.with_model(exchange, model,
                     [&context, exchange, filename, request = std::move(request)](Lease lease) {
                       go_on(context, exchange, filename, request, std::move(lease));
                     });
}

// An empty body is an empty object.
OrderedJson body_of(const http::ExchangePtr& exchange) {
  const std::string body = exchange->take_body();
  return parse_body(body.empty() ? "{}" : body);
}

}  // namespace

void add_routes(Router& router, const HandlerContext& context) {
  router.add_sync("GET", "/v1/sequences",
                  [&context](const http::Request& request) { return list(context, request); });
  router.add("POST", "/v1/sequences/*", [&context](const http::ExchangePtr& exchange) {
    check_allowed(context, exchange->request());
    const SequencePath path = read_path(exchange->request().path);
    const OrderedJson body = body_of(exchange);
    if (path.is_save) {
      exchange->respond(save(context, path.id, read_save(body)));
    } else {
      restore(context, exchange, path.id, read_restore(body));
    }
  });
}

}  // namespace graft::server::sequences
