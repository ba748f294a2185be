// graft::LLM, the public class: every member calls the api::LLM behind it.

#include <utility>

#include "graft/api/llm.h"
#include "graft/base/error.h"
#include "graft/llm.h"
#include "graft/plan/report.h"

namespace graft {
namespace {

const tokenizer::Tokenizer& tokenizer_of(const api::LLM& llm) {
  if (llm.tokenizer() == nullptr) fail("the model has no tokenizer");
  return *llm.tokenizer();
}

}  // namespace

LLM::LLM(const std::filesystem::path& model, const LlmConfig& config)
    : llm_(std::make_unique<api::LLM>(model, config)) {}

LLM::~LLM() = default;

std::vector<Output> LLM::generate(const std::vector<Prompt>& prompts,
                                  const SamplingParams& params) {
  return llm_->generate(prompts, params);
}

std::vector<Output> LLM::generate(const std::vector<Prompt>& prompts,
                                  const std::vector<SamplingParams>& params) {
  return llm_->generate(prompts, params);
}

RequestId LLM::submit(const Prompt& prompt,
                      const SamplingParams& params,
                      Callback callback,
                      const SubmitOptions& options) {
  return llm_->submit(prompt, params, std::move(callback), options);
}

void LLM::abort(RequestId request) {
  llm_->abort(request);
}

AdapterInfo LLM::load_adapter(const AdapterSource& source) {
  return llm_->load_adapter(source);
}

bool LLM::unload_adapter(const std::string& name) {
  return llm_->unload_adapter(name);
}

std::vector<AdapterInfo> LLM::adapters() const {
  return llm_->adapters();
}

void LLM::save(SequenceId id, const std::filesystem::path& path) {
  llm_->save(id, path);
}

RequestId LLM::restore(const std::filesystem::path& path, Callback callback) {
  return llm_->restore(path, std::move(callback));
}

std::vector<float> LLM::embed(const Prompt& text, Pooling pooling) {
  return llm_->embed(text, pooling);
}

std::shared_ptr<const vision::PreparedImage> LLM::prepare_image(
    const std::vector<std::byte>& file) const {
  return llm_->prepare_image(file);
}

bool LLM::has_tokenizer() const {
  return llm_->tokenizer() != nullptr;
}

std::vector<TokenId> LLM::encode(std::string_view text) const {
  return tokenizer_of(*llm_).encode(text);
}

std::string LLM::decode(const std::vector<TokenId>& tokens, bool keep_special) const {
  return tokenizer_of(*llm_).decode(tokens, keep_special);
}

EngineConfig LLM::config() const {
  return llm_->config();
}

EngineStats LLM::stats() const {
  return llm_->stats();
}

std::string LLM::plan_text() const {
  return plan::plan_text(llm_->plan());
}

std::map<std::string, ProfileEntry> LLM::profile() {
  std::map<std::string, ProfileEntry> entries;
  for (const auto& [module, entry] : llm_->profile())
    entries[module] = {.calls = entry.calls, .seconds = entry.seconds};
  return entries;
}

}  // namespace graft
