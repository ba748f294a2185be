// The tensors of an adapter as pairs of matrices.

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "graft/base/error.h"
#include "graft/formats/adapters/adapter_file.h"
#include "graft/formats/tensor_spec.h"

namespace graft::formats {
namespace {

using Pairs = std::map<std::string, LoraPair, std::less<>>;

bool is_float(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}

void check_matrix(const TensorInfo& tensor, const std::string& where) {
  if (!is_float(tensor.dtype)) {
    fail(where, ": ", tensor.name, " has type ", name(tensor.dtype),
         ", adapters have F32, F16 or BF16");
  }
  if (tensor.shape.size() != 2 || tensor.shape[0] < 1 || tensor.shape[1] < 1) {
    fail(where, ": ", tensor.name, " has shape ", shape_text(tensor.shape), ", expected a matrix");
  }
}

std::vector<LoraPair> complete(const Pairs& pairs, const std::string& where) {
  if (pairs.empty()) fail(where, ": no LoRA tensors");
  std::vector<LoraPair> all;
  for (const auto& [target, found] : pairs) {
    LoraPair pair = found;
    if (pair.a == nullptr || pair.b == nullptr) {
      const TensorInfo& other = pair.a == nullptr ? *pair.b : *pair.a;
      fail(where, ": ", other.name, " has no ", pair.a == nullptr ? "A" : "B", " matrix beside it");
    }
    if (pair.b->shape[1] != pair.a->shape[0]) {
      fail(where, ": ", target, ": A ", shape_text(pair.a->shape), " and B ",
           shape_text(pair.b->shape), " have different ranks");
    }
    pair.target = target;
    all.push_back(std::move(pair));
  }
  return all;
}

void add(Pairs& pairs,
         std::string target,
         bool is_a,
         const TensorInfo& tensor,
         const std::string& where) {
  check_matrix(tensor, where);
  LoraPair& pair = pairs[std::move(target)];
  const TensorInfo*& slot = is_a ? pair.a : pair.b;
  if (slot != nullptr) fail(where, ": ", tensor.name, " and ", slot->name, " are the same matrix");
  slot = &tensor;
}

struct PeftName {
  std::string module;
  bool is_a = false;
};

// "base_model.model.X.lora_A.weight", with the name of the adapter before ".weight" in files of
// early versions.
std::optional<PeftName> parse_peft(std::string_view name) {
  constexpr std::string_view kPrefix = "base_model.model.";
  constexpr std::string_view kSuffix = ".weight";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  if (!name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  for (const std::string_view marker : {".lora_A", ".lora_B"}) {
    const std::size_t at = name.rfind(marker);
    if (at == std::string_view::npos || at == 0) continue;
    const std::string_view rest = name.substr(at + marker.size());
    const bool is_named =
        rest.size() > 1 && rest[0] == '.' && rest.find('.', 1) == std::string_view::npos;
    if (!rest.empty() && !is_named) continue;
    return PeftName{.module = std::string(name.substr(0, at)), .is_a = marker == ".lora_A"};
  }
  return std::nullopt;
}

}  // namespace

std::vector<LoraPair> peft_pairs(const PeftConfig& config,
                                 std::span<const TensorInfo> tensors,
                                 const std::string& where) {
  Pairs pairs;
  for (const TensorInfo& tensor : tensors) {
    const auto name = parse_peft(tensor.name);
    if (!name) {
      const bool is_embedding = tensor.name.find("lora_embedding_") != std::string::npos;
      const bool is_dora = tensor.name.find("lora_magnitude_vector") != std::string::npos;
      fail(where, ": ", tensor.name, ": ",
           is_embedding ? "adapters of embeddings are not supported"
           : is_dora    ? "DoRA (weight-decomposed adapters) are not supported"
                        : "not a matrix of a LoRA adapter (lora_A, lora_B)");
    }
    add(pairs, name->module + ".weight", name->is_a, tensor, where);
  }
  std::vector<LoraPair> all = complete(pairs, where);
  constexpr std::string_view kSuffix = ".weight";
  for (LoraPair& pair : all) {
    const std::string_view module =
        std::string_view(pair.target).substr(0, pair.target.size() - kSuffix.size());
    if (const std::int64_t rank = config.rank_of(module); rank != pair.rank()) {
      fail(where, ": ", pair.a->name, " has shape ", shape_text(pair.a->shape),
           ", adapter_config.json says rank ", rank);
    }
    pair.scale = config.scale_of(module);
  }
  return all;
}

std::vector<LoraPair> gguf_pairs(const GgufMetadata& metadata,
                                 std::span<const TensorInfo> tensors,
                                 const std::string& where) {
  const auto text = [&](const char* key) { return metadata.string(key).value_or(""); };
  if (text("general.type") != "adapter") {
    fail(where, R"(: "general.type" is ")", text("general.type"), R"(", expected "adapter")");
  }
  if (text("adapter.type") != "lora") {
    fail(where, R"(: "adapter.type" is ")", text("adapter.type"), R"(", only "lora" is supported)");
  }
  if (metadata.find("adapter.alora.invocation_tokens") != nullptr) {
    fail(where, ": \"adapter.alora.invocation_tokens\": activated adapters (aLoRA) are not ",
         "supported");
  }
  const double alpha = metadata.number("adapter.lora.alpha").value_or(0.0);
  constexpr double kMaxAlpha = 1e6;  // larger values are damage
  if (!(std::fabs(alpha) <= kMaxAlpha))
    fail(where, ": \"adapter.lora.alpha\" is ", alpha, ", expected a number");
  Pairs pairs;
  for (const TensorInfo& tensor : tensors) {
    constexpr std::size_t kSuffix = std::string_view(".lora_a").size();
    const bool is_a = tensor.name.ends_with(".lora_a");
    if ((!is_a && !tensor.name.ends_with(".lora_b")) || tensor.name.size() == kSuffix)
      fail(where, ": ", tensor.name, ": not a matrix of a LoRA adapter (.lora_a, .lora_b)");
    std::string target = tensor.name.substr(0, tensor.name.size() - kSuffix);
    if (target.starts_with("token_embd."))
      fail(where, ": ", tensor.name, ": adapters of embeddings are not supported");
    add(pairs, std::move(target), is_a, tensor, where);
  }
  std::vector<LoraPair> all = complete(pairs, where);
  // As in llama.cpp: without alpha the product is not scaled.
  for (LoraPair& pair : all)
    pair.scale = alpha == 0.0 ? 1.0 : alpha / static_cast<double>(pair.rank());
  return all;
}

}  // namespace graft::formats
