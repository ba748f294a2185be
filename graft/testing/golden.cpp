#include "graft/testing/golden.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <system_error>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/testing/shared_data.h"

// The build defines it; the source must compile without it for clang-tidy.
#ifndef GRAFT_BUILD_DIR
#define GRAFT_BUILD_DIR "."
#endif

namespace graft {
namespace {

namespace fs = std::filesystem;

// Part of the fingerprint: a change of the written files needs a new number, or build folders keep
// the old files.
constexpr std::string_view kFormatVersion = "1";

constexpr std::uint64_t kFnvBasis = 0xCBF29CE484222325;
constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;

std::uint64_t fnv1a64(std::string_view bytes, std::uint64_t hash = kFnvBasis) {
  for (const char byte : bytes)
    hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x100000001B3;
  return hash;
}

std::uint64_t splitmix64(std::uint64_t state) {
  std::uint64_t z = state + kGoldenRatio;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EB;
  return z ^ (z >> 31U);
}

struct RecipeTensor {
  std::string name;
  std::string dtype;  // "BF16" or "F32"
  std::vector<std::int64_t> shape;
  double mean = 0;
  double std = 0;
  std::size_t shard = 1;  // counted from 1

  std::size_t num_elems() const {
    std::size_t count = 1;
    for (const std::int64_t dim : shape)
      count *= static_cast<std::size_t>(dim);
    return count;
  }
  std::size_t elem_bytes() const { return dtype == "F32" ? 4 : 2; }
};

struct Recipe {
  std::uint64_t seed = 0;
  std::vector<RecipeTensor> tensors;  // in the order of the file
  std::size_t num_shards = 1;
};

Recipe read_recipe(const fs::path& path) {
  const OrderedJson json = read_ordered_json_file(path);
  Recipe recipe;
  recipe.seed = json.at("seed").get<std::uint64_t>();
  for (const auto& [name, entry] : json.at("tensors").items()) {
    RecipeTensor tensor;
    tensor.name = name;
    tensor.dtype = entry.at("dtype").get<std::string>();
    if (tensor.dtype != "BF16" && tensor.dtype != "F32")
      fail(path, ": ", name, " has dtype ", tensor.dtype, "; BF16 and F32 are supported");
    tensor.shape = entry.at("shape").get<std::vector<std::int64_t>>();
    tensor.mean = entry.at("mean").get<double>();
    tensor.std = entry.at("std").get<double>();
    tensor.shard = entry.value("shard", std::size_t{1});
    recipe.num_shards = std::max(recipe.num_shards, tensor.shard);
    recipe.tensors.push_back(std::move(tensor));
  }
  return recipe;
}

// The sum of four uniform 16-bit fields is close to normal: mean 131070, standard deviation 37837.
float value_at(const RecipeTensor& tensor, std::uint64_t start, std::uint64_t index) {
  const std::uint64_t bits = splitmix64(start + index * kGoldenRatio);
  std::int64_t sum = -131070;
  for (unsigned shift = 0; shift < 64; shift += 16)
    sum += static_cast<std::int64_t>((bits >> shift) & 0xFFFFU);
  return static_cast<float>(tensor.mean + tensor.std * (static_cast<double>(sum) / 37837.0));
}

// Round to nearest, ties to even.
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

std::string bytes_of(const RecipeTensor& tensor, std::uint64_t seed) {
  const std::uint64_t start = fnv1a64(tensor.name) ^ seed;
  const std::size_t elem_bytes = tensor.elem_bytes();
  std::string bytes(tensor.num_elems() * elem_bytes, '\0');
  for (std::size_t i = 0; i < tensor.num_elems(); ++i) {
    const float value = value_at(tensor, start, i);
    const std::uint16_t half = to_bf16(value);
    char* to = bytes.data() + i * elem_bytes;
    if (elem_bytes == 2) std::memcpy(to, &half, 2);
    if (elem_bytes == 4) std::memcpy(to, &value, 4);
  }
  return bytes;
}

// As Python's json.dumps spaces it, padded to a multiple of 8 bytes.
std::string header_of(const std::vector<RecipeTensor>& tensors) {
  std::string header = R"({"__metadata__": {"format": "pt"})";
  std::size_t begin = 0;
  for (const RecipeTensor& tensor : tensors) {
    const std::size_t end = begin + tensor.num_elems() * tensor.elem_bytes();
    std::string shape;
    for (const std::int64_t dim : tensor.shape)
      shape += str(shape.empty() ? "" : ", ", dim);
    header += str(", ", Json(tensor.name).dump(), ": {\"dtype\": \"", tensor.dtype,
                  "\", \"shape\": [", shape, "], \"data_offsets\": [", begin, ", ", end, "]}");
    begin = end;
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  return header;
}

void write_safetensors(const fs::path& path,
                       const std::vector<RecipeTensor>& tensors,
                       std::uint64_t seed) {
  std::ofstream out(path, std::ios::binary);
  const std::string header = header_of(tensors);
  std::array<char, 8> header_bytes{};
  const std::uint64_t size = header.size();
  std::memcpy(header_bytes.data(), &size, sizeof(size));
  out.write(header_bytes.data(), header_bytes.size());
  out << header;
  for (const RecipeTensor& tensor : tensors)
    out << bytes_of(tensor, seed);
  out.close();
  if (!out) fail(path, ": the file cannot be written");
}

std::string shard_name(std::size_t shard, std::size_t num_shards) {
  const auto digits = [](std::size_t number) {
    const std::string text = std::to_string(number);
    return std::string(5 - text.size(), '0') + text;
  };
  return "model-" + digits(shard) + "-of-" + digits(num_shards) + ".safetensors";
}

void write_shards(const fs::path& folder, const Recipe& recipe) {
  OrderedJson index;
  std::size_t total_bytes = 0;
  for (std::size_t shard = 1; shard <= recipe.num_shards; ++shard) {
    std::vector<RecipeTensor> tensors;
    std::ranges::copy_if(recipe.tensors, std::back_inserter(tensors),
                         [&](const RecipeTensor& tensor) { return tensor.shard == shard; });
    const std::string name = shard_name(shard, recipe.num_shards);
    write_safetensors(folder / name, tensors, recipe.seed);
    for (const RecipeTensor& tensor : tensors) {
      total_bytes += tensor.num_elems() * tensor.elem_bytes();
      index["weight_map"][tensor.name] = name;
    }
  }
  index["metadata"]["total_size"] = total_bytes;
  const fs::path path = folder / "model.safetensors.index.json";
  if (!(std::ofstream(path) << index.dump(1) << '\n')) fail(path, ": the file cannot be written");
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// Of the names and contents of all files: a changed recipe gets a new folder.
std::uint64_t fingerprint(const fs::path& folder) {
  std::uint64_t hash = fnv1a64(kFormatVersion);
  for (const fs::path& path : files_of(folder)) {
    std::string bytes(fs::file_size(path), '\0');
    std::ifstream(path, std::ios::binary).read(bytes.data(), std::ssize(bytes));
    hash = fnv1a64(bytes, fnv1a64(path.filename().string(), hash));
  }
  return hash;
}

// Test processes run in parallel: each writes to a temporary folder and renames it, and the first
// rename wins.
fs::path find_or_write(const fs::path& source) {
  const std::string name = source.filename().string();
  const fs::path root = fs::path(GRAFT_BUILD_DIR) / "checkpoints";
  const fs::path parent = root / (name + '.' + std::to_string(fingerprint(source)));
  if (fs::exists(parent)) return parent / name;
  fs::create_directories(root);
  std::string temporary = (root / (name + ".XXXXXX")).string();
  GRAFT_CHECK(::mkdtemp(temporary.data()) != nullptr, temporary);
  write_checkpoint(source, fs::path(temporary) / name);
  std::error_code error;
  fs::rename(temporary, parent, error);
  if (error) fs::remove_all(temporary);
  if (!fs::exists(parent)) fail(parent, ": ", error.message());
  return parent / name;
}

bool is_adapter(const fs::path& folder) {
  return fs::exists(folder / "adapter_config.json");
}

fs::path checkpoint_of(const fs::path& source) {
  static std::mutex mutex;
  static std::map<fs::path, fs::path> finished;
  const std::lock_guard lock(mutex);
  fs::path& folder = finished[source];
  if (folder.empty()) folder = find_or_write(source);
  return folder;
}

}  // namespace

fs::path golden_checkpoint(std::string_view name) {
  return checkpoint_of(test_data("golden") / name);
}

std::vector<fs::path> golden_checkpoints() {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(test_data("golden"))) {
    if (entry.is_directory() && !is_adapter(entry.path()))
      folders.push_back(checkpoint_of(entry.path()));
  }
  std::ranges::sort(folders);
  return folders;
}

fs::path golden_adapter(std::string_view name) {
  return test_data("golden") / name;
}

std::vector<fs::path> golden_adapters() {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(test_data("golden"))) {
    if (is_adapter(entry.path())) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  return folders;
}

fs::path sprout_checkpoint() {
  return checkpoint_of(test_data("sprout"));
}

void write_checkpoint(const fs::path& source, const fs::path& destination) {
  fs::create_directory(destination);
  for (const fs::path& path : files_of(source)) {
    if (path.filename() != "weights.json") fs::copy_file(path, destination / path.filename());
  }
  if (!fs::exists(source / "weights.json")) return;  // the weights are stored in `source`
  const Recipe recipe = read_recipe(source / "weights.json");
  if (recipe.num_shards == 1) {
    write_safetensors(destination / "model.safetensors", recipe.tensors, recipe.seed);
  } else {
    write_shards(destination, recipe);
  }
}

}  // namespace graft
