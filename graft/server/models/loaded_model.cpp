#include "graft/server/models/loaded_model.h"

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

std::shared_ptr<void> LoadedModel::reserve_slots(std::int64_t num_sequences,
                                                 std::int64_t max_waiting) {
  const std::int64_t max_slots = llm_.config().max_num_seqs + max_waiting;
  std::int64_t now = *num_reserved_;
  do {
    // A request larger than all slots is accepted when the model is idle.
    if (now > 0 && now + num_sequences > max_slots) {
      throw busy_error(
          str("too many requests: ", now, " sequences are running or queued, max ", max_slots), 1);
    }
  } while (!num_reserved_->compare_exchange_weak(now, now + num_sequences));
  return {nullptr, [count = num_reserved_, num_sequences](void*) { *count -= num_sequences; }};
}

}  // namespace graft::server
