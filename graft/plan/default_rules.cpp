#include "graft/plan/default_rules.h"

#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/own_folder.h"

namespace graft::plan {
namespace {

namespace fs = std::filesystem;

bool is_word(std::string_view family) {
  return !family.empty() && family.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") ==
                                std::string_view::npos;
}

}  // namespace

fs::path rules_folder() {
  std::vector<fs::path> places;
  std::error_code error;
  const char* from_user = std::getenv("GRAFT_RULES_DIR");
  if (from_user != nullptr && *from_user != '\0') {
    places.emplace_back(from_user);
  } else if (const fs::path own = own_folder(); !own.empty()) {  // bin or lib
    places.push_back((own / "../share/graft/rules").lexically_normal());
    places.push_back((own / "../../../rules").lexically_normal());  // of build/<preset>/bin
  }
  std::string looked_at;
  for (const fs::path& place : places) {
    if (fs::is_directory(place, error)) return place;
    looked_at += (looked_at.empty() ? "" : ", ") + place.string();
  }
  fail("no folder with the default rule files; looked at ", looked_at,
       " (GRAFT_RULES_DIR names another)");
}

fs::path default_rules(std::string_view family, int num_gpus) {
  const fs::path folder = rules_folder();
  fs::path file = folder / (num_gpus == 0 ? "cpu.yaml" : "gpu.yaml");
  std::error_code error;
  // The family comes from a checkpoint: it must not lead out of the folder.
  if (num_gpus > 0 && is_word(family)) {
    const fs::path hybrid = folder / "hybrid" / (std::string(family) + ".yaml");
    if (fs::is_regular_file(hybrid, error)) file = hybrid;
  }
  if (!fs::is_regular_file(file, error)) fail(file.string(), ": the default rule file is missing");
  return file;
}

}  // namespace graft::plan
