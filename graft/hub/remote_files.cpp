#include "graft/hub/remote_files.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/base/text/units.h"

namespace graft::hub {
namespace {

// In this order without a type: good quality for the size first.
constexpr std::array<std::string_view, 12> kDefaultTypes = {"Q4_K_M", "Q4_K_S", "Q4_0", "MXFP4",
                                                            "IQ4_XS", "Q5_K_M", "Q5_0", "Q6_K",
                                                            "Q8_0",   "BF16",   "F16",  "F32"};

std::string_view folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view file_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

struct PartNumber {
  int number = 1;
  int count = 1;
  std::size_t suffix = 0;  // characters of "-00001-of-00003"
};

PartNumber part_of(std::string_view stem) {
  constexpr std::size_t kSuffix = 15;
  if (stem.size() <= kSuffix) return {};
  const std::string_view end = stem.substr(stem.size() - kSuffix);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool fits = end[0] == '-' && end.substr(6, 4) == "-of-" &&
                    std::ranges::all_of(end.substr(1, 5), is_digit) &&
                    std::ranges::all_of(end.substr(10), is_digit);
  if (!fits) return {};
  return {.number = std::stoi(std::string(end.substr(1, 5))),
          .count = std::stoi(std::string(end.substr(10))),
          .suffix = kSuffix};
}

std::string_view stem_of(std::string_view path) {
  constexpr std::string_view kSuffix = ".gguf";
  const std::string_view file = file_of(path);
  return file.substr(0, file.size() - std::min(kSuffix.size(), file.size()));
}

// The parts of one GGUF model by number.
struct GgufGroup {
  std::map<int, const RemoteFile*> parts = {};
  int count = 1;

