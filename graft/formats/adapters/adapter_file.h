// The files of a LoRA adapter: a PEFT folder (adapter_config.json, adapter_model.safetensors) or a
// GGUF file as llama.cpp's converter writes it. Every name, shape and type is checked; which
// modules of a model the matrices belong to is graft/models' business.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/formats/gguf/metadata.h"
#include "graft/formats/weight_source.h"

namespace graft::formats {

// The two matrices for one tensor of the base model: W + scale * B A.
struct LoraPair {
  std::string target;             // the tensor in the base model: "blk.0.attn_q.weight"
  const TensorInfo* a = nullptr;  // [rank, in]
  const TensorInfo* b = nullptr;  // [out, rank]
  double scale = 1.0;             // alpha / rank, or alpha / sqrt(rank)

  std::int64_t rank() const { return a->shape[0]; }
};

// What adapter_config.json says about the scale of each module.
class PeftConfig {
 public:
  // Throws Error that begins with `where` for other methods than LoRA, and for features that
  // change the result and are not supported (DoRA, biases, saved modules, …).
  PeftConfig(const Json& config, const std::string& where);

  const std::string& base_model() const { return base_model_; }
  // Of a module ("model.layers.0.self_attn.q_proj"), with the patterns of the configuration.
  std::int64_t rank_of(std::string_view module) const;
  double scale_of(std::string_view module) const;

 private:
  double value_of(const std::map<std::string, double>& patterns,
                  std::string_view module,
                  double fallback) const;

  std::string where_;
  std::string base_model_;
  double rank_ = 8;
  double alpha_ = 8;
  bool is_rank_stabilized_ = false;
  std::map<std::string, double> rank_pattern_;
  std::map<std::string, double> alpha_pattern_;
};

// The pairs of the tensors, by target. Throws Error that begins with `where`.
std::vector<LoraPair> peft_pairs(const PeftConfig& config,
                                 std::span<const TensorInfo> tensors,
                                 const std::string& where);
std::vector<LoraPair> gguf_pairs(const GgufMetadata& metadata,
                                 std::span<const TensorInfo> tensors,
                                 const std::string& where);

class AdapterFile {
 public:
  virtual ~AdapterFile() = default;

  // As given, for messages.
  const std::filesystem::path& path() const { return path_; }
  bool is_gguf() const { return is_gguf_; }
  // The base model that the adapter names; empty: none.
  const std::string& base_model() const { return base_model_; }
  // GGUF: "general.architecture" of the base model; else empty.
  const std::string& architecture() const { return architecture_; }
  std::span<const LoraPair> pairs() const { return pairs_; }

 protected:
  explicit AdapterFile(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  bool is_gguf_ = false;
  std::string base_model_;
  std::string architecture_;
  std::vector<LoraPair> pairs_;
};

// Opens a PEFT folder, one of its two files, or a GGUF file. Throws Error.
std::unique_ptr<AdapterFile> open_adapter(const std::filesystem::path& path);

}  // namespace graft::formats
