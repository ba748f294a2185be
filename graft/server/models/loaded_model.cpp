#include "graft/server/models/loaded_model.h"

#include <atomic>
#include <utility>

#include "graft/base/error.h"
#include "graft/server/api_error.h"

namespace graft::server {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

}  // namespace

LoadedModel::LoadedModel(ModelInfo info,
                         const api::LlmConfig& config,
                         const std::string& chat_template)
    : info_(std::move(info)),
      serial_(next_serial()),
      llm_(info_.path, config),
      load_seconds_(seconds_since(start_)) {
  if (llm_.tokenizer() != nullptr) format_.emplace(llm_, chat_template);
}

const api::ChatFormat& LoadedModel::format() const {
  tokenizer();
  return *format_;
}

const tokenizer::Tokenizer& LoadedModel::tokenizer() const {
  if (llm_.tokenizer() == nullptr) throw ApiError(400, str(name(), " has no tokenizer"), "model");
  return *llm_.tokenizer();
}

}  // namespace graft::server
