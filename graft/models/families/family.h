// A model family: everything that differs between families, in one table per family. A family is
// one file of this folder and its entry in register.cpp.

#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "graft/formats/chat_traits.h"
#include "graft/formats/gguf/gguf_fields.h"
#include "graft/formats/huggingface/fields.h"
#include "graft/formats/pre_tokenizers.h"
#include "graft/models/build/build.h"
#include "graft/models/config/model_config.h"
#include "graft/models/families/tensor_rows.h"
#include "graft/plan/blueprint.h"

namespace graft::models {

// How GGUF files of a family describe what config.json describes (config/gguf_config.h).
struct GgufTraits {
  std::string_view architecture;  // "general.architecture"
  // Families may share an architecture: whether a file with this architecture is of this family.
  // Null: always.
  bool (*matches)(const formats::GgufFields& gguf) = nullptr;
  std::string_view written_as = {};  // model_type of the family the file is read back as

  bool mla = false;
  bool rope_interleaved = false;
  std::string_view hidden_act = "silu";
  // Inferred from the tensors of a file; these are the values for a file without tensors.
  bool attention_bias = false;
  bool qk_norm = false;
  bool qk_norm_all_heads = false;  // where there are norms of q and k
  bool shared_expert_gate = false;
  // Experts: the defaults of absent keys.
  RouterScoring scoring = RouterScoring::Softmax;
  RouterMethod method = RouterMethod::Greedy;  // Greedy: group-limited when there are groups
  bool norm_topk_prob = false;
  bool experts_have_mlp_width = false;  // else a token's experts together are as wide as the MLP
  // Shared experts: their count, their total width, or neither.
  enum class Shared : std::uint8_t { Absent, Count, Width } shared = Shared::Absent;

  // Keys and values of this family alone, after all others. Null: none.
  void (*read)(const formats::GgufFields& gguf, ModelConfig& config) = nullptr;
  void (*write)(const ModelConfig& config, formats::GgufKeyWriter& out) = nullptr;
};

// The prefix under which multimodal checkpoints store the tensors of the text model.
struct NamePrefix {
  std::string_view plain;   // "model."
  std::string_view stored;  // "model.language_model."
};

struct ExpertNames {
  std::string_view gate_proj = "gate_proj";
  std::string_view up_proj = "up_proj";
  std::string_view down_proj = "down_proj";
};

struct Family {
  // Names. Unused entries of the arrays are empty.
  std::array<std::string_view, 2> model_types;  // config.json "model_type", the usual one first
  std::string_view hf_class;                    // config.json "architectures"
  std::string_view class_prefix;                // begins the names of its module classes
  GgufTraits gguf;

  // config.json → ModelConfig, with the defaults that transformers has for absent keys. `fields`
  // is the top-level object and collects the problems.
  void (*read_hf)(const formats::Fields& fields, ModelConfig& config);

  // Tensors of a layer: names in both formats, weights inside larger tensors, other spellings.
  std::array<std::span<const TensorRow>, 10> tensors;
  std::span<const FusedRow> fused = {};
  ExpertNames experts = {};
  std::array<NamePrefix, 2> text_prefixes = {};
  // Norms multiply by 1 + weight: GGUF files and the operators have the sum.
  bool norms_plus_one = false;
  NamePrefix renamed = {};  // inside a name: recent versions of transformers write `stored`
  // The name of the weight in transformers' modules, for families whose checkpoints have other
  // names; any other name is returned as it is. Null: they are the same.
  std::string (*module_name)(std::string_view stored) = nullptr;

  // The values of tokenizer.ggml.pre in this family's files. Several families may list the same.
  std::span<const formats::PreTokenizerName> pre_tokenizers = {};

  // Used where the model's chat template does not decide.
  formats::ChatTraits chat = {};

  // ModelConfig → module tree.
  plan::Blueprint (*build)(Builder& build);

  // For rule files of KTransformers: its classes for this family's modules, and which module
  // classes of the modeling files derive from which (or were renamed to which).
  std::span<const plan::ClassAlias> ktransformers_classes = {};
  std::span<const plan::ClassBase> class_bases = {};

  std::string_view model_type() const { return model_types[0]; }
};

// All families, in the order in which they are tried and listed.
std::span<const Family* const> families();

// By config.json's "model_type"; null when no family has it.
const Family* find_family(std::string_view model_type);
// By one of config.json's "architectures"; null when no family has it.
const Family* find_family_of_class(std::span<const std::string> classes);

// The pre-tokenizer names of all families: a file may combine the tensors of one family with the
// vocabulary of another.
std::span<const formats::PreTokenizerName> pre_tokenizer_names();

// "llama, mistral, …" for messages.
std::string supported_model_types();
// "llama qwen2 …"
std::string supported_gguf_architectures();

}  // namespace graft::models
