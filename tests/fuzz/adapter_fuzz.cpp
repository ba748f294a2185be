// Fuzzes the files of LoRA adapters: adapter_config.json with the names of PEFT's tensors, and GGUF
// adapters. Reading either succeeds or throws Error; the pairs of an accepted file are matrices
// that fit each other.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/formats/adapters/adapter_file.h"
#include "graft/formats/gguf/gguf_part.h"

namespace {

using namespace graft::formats;  // NOLINT(google-build-using-namespace): one short file
using graft::Json;

void check(const std::vector<LoraPair>& pairs) {
  for (const LoraPair& pair : pairs) {
    GRAFT_CHECK(pair.a != nullptr && pair.b != nullptr, "half a pair");
    GRAFT_CHECK(pair.a->shape.size() == 2 && pair.b->shape.size() == 2, "no matrices");
    GRAFT_CHECK(pair.a->shape[0] == pair.b->shape[1], "different ranks");
    GRAFT_CHECK(std::isfinite(pair.scale), "the scale is not finite");
  }
}

// {"config": adapter_config.json, "tensors": {name: [rows, cols]}}, or the first alone.
void read_peft(const Json& json) {
  const bool has_tensors = json.is_object() && json.contains("config");
  const PeftConfig config(has_tensors ? json["config"] : json, "fuzz");
  std::vector<TensorInfo> tensors;
  for (const char* name : {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
                           "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"}) {
    const bool is_a = std::string_view(name).find("lora_A") != std::string_view::npos;
    tensors.push_back(
        {.name = name,
         .shape = is_a ? std::vector<std::int64_t>{8, 4} : std::vector<std::int64_t>{4, 8}});
  }
  if (has_tensors && json.contains("tensors") && json["tensors"].is_object()) {
    tensors.clear();
    for (const auto& [name, shape] : json["tensors"].items()) {
      TensorInfo tensor;
      tensor.name = name;
      for (const Json& size : shape)
        tensor.shape.push_back(size.is_number_unsigned() ? size.get<std::int64_t>() : 1);
      tensors.push_back(tensor);
    }
  }
  check(peft_pairs(config, tensors, "fuzz"));
}

}  // namespace

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string where = "fuzz";
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (text.starts_with("GGUF")) {
      const GgufPart part = parse_gguf(std::as_bytes(std::span(data, size)), where);
      check(gguf_pairs(part.metadata, part.tensors, where));
    } else {
      read_peft(graft::parse_json(text, where));
    }
  } catch (const graft::Error&) {
    return 0;
  }
  return 0;
}
