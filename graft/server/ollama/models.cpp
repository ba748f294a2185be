#include "graft/server/ollama/models.h"

#include <sstream>
#include <string>

#include "graft/base/text/str.h"
#include "graft/base/text/units.h"
#include "graft/server/time_text.h"

namespace graft::server::ollama {
namespace {

// Ollama's format is "7.6B", without a space.
std::string parameters_text(std::int64_t count) {
  std::string text = count_text(static_cast<double>(count));
  std::erase(text, ' ');
  return text;
}

OrderedJson capabilities(const ModelInfo& info) {
  OrderedJson list = {"completion", "embedding"};
  if (info.has_vision) list.push_back("vision");
  if (info.chat_template.find("tools") != std::string::npos) list.push_back("tools");
  if (info.chat_template.find("think") != std::string::npos) list.push_back("thinking");
  return list;
}

// As Ollama's command line reads it.
std::string modelfile(const ModelInfo& info) {
  std::string text = str("FROM ", info.from.empty() ? info.name : info.from, "\n");
  if (!info.system.empty()) text += str("SYSTEM ", OrderedJson(info.system).dump(), "\n");
  std::istringstream lines(info.parameters);
  for (std::string line; std::getline(lines, line);)
    text += str("PARAMETER ", line, "\n");
  return text;
}

}  // namespace

OrderedJson details_json(const ModelInfo& info) {
  return {{"parent_model", info.from},
          {"format", info.format},
          {"family", info.architecture},
          {"families", {info.architecture}},
          {"parameter_size", parameters_text(info.num_parameters)},
          {"quantization_level", info.quantization},
          {"context_length", info.context_length},
          {"embedding_length", info.embedding_length}};
}

OrderedJson tag_json(const ModelInfo& info) {
  return {{"name", info.name},
          {"model", info.name},
          {"modified_at", rfc3339(static_cast<double>(info.modified))},
          {"size", info.bytes},
          {"digest", info.digest},
          {"details", details_json(info)}};
}

OrderedJson show_json(const ModelInfo& info) {
  const std::string& arch = info.architecture;
  return {{"license", info.license},
          {"modelfile", modelfile(info)},
          {"parameters", info.parameters},
          {"template", info.chat_template},
          {"system", info.system},
          {"details", details_json(info)},
          {"model_info",
           {{"general.architecture", arch},
            {"general.parameter_count", info.num_parameters},
            {arch + ".context_length", info.context_length},
            {arch + ".embedding_length", info.embedding_length},
            {arch + ".block_count", info.num_layers},
            {arch + ".feed_forward_length", info.feed_forward_length},
            {arch + ".attention.head_count", info.num_heads},
            {arch + ".attention.head_count_kv", info.num_kv_heads},
            {arch + ".vocab_size", info.vocab_size}}},
          {"capabilities", capabilities(info)},
          {"modified_at", rfc3339(static_cast<double>(info.modified))}};
}

}  // namespace graft::server::ollama
