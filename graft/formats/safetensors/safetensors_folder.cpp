#include "graft/formats/safetensors/safetensors_folder.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/formats/tensor_spec.h"

namespace graft::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

bool is_present(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// An index is untrusted: it must not name files of other folders. Links are followed: Hugging
// Face's cache keeps the shards elsewhere.
void check_shard_name(std::string_view shard, const std::string& where) {
  const fs::path path(shard);
  const bool leaves = path.is_absolute() || std::ranges::find(path, "..") != path.end();
  if (shard.empty() || leaves || !is_clean_text(shard)) {
    fail(where, ": shard \"", printable(shard), "\" is not a file inside the folder");
  }
}

// A parsed index: the shard of each tensor, and the shards by name.
struct Index {
  std::string where;
  Json json;  // owns the text that the maps point at
  std::unordered_map<std::string_view, std::string_view> shard_of;
  std::map<std::string_view, std::size_t> shards;  // with their number of tensors

  explicit Index(const fs::path& path) : where(path.string()), json(read_json_file(path)) {
    const auto weight_map = json.find("weight_map");
    if (weight_map == json.end() || !weight_map->is_object()) {
      fail(where, ": has no weight_map object");
    }
    shard_of.reserve(weight_map->size());
    for (auto place = weight_map->begin(); place != weight_map->end(); ++place) {
      if (!place->is_string()) {
        fail(where, ": weight_map \"", printable(place.key()), "\" is ", place->type_name(),
             ", expected a file name");
      }
      const std::string_view shard = place->get_ref<const std::string&>();
      if (shards[shard]++ == 0) check_shard_name(shard, where);
      shard_of.emplace(place.key(), shard);
    }
    if (shards.empty()) fail(where, ": the weight_map is empty");
  }
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;
  ~Index() = default;
};

void check_shards_present(const Index& index, const fs::path& folder) {
  constexpr std::size_t kMaxListed = 8;
  std::string missing;
  std::size_t num_missing = 0;
  for (const auto& [shard, num_tensors] : index.shards) {
    if (is_present(folder / shard)) continue;
    if (++num_missing > kMaxListed) continue;
    missing += (missing.empty() ? "" : ", ") + (folder / shard).string();
  }
  if (num_missing == 0) return;
  fail(index.where, ": ", num_missing, " of ", index.shards.size(), " shards missing: ", missing,
       num_missing > kMaxListed ? ", ..." : "");
}

// The shard must have exactly the tensors that the index lists.
void check_shard(const Index& index, const SafetensorsFile& file, std::string_view shard) {
  const std::string where = file.path().string();
  for (const TensorInfo& tensor : file.tensors()) {
    const auto place = index.shard_of.find(tensor.name);
    if (place == index.shard_of.end()) {
      fail(where, ": tensor \"", tensor.name, "\" is not in ", kIndexFile);
    }
    if (place->second != shard) {
      fail(where, ": tensor \"", tensor.name, "\" is in this shard, ", kIndexFile, " names ",
           place->second);
    }
  }
  const std::size_t listed = index.shards.at(shard);
  if (listed == file.tensors().size()) return;
  // Every tensor of the shard is listed, so a listed one is missing.
  std::vector<std::string_view> names;
  for (const TensorInfo& tensor : file.tensors())
    names.push_back(tensor.name);
  std::ranges::sort(names);
  for (const auto& [name, its_shard] : index.shard_of) {
    if (its_shard == shard && !std::ranges::binary_search(names, name)) {
      fail(where, ": has ", names.size(), " of the ", listed, " tensors that ", kIndexFile,
           " names; the first missing is \"", printable(name), "\"");
    }
  }
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(const std::filesystem::path& folder) {
  if (is_present(folder / kSingleFile)) {
    files_.emplace_back(folder / kSingleFile);
  } else if (is_present(folder / kIndexFile)) {
    const Index index(folder / kIndexFile);
    check_shards_present(index, folder);
    files_.reserve(index.shards.size());
    for (const auto& [shard, num_tensors] : index.shards) {
      files_.emplace_back(folder / shard);
      check_shard(index, files_.back(), shard);
    }
  } else {
    const bool has_pickles = is_present(folder / "pytorch_model.bin") ||
                             is_present(folder / "pytorch_model.bin.index.json");
    fail(folder.string(), ": has neither ", kSingleFile, " nor ", kIndexFile,
         has_pickles ? "; graft does not read pytorch_model.bin" : "");
  }
  for (const SafetensorsFile& file : files_) {
    paths_.push_back(file.path());
    std::ranges::copy(file.tensors(), std::back_inserter(tensors_));
  }
}

bool SafetensorsFolder::is_one(const std::filesystem::path& folder) {
  return is_present(folder / kSingleFile) || is_present(folder / kIndexFile);
}

void SafetensorsFolder::release(const TensorInfo& tensor) const {
  const std::less_equal<> not_after;
  for (const SafetensorsFile& file : files_) {
    const auto bytes = file.bytes();
    if (not_after(bytes.data(), tensor.data.data()) &&
        not_after(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size())) {
      file.release(tensor);
      return;
    }
  }
  GRAFT_CHECK(false, "tensor ", tensor.name, " does not belong to this folder");
}

}  // namespace graft::formats
