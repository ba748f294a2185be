#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "graft/base/error.h"
#include "graft/convert/job.h"
#include "graft/convert/plan_huggingface.h"
#include "graft/models/families/vision_names.h"

namespace graft::convert {
namespace {

using formats::TensorInfo;
using models::Checkpoint;

// "auto" keeps the type of most of the other bytes, or BF16 if it is not F32 or F16: GGUF has no
// FP8. Experts in MXFP4 and packed integers keep their bits.
const Mix& mix_of(const Checkpoint& source, std::string_view type) {
  if (type != "auto") return find_mix(type);
  std::map<DType, std::size_t> bytes;
  for (const TensorInfo& tensor : source.tensors())
    bytes[tensor.dtype] += tensor.row_source ? 0 : tensor.data.size();
  const auto main = std::ranges::max_element(bytes, {}, [](const auto& row) { return row.second; });
  if (main == bytes.end()) fail("the model has no tensors to convert");
  if (main->first == DType::F32 || main->first == DType::F16) return find_mix(name(main->first));
  return find_mix("BF16");
}

// Sets the type of each recipe and records where it differs from the type of the mix. keeps_codes:
// weights that are stored as MXFP4 or packed integers stay as they are.
void choose_types(Job& job, const Mix& mix, bool keeps_codes) {
  std::map<std::pair<DType, DType>, int> fallbacks;
  for (Recipe& recipe : job.recipes) {
    const TensorShape tensor = {.name = recipe.name, .shape = recipe.shape};
    if (!is_quantizable(tensor)) continue;
    if (keeps_codes && (formats::is_mxfp4(recipe.transform) || keeps_integers(recipe))) {
      recipe.dtype = recipe.source_dtype();
      continue;
    }
    const TypeChoice choice = choose_type(mix, job.source->config(), tensor);
    recipe.dtype = choice.type;
    if (choice.type != choice.wanted) ++fallbacks[{choice.wanted, choice.type}];
  }
  for (const auto& [types, count] : fallbacks) {
    job.notes.push_back(str(count, count == 1 ? " tensor" : " tensors",
                            " of rows that are no multiple of ", info(types.first).block_elems,
                            ": ", name(types.second), " instead of ", name(types.first)));
  }
}

void describe_file(Job& job, const Mix& mix) {
  const auto codes = std::ranges::find_if(job.recipes, [](const Recipe& recipe) {
    return recipe.is_gathered() && is_quantized(recipe.dtype);
  });
  const bool has_codes = codes != job.recipes.end();
  const int file_type = has_codes ? find_mix(name(codes->dtype)).file_type : mix.file_type;
  job.metadata.set("general.file_type", static_cast<std::uint32_t>(file_type));
  if (is_quantized(mix.base) || has_codes)
    job.metadata.set("general.quantization_version", std::uint32_t{2});
}

void plan_from_gguf(Job& job, const formats::GgufMetadata& metadata) {
  job.metadata = metadata;
  for (const char* key : {"split.no", "split.count", "split.tensors.count"})
    job.metadata.erase(key);
  const bool has_tower = job.source->mmproj_metadata() != nullptr;
  if (has_tower) job.notes.emplace_back("the vision tower stays in its own file");
  for (const TensorInfo& tensor : job.source->tensors()) {
    if (has_tower && models::is_gguf_vision_tensor(tensor.name)) continue;
    job.recipes.push_back({.name = tensor.name,
                           .shape = tensor.shape,
                           .dtype = tensor.dtype,
                           .sources = {{.weight = &tensor, .scale = nullptr}},
                           .values = {}});
  }
}

// Call after choose_types().
void note_requantized(Job& job) {
  std::size_t requantized = 0;
  for (const Recipe& recipe : job.recipes) {
    for (const RecipeSource& from : recipe.sources) {
      const bool is_codes = formats::is_mxfp4(recipe.transform);
      const DType type = is_codes ? DType::MXFP4 : from.weight->dtype;
      if (is_quantized(type) && type != recipe.dtype) ++requantized;
    }
  }
  if (requantized > 0) {
    job.notes.push_back(
        str(requantized,
            " tensors are already quantized and are quantized a second time, which loses "
            "precision; convert the original checkpoint for the best result"));
  }
}

}  // namespace

std::uint64_t Job::input_bytes() const {
  std::uint64_t bytes = 0;
  for (const Recipe& recipe : recipes) {
    for (const RecipeSource& from : recipe.sources)
      bytes += from.weight->data.size();
  }
  return bytes;
}

std::uint64_t Job::output_bytes() const {
  return std::accumulate(recipes.begin(), recipes.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Recipe& recipe) {
                           return sum +
                                  bytes_of(recipe.dtype, recipe.num_rows() * recipe.row_elems());
                         });
}

Job plan_job(const Checkpoint& source, std::string_view type) {
  const Mix& mix = mix_of(source, type);
  Job job;
  job.source = &source;
  if (const formats::GgufMetadata* metadata = source.gguf_metadata()) {
    plan_from_gguf(job, *metadata);
  } else {
    plan_from_huggingface(job);
  }
  choose_types(job, mix, type == "auto");
  note_requantized(job);
  describe_file(job, mix);
  return job;
}

}  // namespace graft::convert
