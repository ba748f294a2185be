#include "bench/model_file.h"

#include <random>
#include <string>
#include <vector>

#include "graft/base/error.h"
#include "graft/formats/gguf/gguf_config.h"
#include "graft/formats/gguf/gguf_tokenizer.h"
#include "graft/formats/gguf/gguf_writer.h"
#include "graft/kernels/cpu/table.h"

namespace graft::bench {
namespace {

using formats::TensorSpec;

std::vector<TensorSpec> tensors_of(const ModelShape& shape) {
  const std::int64_t hidden = shape.hidden_size;
  const std::int64_t ffn = shape.intermediate_size;
  const std::int64_t kv = hidden / shape.num_heads * shape.num_key_value_heads;
  std::vector<TensorSpec> specs = {{"token_embd.weight", shape.dtype, {shape.vocab_size, hidden}}};
  for (std::int64_t layer = 0; layer < shape.num_layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    specs.push_back({prefix + "attn_norm.weight", DType::F32, {hidden}});
    specs.push_back({prefix + "attn_q.weight", shape.dtype, {hidden, hidden}});
    specs.push_back({prefix + "attn_k.weight", shape.dtype, {kv, hidden}});
    specs.push_back({prefix + "attn_v.weight", shape.dtype, {kv, hidden}});
    specs.push_back({prefix + "attn_output.weight", shape.dtype, {hidden, hidden}});
    specs.push_back({prefix + "ffn_norm.weight", DType::F32, {hidden}});
    specs.push_back({prefix + "ffn_gate.weight", shape.dtype, {ffn, hidden}});
    specs.push_back({prefix + "ffn_up.weight", shape.dtype, {ffn, hidden}});
    specs.push_back({prefix + "ffn_down.weight", shape.dtype, {hidden, ffn}});
  }
  specs.push_back({"output_norm.weight", DType::F32, {hidden}});
  specs.push_back({"output.weight", shape.dtype, {shape.vocab_size, hidden}});
  return specs;
}

formats::GgufMetadata metadata_of(const ModelShape& shape) {
  formats::ModelConfig config;
  config.architecture = formats::Architecture::Llama;
  config.name = "benchmark";
  config.vocab_size = shape.vocab_size;
  config.hidden_size = shape.hidden_size;
  config.intermediate_size = shape.intermediate_size;
  config.num_hidden_layers = shape.num_layers;
  config.num_attention_heads = shape.num_heads;
  config.num_key_value_heads = shape.num_key_value_heads;
  config.head_dim = shape.hidden_size / shape.num_heads;
  config.rotary_dim = config.head_dim;
  config.max_position_embeddings = 8192;
  formats::TokenizerData tokenizer;
  tokenizer.model = "gpt2";
  tokenizer.pre = "llama-bpe";
  for (std::int64_t i = 0; i < shape.vocab_size; ++i) {
    tokenizer.tokens.push_back("token" + std::to_string(i));
    // As many merges as a real vocabulary of this size has.
    tokenizer.merges.push_back("token" + std::to_string(i) + " token" + std::to_string(i + 1));
  }
  tokenizer.types.assign(tokenizer.tokens.size(), formats::TokenType::Normal);
  formats::GgufMetadata metadata;
  formats::write_gguf_config(config, metadata);
  formats::write_gguf_tokenizer(tokenizer, metadata);
  return metadata;
}

// One million normal values, encoded once and repeated from changing starts: enough variety for an
// encoder's searches, and written at the speed of the disk.
class Weights {
 public:
  explicit Weights(DType dtype) : dtype_(dtype) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0F, 0.02F);
    std::vector<float> values(kValues);
    for (float& value : values)
      value = normal(random);
    bytes_.resize(bytes_of(dtype, kValues));
    cpu::kernels().codecs[static_cast<std::size_t>(dtype)].encode(values.data(), bytes_.data(),
                                                                  kValues);
  }

  DType dtype() const { return dtype_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  static constexpr std::int64_t kValues = 1 << 20;
  DType dtype_;
  std::vector<std::byte> bytes_;
};

void append_weights(formats::GgufWriter& writer, const TensorSpec& spec, const Weights& weights) {
  std::int64_t elems = 1;
  for (const std::int64_t dim : spec.shape)
    elems *= dim;
  std::size_t left = bytes_of(spec.dtype, elems);
  while (left > 0) {
    const std::size_t size = std::min(left, weights.bytes().size());
    writer.append(weights.bytes().subspan(0, size));
    left -= size;
  }
}

}  // namespace

void write_model(const std::filesystem::path& path, const ModelShape& shape) {
  const std::vector<TensorSpec> specs = tensors_of(shape);
  formats::GgufWriter writer(path, metadata_of(shape), specs);
  const Weights matrix(shape.dtype);
  const Weights vector(DType::F32);
  for (const TensorSpec& spec : specs)
    append_weights(writer, spec, spec.dtype == shape.dtype ? matrix : vector);
  writer.finish();
}

}  // namespace graft::bench
