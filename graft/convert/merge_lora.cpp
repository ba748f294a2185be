#include "graft/convert/merge_lora.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "graft/base/error.h"
#include "graft/kernels/cpu/table.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/families/family.h"

namespace graft::convert {
namespace {

std::vector<float> decode_matrix(const formats::TensorInfo& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elems()));
  kernels::cpu::kernels().codecs[static_cast<std::size_t>(tensor.dtype)].decode(
      tensor.data.data(), values.data(), values.size());
  return values;
}

const formats::LoraPair* find_pair(const formats::AdapterFile& file,
                                   const models::ModelConfig& config,
                                   const std::string& tensor) {
  const auto with_target = [&](const std::string& name) {
    const auto pairs = file.pairs();
    const auto found = std::ranges::find(pairs, name, &formats::LoraPair::target);
    return found == pairs.end() ? nullptr : &*found;
  };
  if (const formats::LoraPair* pair = with_target(tensor)) return pair;
  if (file.is_gguf() || config.family == nullptr || config.family->module_name == nullptr)
    return nullptr;
  return with_target(config.family->module_name(tensor));
}

std::shared_ptr<const LowRank> low_rank(const formats::LoraPair& pair, double scale) {
  return std::make_shared<const LowRank>(LowRank{.rank = pair.rank(),
                                                 .cols = pair.a->shape[1],
                                                 .scale = static_cast<float>(pair.scale * scale),
                                                 .a = decode_matrix(*pair.a),
                                                 .b = decode_matrix(*pair.b)});
}

}  // namespace

void LowRank::add(std::int64_t begin, std::int64_t count, float* rows) const {
  for (std::int64_t row = 0; row < count; ++row) {
    const float* factors = b.data() + (begin + row) * rank;
    for (std::int64_t i = 0; i < rank; ++i) {
      kernels::cpu::kernels().math.axpy(scale * factors[i], a.data() + i * cols, rows + row * cols,
                                        cols);
    }
  }
}

void merge_lora(Job& job, const models::AdapterSource& source) {
  const models::Checkpoint& base = *job.source;
  const plan::Blueprint blueprint = models::make_blueprint(base);
  const models::Adapter adapter(source, base, blueprint);  // checks that it fits
  const auto file = formats::open_adapter(source.path);
  if (file->is_gguf() != base.format().starts_with("GGUF")) {
    fail(source.path.string(), ": a PEFT adapter is merged into a Hugging Face folder, a GGUF ",
         "adapter into a GGUF file; the model is ", base.format());
  }
  std::set<const formats::LoraPair*> used;
  for (Recipe& recipe : job.recipes) {
    for (RecipeSource& from : recipe.sources) {
      const formats::LoraPair* pair = find_pair(*file, base.config(), from.weight->name);
      if (pair == nullptr) continue;
      if (kernels::cpu::kernels().codecs[static_cast<std::size_t>(recipe.dtype)].encode == nullptr)
        fail(recipe.name, ": graft does not write ", name(recipe.dtype), "; choose another type");
      from.lora = low_rank(*pair, source.scale);
      used.insert(pair);
    }
  }
  for (const formats::LoraPair& pair : file->pairs()) {
    if (!used.contains(&pair)) {
      fail(source.path.string(), ": ", pair.b->name, ": the checkpoint has no tensor ",
           pair.target);
    }
  }
}

}  // namespace graft::convert
