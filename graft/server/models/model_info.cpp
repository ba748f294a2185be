#include "graft/server/models/model_info.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include "graft/base/text/json.h"
#include "graft/formats/created_model.h"
#include "graft/models/families/family.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/tensor/dtype.h"

namespace graft::server {
namespace {

std::string hex_digest(const std::string& text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest = {};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::string hex;
  for (const unsigned char byte : digest)
    hex += fmt::format("{:02x}", byte);
  return hex;
}

void read_files(const formats::WeightSource& source, ModelInfo& info) {
  for (const std::filesystem::path& file : source.files()) {
    struct stat about = {};
    if (::stat(file.c_str(), &about) != 0) continue;
    info.bytes += static_cast<std::uint64_t>(about.st_size);
    info.modified = std::max<std::int64_t>(info.modified, about.st_mtime);
  }
}

void read_tensors(const formats::WeightSource& source, ModelInfo& info) {
  std::map<DType, std::size_t> bytes_of;
  std::string names;
  for (const formats::TensorInfo& tensor : source.tensors()) {
    info.num_parameters += tensor.num_elems();
    bytes_of[tensor.dtype] += tensor.data.size();
    names += fmt::format("{} {} {}\n", tensor.name, graft::info(tensor.dtype).name,
                         fmt::join(tensor.shape, "x"));
  }
  const auto largest = std::ranges::max_element(
      bytes_of, [](const auto& a, const auto& b) { return a.second < b.second; });
  if (largest != bytes_of.end()) info.quantization = graft::info(largest->first).name;
  info.digest = hex_digest(fmt::format("{}{} {}", names, info.bytes, info.modified));
}

std::string sampling_defaults(const models::ModelConfig& config) {
  std::string lines;
  const auto add = [&](std::string_view name, const auto& value) {
    if (value) lines += fmt::format("{}{} {}", lines.empty() ? "" : "\n", name, *value);
  };
  add("temperature", config.temperature);
  add("top_k", config.top_k);
  add("top_p", config.top_p);
  return lines;
}

// "stop" and the text of each of its values on one line, other parameters as they are.
std::string parameter_lines(const OrderedJson& parameters) {
  std::string lines;
  for (const auto& [name, value] : parameters.items()) {
    const OrderedJson list = value.is_array() ? value : OrderedJson::array({value});
    for (const OrderedJson& item : list)
      lines += fmt::format("{}{} {}", lines.empty() ? "" : "\n", name, item.dump());
  }
  return lines;
}

void read_created(const formats::CreatedModel& created, ModelInfo& info) {
  struct stat about = {};
  if (::stat(info.path.c_str(), &about) == 0)
    info.modified = std::max<std::int64_t>(info.modified, about.st_mtime);
  info.from = created.from;
  info.system = created.system;
  info.license = created.license;
  info.num_ctx = created.parameters.value("num_ctx", std::int64_t{0});
  if (!created.parameters.empty()) info.parameters = parameter_lines(created.parameters);
  info.digest = hex_digest(info.digest + formats::created_model_text(created));
}

}  // namespace

ModelInfo read_model_info(const std::string& name, const std::filesystem::path& path) {
  const auto source = models::open_checkpoint(path);
  const models::ModelConfig& config = source->config();
  ModelInfo info = {.name = name, .path = path};
  info.format = source->format().starts_with("GGUF") ? "gguf" : "safetensors";
  if (config.family != nullptr) info.architecture = config.family->gguf.architecture;
  info.context_length = config.max_position_embeddings;
  info.embedding_length = config.hidden_size;
  info.num_layers = config.num_hidden_layers;
  info.vocab_size = config.vocab_size;
  info.num_heads = config.num_attention_heads;
  info.num_kv_heads = config.num_key_value_heads;
  info.feed_forward_length = config.intermediate_size;
  info.has_vision = config.vision.has_value();
  info.parameters = sampling_defaults(config);
  info.chat_template = source->tokenizer().chat_template;
  read_files(*source, info);
  read_tensors(*source, info);
  if (source->created() != nullptr) read_created(*source->created(), info);
  return info;
}

}  // namespace graft::server
