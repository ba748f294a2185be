#include "graft/server/ollama/library_handlers.h"

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "graft/base/error.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/json_text.h"
#include "graft/server/ollama/library_request.h"

namespace graft::server::ollama {
namespace {

ModelChanges check_allowed(const HandlerContext& context, const http::Request& request) {
  const ModelChanges allowed = context.access.model_changes(request);
  if (allowed == ModelChanges::None) {
    throw ApiError(403,
                   str(request.path,
                       ": needs an admin key, which has the word admin after it in the file of "
                       "--api-key-file, or a server with --allow-pull"),
                   {}, "admin_key_required");
  }
  return allowed;
}

std::string line_of(const OrderedJson& json) {
  return ordered_text(json) + "\n";
}

// The response to a pull: lines of progress, or one object at the end.
class PullResponse {
 public:
  PullResponse(http::ExchangePtr exchange, bool is_stream)
      : exchange_(std::move(exchange)), is_stream_(is_stream) {}

  void write(const PullProgress& progress) {
    if (!is_stream_) return;
    // A client that reads slowly misses lines, which are of no use later.
    if (has_begun_ && exchange_->when_writable([] {})) return;
    begin();
    OrderedJson json = {{"status", progress.status}};
    if (!progress.digest.empty()) {
      json["digest"] = progress.digest;
      json["total"] = progress.total;
      if (progress.completed > 0) json["completed"] = progress.completed;
    }
    exchange_->write(line_of(json));
  }

  void end(const std::string& error) {
    if (!error.empty()) exchange_->log_field("error", error);
    if (!is_stream_) {
      exchange_->respond(
          error.empty() ? http::Response{.body = ordered_text({{"status", "success"}})}
                        : error_response({500, without_folders(error)}, exchange_->request().path));
      return;
    }
    begin();
    exchange_->write(error.empty() ? line_of({{"status", "success"}})
                                   : line_of({{"error", without_folders(error)}}));
    exchange_->end();
  }

 private:
  void begin() {
    if (!std::exchange(has_begun_, true))
      exchange_->start_stream({.content_type = "application/x-ndjson"});
  }

  const http::ExchangePtr exchange_;
  const bool is_stream_;
  bool has_begun_ = false;
};

void pull(const HandlerContext& context, ModelLibrary& library, const http::ExchangePtr& exchange) {
  const ModelChanges allowed = check_allowed(context, exchange->request());
  const PullRequest request = read_pull(parse_body(exchange->take_body()));
  const hub::ModelRef ref = parse_pull_name(request.model);
  if (ref.source == hub::Source::Url && allowed != ModelChanges::All) {
    throw ApiError(403, "model: a URL needs an admin key; pull a model of a hub by its name",
                   "model", "admin_key_required");
  }
  const auto response = std::make_shared<PullResponse>(exchange, request.is_stream);
  const std::uint64_t id = library.pulls().add(
      ref, {.on_progress = [response](const PullProgress& progress) { response->write(progress); },
            .on_end =
                [&library, ref, response](std::string error, const std::filesystem::path& path) {
                  try {
                    if (error.empty()) library.add_pulled(ref, path);
                  } catch (const std::exception& thrown) {
                    error = thrown.what();
                  }
                  response->end(error);
                }});
  exchange->on_disconnect([&library, id] { library.pulls().leave(id); });
}

void create(const HandlerContext& context,
            ModelLibrary& library,
            const http::ExchangePtr& exchange) {
  check_allowed(context, exchange->request());
  const NewModelRequest request = read_create(parse_body(exchange->take_body()));
  library.create(request.create);
  if (!request.is_stream) {
    exchange->respond({.body = ordered_text({{"status", "success"}})});
    return;
  }
  exchange->start_stream({.content_type = "application/x-ndjson"});
  for (const char* status : {"reading model metadata", "writing manifest", "success"})
    exchange->write(line_of({{"status", status}}));
  exchange->end();
}

}  // namespace

void add_library_routes(Router& router, const HandlerContext& context, ModelLibrary& library) {
  router.add("POST", "/api/pull", [&context, &library](const http::ExchangePtr& exchange) {
    pull(context, library, exchange);
  });
  router.add("POST", "/api/create", [&context, &library](const http::ExchangePtr& exchange) {
    create(context, library, exchange);
  });
  router.add_sync("POST", "/api/copy", [&context, &library](const http::Request& request) {
    check_allowed(context, request);
    const CopyRequest copy = read_copy(parse_body(request.body));
    library.copy(copy.source, copy.destination);
    return http::Response{.body = "{}"};
  });
  router.add_sync("DELETE", "/api/delete", [&context, &library](const http::Request& request) {
    check_allowed(context, request);
    library.remove(read_delete(parse_body(request.body)));
    return http::Response{.body = "{}"};
  });
}

}  // namespace graft::server::ollama
