#include "graft/engine/tiers/cache_identity.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <variant>

#include <xxhash.h>

#include "graft/base/text/str.h"
#include "graft/formats/gguf/metadata.h"
#include "graft/formats/huggingface/hf_config_files.h"
#include "graft/kernels/cpu/table.h"
#include "graft/plan/report.h"
#include "graft/version.h"

namespace graft::engine {
namespace {

std::uint64_t hash_text(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

std::uint64_t hash_value(const formats::GgufValue& value, std::uint64_t seed) {
  return std::visit(
      [&](const auto& held) {
        using Held = std::remove_cvref_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::string>) {
          return hash_text(held, seed);
        } else if constexpr (std::is_same_v<Held, formats::GgufArray>) {
          return XXH3_64bits_withSeed(held.bytes.data(), held.bytes.size(), seed);
        } else {
          return XXH3_64bits_withSeed(&held, sizeof(held), seed);
        }
      },
      value);
}

std::uint64_t hash_config(const formats::WeightSource& source) {
  std::uint64_t hash = 1;
  if (const formats::HfConfigFiles* files = source.hf_config())
    hash = hash_text(files->config.dump(-1, ' ', false, Json::error_handler_t::replace), hash);
  if (const formats::GgufMetadata* metadata = source.gguf_metadata()) {
    for (const auto& [key, value] : metadata->entries())
      hash = hash_value(value, hash_text(key, hash));
  }
  return hash;
}

}  // namespace

std::uint64_t fingerprint_of(const formats::WeightSource& source) {
  constexpr std::size_t kSampleBytes = 64;
  std::uint64_t hash = 1;
  const auto add = [&](const void* data, std::size_t size) {
    hash = XXH3_64bits_withSeed(data, size, hash);
  };
  for (const formats::TensorInfo& tensor : source.tensors()) {
    add(tensor.name.data(), tensor.name.size());
    add(&tensor.dtype, sizeof(tensor.dtype));
    add(tensor.shape.data(), tensor.shape.size() * sizeof(std::int64_t));
    const std::size_t size = std::min(kSampleBytes, tensor.data.size());
    add(tensor.data.data(), size);
    add(tensor.data.data() + tensor.data.size() - size, size);
  }
  return std::max<std::uint64_t>(hash, 1);
}

std::string model_identity(const models::OpenModel& open) {
  const std::string plan =
      plan::plan_json(open.plan()).dump(-1, ' ', false, Json::error_handler_t::replace);
  return str("graft ", GRAFT_VERSION, ", weights ", fingerprint_of(open.source()), ", config ",
             hash_config(open.source()), ", plan ", hash_text(plan, 0), ", ",
             kernels::cpu::kernels().isa, open.is_repacked() ? ", repacked" : ", exact");
}

}  // namespace graft::engine
