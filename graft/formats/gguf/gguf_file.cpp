#include "graft/formats/gguf/gguf_file.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/formats/gguf/gguf_part.h"
#include "graft/formats/tensor_spec.h"

namespace graft::formats {
namespace {

// "<prefix>-00002-of-00005.gguf"
struct PartName {
  std::string prefix;
  std::int64_t number = 0;  // from 1
  std::int64_t count = 0;

  std::string path_of(std::int64_t other) const {
    return prefix + "-" + digits(other) + "-of-" + digits(count) + ".gguf";
  }

 private:
  static std::string digits(std::int64_t value) {
    std::string text = std::to_string(value);
    return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
  }
};

// Removes at least five digits from the end of the text.
std::optional<std::int64_t> take_number(std::string_view& text) {
  const std::size_t last_other = text.find_last_not_of("0123456789");
  const std::string_view digits =
      text.substr(last_other == std::string_view::npos ? 0 : last_other + 1);
  std::int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.size() < 5 || result.ec != std::errc()) return std::nullopt;
  text.remove_suffix(digits.size());
  return value;
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

std::optional<PartName> part_name(const std::filesystem::path& path) {
  const std::string whole = path.string();
  std::string_view text = whole;
  if (!take_suffix(text, ".gguf")) return std::nullopt;
  const auto count = take_number(text);
  if (!count || !take_suffix(text, "-of-")) return std::nullopt;
  const auto number = take_number(text);
  if (!number || !take_suffix(text, "-")) return std::nullopt;
  PartName name{.prefix = std::string(text), .number = *number, .count = *count};
  return name;
}

// An integer of the metadata; errors begin with the file's name.
std::optional<std::int64_t> integer_of(const GgufMetadata& metadata,
                                       std::string_view key,
                                       const std::string& where) {
  try {
    return metadata.integer(key);
  } catch (const Error& error) {
    fail(where, ": ", error.what());
  }
}

struct OpenPart {
  MappedFile file;
  GgufPart part;

  explicit OpenPart(const std::filesystem::path& path)
      : file(path), part(parse_gguf(file.bytes(), path.string())) {}
};

// The number of parts according to the metadata of one; 1 without the key.
std::int64_t split_count(const OpenPart& part, const std::string& where) {
  const auto count = integer_of(part.part.metadata, "split.count", where);
  if (count && *count < 0) fail(where, ": split.count is ", *count);
  return std::max<std::int64_t>(count.value_or(1), 1);
}

void check_part(const OpenPart& part, const PartName& name, std::int64_t number) {
  const std::string where = name.path_of(number);
  if (const std::int64_t count = split_count(part, where); count != name.count) {
    fail(where, ": split.count is ", count, ", the file name has ", name.count, " parts");
  }
  const auto no = integer_of(part.part.metadata, "split.no", where);
  if (!no)
    fail(where, ": metadata key \"split.no\" is missing in a file of ", name.count, " parts");
  if (*no != number - 1) {
    fail(where, ": split.no is ", *no, ", expected ", number - 1, " for part ", number);
  }
}

void check_all_present(const PartName& name, const std::string& where) {
  constexpr std::size_t kMaxListed = 8;
  std::string missing;
  std::size_t num_missing = 0;
  for (std::int64_t number = 1; number <= name.count && num_missing < kMaxListed; ++number) {
    const std::string path = name.path_of(number);
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) continue;
    missing += (num_missing++ == 0 ? "" : ", ") + path;
  }
  if (num_missing > 0)
    fail(where, ": the checkpoint has ", name.count, " parts; missing: ", missing);
}

// All parts of the checkpoint that `path` is a part of, in order.
std::vector<OpenPart> open_parts(const std::filesystem::path& path,
                                 std::vector<std::filesystem::path>& paths) {
  const std::string where = path.string();
  std::vector<OpenPart> parts;
  OpenPart given(path);
  const std::int64_t count = split_count(given, where);
  if (count == 1) {
    paths.push_back(path);
    parts.push_back(std::move(given));
    return parts;
  }
  const auto name = part_name(path);
  if (!name) {
    const PartName first{.prefix = "", .number = 1, .count = count};
    fail(where, ": split.count is ", count, ", but the file name does not end like ",
         first.path_of(1));
  }
  if (name->count != count || name->number < 1 || name->number > count) {
    fail(where, ": split.count is ", count, ", the file name is part ", name->number, " of ",
         name->count);
  }
  check_all_present(*name, where);
  for (std::int64_t number = 1; number <= count; ++number) {
    paths.emplace_back(name->path_of(number));
    if (number != name->number) parts.emplace_back(paths.back());
  }
  parts.insert(parts.begin() + (name->number - 1), std::move(given));
  for (std::int64_t number = 1; number <= count; ++number) {
    check_part(parts[static_cast<std::size_t>(number - 1)], *name, number);
  }
  return parts;
}

void check_tensors(const std::vector<TensorInfo>& tensors, const std::string& where) {
  std::unordered_set<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      fail(where, ": tensor \"", printable(tensor.name),
           "\": is a duplicate: two parts contain it");
    }
  }
}

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path) {
  std::vector<OpenPart> parts = open_parts(path, paths_);
  version_ = parts[0].part.version;
  std::size_t num_tensors = 0;
  for (const OpenPart& part : parts)
    num_tensors += part.part.tensors.size();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string where = paths_[i].string();
    const auto said = integer_of(parts[i].part.metadata, "split.tensors.count", where);
    if (said && std::cmp_not_equal(*said, num_tensors)) {
      fail(where, ": split.tensors.count is ", *said, ", the ", parts.size(), " parts have ",
           num_tensors);
    }
  }
  tensors_.reserve(num_tensors);
  files_.reserve(parts.size());
  for (OpenPart& part : parts) {
    std::ranges::move(part.part.tensors, std::back_inserter(tensors_));
    files_.push_back(std::move(part.file));
  }
  metadata_ = std::move(parts[0].part.metadata);
  if (parts.size() > 1) check_tensors(tensors_, paths_[0].string());
}

void GgufFile::release(const TensorInfo& tensor) const {
  const std::less_equal<> not_after;
  for (const MappedFile& file : files_) {
    const auto bytes = file.bytes();
    if (not_after(bytes.data(), tensor.data.data()) &&
        not_after(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size())) {
      file.release(tensor.data);
      return;
    }
  }
  GRAFT_CHECK(false, "tensor ", tensor.name, " does not belong to this file");
}

}  // namespace graft::formats