  bool is_complete() const {
    return static_cast<int>(parts.size()) == count && parts.begin()->first == 1;
  }
};

// Keyed by folder and name.
using GgufGroups = std::map<std::string, GgufGroup>;

bool is_model_gguf(std::string_view path) {
  const std::string lower = lower_case(path);
  const std::string_view file = file_of(lower);
  return lower.ends_with(".gguf") && !file.starts_with("mmproj") &&
         file.find("imatrix") == std::string_view::npos;
}

GgufGroups gguf_groups(std::span<const RemoteFile> files) {
  GgufGroups groups;
  for (const RemoteFile& file : files) {
    if (!is_model_gguf(file.path)) continue;
    const PartNumber part = part_of(stem_of(file.path));
    GgufGroup& group = groups[str(folder_of(file.path), "/", gguf_name(file.path))];
    group.parts[part.number] = &file;
    group.count = part.count;
  }
  return groups;
}

bool is_separator(char c) {
  return c == '-' || c == '.' || c == '_' || c == '/';
}

// Whether the key has the type as a whole word: "m-Q4_K_M", "Q4_K_M/m", but not "m-IQ4_K_M".
bool has_type(std::string_view key, std::string_view type) {
  const std::string text = lower_case(key);
  const std::string word = lower_case(type);
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || is_separator(text[at - 1]);
    // Q4_K must not match Q4_K_M.
    const bool ends = end == text.size() || (is_separator(text[end]) && text[end] != '_');
    if (begins && ends) return true;
  }
  return false;
}

std::string group_list(const GgufGroups& groups) {
  constexpr std::size_t kMaxListed = 40;
  std::string text;
  std::size_t count = 0;
  for (const auto& [key, group] : groups) {
    if (++count > kMaxListed) return str(text, ", …");
    std::uint64_t bytes = 0;
    for (const auto& [number, file] : group.parts)
      bytes += file->size;
    text += str(text.empty() ? "" : ", ", key.starts_with('/') ? key.substr(1) : key, " (",
                bytes_text(bytes), ")");
  }
  return text;
}

ChosenFiles chosen_group(const GgufGroup& group, std::string_view type, const std::string& where) {
  const std::string& first = group.parts.begin()->second->path;
  if (!group.is_complete())
    fail(where, ": ", first, ": ", group.parts.size(), " of ", group.count, " parts exist");
  ChosenFiles chosen = {.main = first, .type = std::string(type)};
  for (const auto& [number, file] : group.parts)
    chosen.files.push_back(*file);
  return chosen;
}

// Of several that have the type the shortest name: "m-Q4_K_M" rather than "m-UD-Q4_K_M". Null:
// none.
const GgufGroup* find_type(const GgufGroups& groups, std::string_view type) {
  const GgufGroup* found = nullptr;
  std::size_t length = 0;
  for (const auto& [key, group] : groups) {
    if (!has_type(key, type) || (found != nullptr && key.size() >= length)) continue;
    found = &group;
    length = key.size();
  }
  return found;
}

ChosenFiles choose_gguf(const GgufGroups& groups, std::string_view type, const std::string& where) {
  if (!type.empty()) {
    if (const GgufGroup* group = find_type(groups, type)) return chosen_group(*group, type, where);
    fail(where, ": no GGUF file of type ", type, "; there are: ", group_list(groups));
  }
  for (const std::string_view wanted : kDefaultTypes) {
    if (const GgufGroup* group = find_type(groups, wanted))
      return chosen_group(*group, wanted, where);
  }
  if (groups.size() == 1) return chosen_group(groups.begin()->second, "", where);
  fail(where, ": several GGUF files, choose one with :FILE: ", group_list(groups));
}

// What graft and other programs read beside the weights.
bool is_folder_file(std::string_view path) {
  if (path.find('/') != std::string_view::npos) return false;
  constexpr std::array<std::string_view, 4> kSuffixes = {".json", ".jinja", ".model", ".txt"};
  return std::ranges::any_of(kSuffixes, [&](std::string_view s) { return path.ends_with(s); });
}

ChosenFiles choose_folder(std::span<const RemoteFile> files, const std::string& where) {
  const auto is_weights = [](const RemoteFile& file) {
    return file.path.find('/') == std::string::npos && file.path.ends_with(".safetensors");
  };
  // Mistral's repositories have the same weights again as consolidated*.safetensors.
  const bool has_model = std::ranges::any_of(files, [&](const RemoteFile& file) {
    return is_weights(file) && file.path.starts_with("model");
  });
  ChosenFiles chosen;
  bool has_weights = false;
  bool has_config = false;
  for (const RemoteFile& file : files) {
    const bool is_wanted = is_weights(file) && (!has_model || file.path.starts_with("model"));
    if (!is_wanted && !is_folder_file(file.path)) continue;
    has_weights |= is_wanted;
    has_config |= file.path == "config.json";
    chosen.files.push_back(file);
  }
  if (!has_weights || !has_config) {
    fail(where, ": no model that graft can run among ", files.size(),
         " files: expected GGUF files, or safetensors with a config.json");
  }
  return chosen;
}

ChosenFiles choose_file(std::span<const RemoteFile> files,
                        const GgufGroups& groups,
                        std::string_view path,
                        const std::string& where) {
  for (const auto& [key, group] : groups) {
    for (const auto& [number, file] : group.parts) {
      if (file->path == path || file_of(file->path) == path) return chosen_group(group, "", where);
    }
  }
  const auto file = std::ranges::find(files, path, &RemoteFile::path);
  if (file == files.end())
    fail(where, ": no file ", path, "; GGUF files: ", groups.empty() ? "none" : group_list(groups));
  return {.files = {*file}, .main = file->path};
}

}  // namespace

std::uint64_t ChosenFiles::bytes() const {
  std::uint64_t sum = 0;
  for (const RemoteFile& file : files)
    sum += file.size;
  return sum;
}

std::string gguf_name(std::string_view path) {
  const std::string_view stem = stem_of(path);
  return std::string(stem.substr(0, stem.size() - part_of(stem).suffix));
}

ChosenFiles choose_files(std::span<const RemoteFile> files,
                         std::string_view selector,
                         const std::string& where) {
  const GgufGroups groups = gguf_groups(files);
  const bool is_file = selector.find('/') != std::string_view::npos ||
                       selector.ends_with(".gguf") || selector.ends_with(".safetensors");
  if (is_file) return choose_file(files, groups, selector, where);
  if (!groups.empty()) return choose_gguf(groups, selector, where);
  if (!selector.empty())
    fail(where, ": no GGUF files, so no type ", selector, "; without it the safetensors are used");
  return choose_folder(files, where);
}

}  // namespace graft::hub
