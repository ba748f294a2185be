#include "graft/models/weights/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "graft/base/error.h"
#include "graft/formats/safetensors/safetensors_file.h"

namespace graft::models {
namespace {

class Reference {
 public:
  explicit Reference(const std::filesystem::path& path) : file_(path) {}

  // Empty when the file has no such tensor.
  std::vector<float> floats(const std::string& name) const {
    return values<float>(name, DType::F32);
  }
  TokenIds tokens(const std::string& name) const { return values<std::int32_t>(name, DType::I32); }
  // "a", "b" …: the names before ".input_ids".
  std::vector<std::string> prompts() const {
    constexpr std::string_view kSuffix = ".input_ids";
    std::vector<std::string> names;
    for (const formats::TensorInfo& tensor : file_.tensors()) {
      const std::string_view name = tensor.name;
      if (name.ends_with(kSuffix)) names.emplace_back(name.substr(0, name.size() - kSuffix.size()));
    }
    if (names.empty()) fail(file_.path().string(), ": has no prompts (tensors <name>.input_ids)");
    std::ranges::sort(names);
    return names;
  }

 private:
  template <class T>
  std::vector<T> values(const std::string& name, DType dtype) const {
    const auto& tensors = file_.tensors();
    const auto found = std::ranges::find(tensors, name, &formats::TensorInfo::name);
    if (found == tensors.end()) return {};
    if (found->dtype != dtype) {
      fail(file_.path().string(), ": ", name, " is ", graft::name(found->dtype), ", expected ",
           graft::name(dtype));
    }
    std::vector<T> out(found->data.size() / sizeof(T));
    std::memcpy(out.data(), found->data.data(), found->data.size());  // the data may be unaligned
    return out;
  }

  formats::SafetensorsFile file_;
};

// Infinity for NaN or different sizes.
double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  constexpr double kHopeless = std::numeric_limits<double>::infinity();
  if (got.size() != want.size()) return kHopeless;
  double error = 0;
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(got[i]) - want[i]);
    if (!std::isfinite(difference)) return kHopeless;
    error = std::max(error, difference);
    largest = std::max(largest, std::fabs(static_cast<double>(want[i])));
  }
  return largest == 0 ? error : error / largest;
}

void check_tokens(const Model& model, const TokenIds& prompt, const std::string& where) {
  for (const std::int32_t token : prompt) {
    if (token < 0 || token >= model.vocab_size()) {
      fail(where, ": token ", token, " is out of range: the vocabulary has ", model.vocab_size(),
           " tokens");
    }
  }
  if (prompt.empty()) fail(where, ": is empty");
}

PromptReport verify_prompt(Model& model,
                           const Reference& reference,
                           const std::string& name,
                           const VerifyOptions& options) {
  const TokenIds prompt = reference.tokens(name + ".input_ids");
  check_tokens(model, prompt, name + ".input_ids");
  PromptReport report;
  report.name = name;
  report.num_tokens = static_cast<std::int64_t>(prompt.size());

  const PromptRun run =
      run_prompts(model, {&prompt, 1},
                  {.chunk = options.chunk, .hidden = true, .adapters = {options.adapter}})
          .front();
  report.logit_error = relative_error(run.logits, reference.floats(name + ".logits"));
  for (std::size_t i = 0; i < run.hidden.size(); ++i) {
    const std::vector<float> want = reference.floats(str(name, ".hidden.", i));
    if (!want.empty()) report.hidden_errors.push_back(relative_error(run.hidden[i], want));
  }
  report.expected_greedy = reference.tokens(name + ".greedy");
  report.greedy =
      generate_greedy(model, prompt, static_cast<std::int64_t>(report.expected_greedy.size()),
                      options.chunk, options.adapter);
  return report;
}

}  // namespace

bool PromptReport::ok(double tolerance) const {
  return logit_error <= tolerance &&
         std::ranges::all_of(hidden_errors, [&](double error) { return error <= tolerance; }) &&
         greedy == expected_greedy;
}

bool VerifyReport::ok() const {
  return std::ranges::all_of(prompts,
                             [&](const PromptReport& prompt) { return prompt.ok(tolerance); });
}

double VerifyReport::largest_error() const {
  double largest = 0;
  for (const PromptReport& prompt : prompts) {
    largest = std::max(largest, prompt.logit_error);
    for (const double error : prompt.hidden_errors)
      largest = std::max(largest, error);
  }
  return largest;
}

VerifyReport verify(Model& model,
                    const std::filesystem::path& reference,
                    const VerifyOptions& options) {
  const Reference file(reference);
  VerifyReport report;
  report.tolerance = options.tolerance;
  for (const std::string& name : file.prompts()) {
    report.prompts.push_back(verify_prompt(model, file, name, options));
  }
  return report;
}

VerifyReport verify(const std::filesystem::path& model_path,
                    const std::filesystem::path& reference,
                    const VerifyOptions& options) {
  OpenModel open(model_path, options.open);
  return verify(open.model(), reference, options);
}

std::vector<TokenIds> read_reference_prompts(const std::filesystem::path& reference) {
  const Reference file(reference);
  std::vector<TokenIds> prompts;
  for (const std::string& name : file.prompts()) {
    prompts.push_back(file.tokens(name + ".input_ids"));
  }
  return prompts;
}

}  // namespace graft::models
