#include "graft/models/lora/adapter.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include <xxhash.h>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/base/text/str.h"
#include "graft/formats/name_index.h"
#include "graft/formats/tensor_spec.h"
#include "graft/models/families/family.h"
#include "graft/models/families/tensor_names.h"
#include "graft/models/weights/tensor_index.h"
#include "graft/models/weights/weight_store.h"
#include "graft/quant/codec.h"

namespace graft::models {
namespace {

using formats::LoraPair;
using formats::shape_text;
using formats::TensorInfo;

constexpr std::string_view kWeight = ".weight";
constexpr std::size_t kMaxNameBytes = 128;

bool has_gguf_form(const formats::WeightSource& source) {
  return source.format().starts_with("GGUF");
}

// The B matrices under the names of the tensors that they are added to, so that the rows of a
// weight are found and ordered as those of the base model are.
class RowsOfB final : public formats::WeightSource {
 public:
  explicit RowsOfB(const formats::AdapterFile& file) : file_(file), path_(file.path()) {
    for (const LoraPair& pair : file.pairs()) {
      tensors_.push_back(*pair.b);
      tensors_.back().name = pair.target;
    }
    index_ = formats::NameIndex(tensors_);
  }

  std::string_view format() const override { return file_.is_gguf() ? "GGUF" : "safetensors"; }
  const std::filesystem::path& path() const override { return path_; }
  std::span<const std::filesystem::path> files() const override { return {&path_, 1}; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }
  void release(const TensorInfo& /*tensor*/) const override {}
  formats::TokenizerData read_tokenizer(const formats::ModelTokens& /*tokens*/,
                                        std::vector<std::string>& /*warnings*/) const override {
    return {};
  }

 private:
  const formats::AdapterFile& file_;
  std::filesystem::path path_;
  std::vector<TensorInfo> tensors_;
  formats::NameIndex index_;
};

std::vector<float> decode_matrix(const TensorInfo& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elems()));
  const auto& codec = quant::reference_codecs()[static_cast<std::size_t>(tensor.dtype)];
  codec.decode(tensor.data.data(), values.data(), values.size());
  return values;
}

void check_finite(const std::vector<float>& values, const TensorInfo& tensor) {
  if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) return;
  fail(tensor.name, " has values that are not finite");
}

// Whether the tensors of this checkpoint have the rows or columns of the weight in llama.cpp's
// order of value heads, which the other format does not have.
bool is_tiled(const Checkpoint& checkpoint, const std::string& weight) {
  if (!has_gguf_form(checkpoint)) return false;
  return std::ranges::any_of(checkpoint.tensors(), [&](const TensorInfo& tensor) {
    const auto names = to_huggingface(checkpoint.config(), tensor.name);
    return std::ranges::any_of(names, [&](const MappedName& mapped) {
      return mapped.name == weight && formats::is_tiled(mapped.transform);
    });
  });
}

// Matches the pairs of a file with the linear layers of a model.
class Resolver {
 public:
  Resolver(const formats::AdapterFile& file,
           const Checkpoint& base,
           const plan::Blueprint& blueprint,
           double scale)
      : file_(file),
        base_(base),
        blueprint_(blueprint),
        scale_(scale),
        rows_(std::make_unique<RowsOfB>(file), base.config()),
        index_(rows_),
        store_(rows_) {
    for (const LoraPair& pair : file.pairs())
      pairs_[pair.target] = &pair;
  }

  std::vector<AdapterModule> resolve() {
    std::vector<AdapterModule> modules;
    blueprint_.visit([&](const plan::ModuleSpec& module) {
      if (module.role != ops::Role::Linear) return;
      if (auto found = find(module)) modules.push_back(*std::move(found));
    });
    for (const LoraPair& pair : file_.pairs()) {
      if (!used_.contains(&pair)) fail_unused(pair);
    }
    return modules;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const LoraPair& pair, Parts&&... parts) const {
    const std::string base = file_.base_model();
    fail(file_.path().string(), ": ", pair.b->name, ": ", std::forward<Parts>(parts)...,
         base.empty() ? "" : str("; the adapter is for ", base));
  }

  std::optional<AdapterModule> find(const plan::ModuleSpec& module) {
    const std::string weight = module.name + std::string(kWeight);
    const auto found = index_.find(weight);
    if (!found) return std::nullopt;
    const auto pair_found = pairs_.find(found->stored.front().tensor->name);
    if (pair_found == pairs_.end()) return std::nullopt;
    const LoraPair& pair = *pair_found->second;
    const auto& params = std::get<ops::LinearParams>(module.params);
    if (params.groups != 1) refuse(pair, "grouped linear layers cannot have adapters");
    if (found->stored.size() > 1) refuse(pair, "adapters of split kv_b_proj are not supported");
    const formats::TensorTransform transform = found->stored.front().transform;
    const bool moves_rows = transform == formats::TensorTransform::Same ||
                            transform == formats::TensorTransform::RopePairs ||
                            formats::is_half(transform) || formats::is_part_of_qkv(transform) ||
                            formats::is_split_by_key_head(transform);
    if (!moves_rows) refuse(pair, "adapters of tensors in this layout are not supported");
    if (file_.is_gguf() != has_gguf_form(base_) &&
        (is_tiled(base_, weight) || is_tiled(rows_, weight)))
      refuse(pair, "the model and the adapter must both be GGUF files, or neither");
    if (pair.rank() > ops::kMaxLoraRank)
      refuse(pair, "rank ", pair.rank(), ", at most ", ops::kMaxLoraRank, " are supported");
    if (pair.a->shape[1] != params.in_features) {
      refuse(pair, "A is ", shape_text(pair.a->shape), ", but ", module.name, " has ",
             params.in_features, " inputs");
    }
    if (found->shape != std::vector<std::int64_t>{params.out_features, pair.rank()}) {
      refuse(pair, "B is ", shape_text(found->shape), ", but ", module.name, " has ",
             params.out_features, " outputs");
    }
    used_.insert(&pair);
    AdapterModule result = {.module = &module,
                            .matrices = {.rank = pair.rank(),
                                         .scale = static_cast<float>(pair.scale * scale_),
                                         .a = decode_matrix(*pair.a),
                                         .b = store_.get(weight).decode()}};
    check_finite(result.matrices.a, *pair.a);
    check_finite(result.matrices.b, *pair.b);
    return result;
  }

