#include "graft/cli/hub/download_model.h"

#include <cstddef>
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/progress.h"
#include "graft/base/text/units.h"

namespace graft::cli {

std::filesystem::path download_model(const hub::ModelRef& ref) {
  const hub::Environment env = hub::read_environment();
  const hub::RemoteModel model = hub::look_up(ref, env, {});
  const std::uint64_t total = model.chosen.bytes();
  fmt::print(stderr, "{}: {} {}, {}\n", hub::to_string(ref), model.jobs.size(),
             model.jobs.size() == 1 ? "file" : "files",
             total == 0 ? "of unknown size" : bytes_text(total));
  Progress progress("downloading", total, stderr);
  std::string file;
  hub::FetchOptions options;
  options.on_file = [&](std::size_t index) { file = model.chosen.files[index].path; };
  options.download.on_bytes = [&](std::uint64_t bytes) { progress.advance(bytes, file); };
  options.download.on_note = [&](const std::string& line) { progress.note(line); };
  std::filesystem::path path = hub::fetch(model, env, options);
  progress.finish();
  return path;
}

std::filesystem::path local_or_downloaded(const hub::ModelRef& ref) {
  if (auto path = hub::find_pulled(ref, hub::read_environment())) return *path;
  return download_model(ref);
}

}  // namespace graft::cli
