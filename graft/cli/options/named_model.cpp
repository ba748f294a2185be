#include "graft/cli/options/named_model.h"

#include <cstddef>
#include <filesystem>
#include <system_error>

#include "graft/cli/options/model_options.h"

namespace graft::cli {

server::NamedPath named_model(const std::string& text, const api::Catalog& catalog) {
  const std::size_t equals = text.find('=');
  std::error_code error;
  if (equals != std::string::npos && !std::filesystem::exists(text, error))
    return {.name = text.substr(0, equals), .path = find_model(text.substr(equals + 1), catalog)};
  const std::filesystem::path path = find_model(text, catalog);
  for (const api::ModelEntry& entry : catalog.list()) {
    if (entry.path == path) return {.name = entry.name, .path = path};
  }
  return {.name = path.extension() == ".gguf" ? path.stem().string()
                                              : (path / "").parent_path().filename().string(),
          .path = path};
}

}  // namespace graft::cli