  [[noreturn]] void fail_unused(const LoraPair& pair) const {
    std::vector<std::string> names;
    if (file_.is_gguf()) {
      for (const MappedName& mapped : to_huggingface(base_.config(), pair.target))
        names.push_back(mapped.name);
    } else {
      names.push_back(pair.target);
    }
    for (std::string name : names) {
      if (name.find(".experts.") != std::string::npos || name.ends_with(".experts.gate_up_proj"))
        refuse(pair, "adapters of routed experts are not supported");
      if (name.ends_with(kWeight)) name.resize(name.size() - kWeight.size());
      if (const plan::ModuleSpec* module = blueprint_.find(name)) {
        refuse(pair, "the module has the role ", ops::name(module->role),
               ", only linear layers can have adapters");
      }
    }
    refuse(pair, "the model has no linear layer of this name");
  }

  const formats::AdapterFile& file_;
  const Checkpoint& base_;
  const plan::Blueprint& blueprint_;
  double scale_;
  Checkpoint rows_;
  TensorIndex index_;
  WeightStore store_;
  std::map<std::string, const LoraPair*, std::less<>> pairs_;
  std::set<const LoraPair*> used_;
};

// Of "meta-llama/Llama-3.1-8B" or a path: "llama318b".
std::string base_key(std::string_view name) {
  while (name.ends_with('/'))
    name.remove_suffix(1);
  std::string key;
  for (const char c : lower_case(name.substr(name.rfind('/') + 1))) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) key += c;
  }
  return key;
}

// The folders of a hub's cache are named by commit.
bool is_commit(std::string_view name) {
  return name.size() == 40 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Variants of a base model have its name in theirs, so that only unrelated names differ.
std::string other_base_text(const formats::AdapterFile& file, const std::string& model) {
  const std::string named = base_key(file.base_model());
  const std::string here = base_key(model);
  const bool is_known = !named.empty() && !here.empty() && !is_commit(model) && !is_commit(named);
  if (!is_known || named.find(here) != std::string::npos || here.find(named) != std::string::npos)
    return "";
  return str(file.path().string(), ": the adapter is for ", file.base_model(),
             ", the model is named ", model);
}

std::uint64_t identity_of(const std::vector<AdapterModule>& modules) {
  std::uint64_t hash = 1;
  const auto add = [&](const void* data, std::size_t size) {
    hash = XXH3_64bits_withSeed(data, size, hash);
  };
  for (const AdapterModule& module : modules) {
    add(module.module->name.data(), module.module->name.size());
    add(&module.matrices.scale, sizeof(float));
    add(module.matrices.a.data(), module.matrices.a.size() * sizeof(float));
    add(module.matrices.b.data(), module.matrices.b.size() * sizeof(float));
  }
  return std::max<std::uint64_t>(hash, 1);
}

}  // namespace

void check_adapter_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (!name.empty() && name.size() <= kMaxNameBytes && std::ranges::all_of(name, is_allowed))
    return;
  fail("adapter name '", name, "': expected 1 to ", kMaxNameBytes,
       " letters, digits, '-', '_' or '.'");
}

// A number after the last colon is the scale.
AdapterSource parse_adapter_source(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals + 1 == text.size())
    fail("adapter '", text, "': expected NAME=PATH or NAME=PATH:SCALE");
  AdapterSource source = {.name = std::string(text.substr(0, equals)), .path = {}};
  check_adapter_name(source.name);
  std::string_view path = text.substr(equals + 1);
  const std::size_t colon = path.rfind(':');
  if (colon != std::string_view::npos && colon > 0) {
    const std::string_view number = path.substr(colon + 1);
    double scale = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), scale);
    if (error == std::errc() && end == number.data() + number.size()) {
      if (!std::isfinite(scale) || std::fabs(scale) > 1e6)
        fail("adapter '", text, "': scale ", number, " is out of range");
      source.scale = scale;
      path = path.substr(0, colon);
    }
  }
  source.path = path;
  return source;
}

Adapter::Adapter(AdapterSource source, const Checkpoint& base, const plan::Blueprint& blueprint)
    : source_(std::move(source)) {
  const auto file = formats::open_adapter(source_.path);
  if (file->is_gguf() && base.config().family != nullptr &&
      file->architecture() != base.config().family->gguf.architecture) {
    fail(source_.path.string(), ": an adapter for the architecture '", file->architecture(),
         "', the model's is '", base.config().family->gguf.architecture, "'");
  }
  modules_ = Resolver(*file, base, blueprint, source_.scale).resolve();
  identity_ = identity_of(modules_);
  base_warning_ = other_base_text(*file, base.config().name);
}

std::uint64_t Adapter::bytes() const {
  std::uint64_t bytes = 0;
  for (const AdapterModule& module : modules_)
    bytes += module.bytes();
  return bytes;
}

std::int64_t Adapter::max_rank() const {
  std::int64_t rank = 0;
  for (const AdapterModule& module : modules_)
    rank = std::max(rank, module.matrices.rank);
  return rank;
}

}  // namespace graft::models
