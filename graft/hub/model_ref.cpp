#include "graft/hub/model_ref.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"

namespace graft::hub {
namespace {

constexpr std::size_t kMaxName = 96;  // the Hub's limit for a name
constexpr std::size_t kMaxPath = 512;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

// A component of a repository name: no separators, not "." or "..".
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName && std::ranges::all_of(text, is_name_char) &&
         text.front() != '.' && text.front() != '-';
}

bool is_repo(std::string_view text) {
  const std::size_t slash = text.find('/');
  return slash != std::string_view::npos && is_name(text.substr(0, slash)) &&
         is_name(text.substr(slash + 1));
}

bool has_model_suffix(std::string_view text) {
  constexpr std::array<std::string_view, 5> kSuffixes = {".gguf", ".safetensors", ".json", ".yaml",
                                                         ".bin"};
  const std::string lower = lower_case(text);
  return std::ranges::any_of(kSuffixes,
                             [&](std::string_view suffix) { return lower.ends_with(suffix); });
}

void check_revision(std::string_view revision, std::string_view text) {
  const bool is_valid =
      !revision.empty() && revision.size() <= 200 &&
      std::ranges::all_of(revision, [](char c) { return is_name_char(c) || c == '/'; });
  if (!is_valid) fail(text, ": invalid revision '", revision, "' after @");
  check_remote_path(revision, std::string(text));
}

// org/repo[:selector][@revision]
ModelRef repo_ref(Source source, std::string_view rest, std::string_view text) {
  ModelRef ref = {.source = source};
  const std::size_t at = rest.rfind('@');
  if (at != std::string_view::npos) {
    ref.revision = rest.substr(at + 1);
    check_revision(ref.revision, text);
    rest = rest.substr(0, at);
  }
  const std::size_t colon = rest.find(':');
  if (colon != std::string_view::npos) {
    ref.selector = rest.substr(colon + 1);
    if (ref.selector.empty()) fail(text, ": expected a file or a type such as Q4_K_M after ':'");
    check_remote_path(ref.selector, std::string(text));
    rest = rest.substr(0, colon);
  }
  if (!is_repo(rest)) fail(text, ": expected ORG/REPO, got '", rest, "'");
  ref.repo = rest;
  return ref;
}

std::string_view until_any_of(std::string_view text, std::string_view chars) {
  return text.substr(0, std::min(text.find_first_of(chars), text.size()));
}

// https://huggingface.co/org/repo[/(blob|resolve|tree)/revision[/file]]; nullopt: another form.
std::optional<ModelRef> hugging_face_url(std::string_view url) {
  for (const std::string_view host :
       {"https://huggingface.co/", "https://hf.co/", "https://www.huggingface.co/"}) {
    if (!url.starts_with(host)) continue;
    std::string_view rest = until_any_of(url.substr(host.size()), "?#");
    std::array<std::string_view, 4> parts = {};
    for (std::string_view& part : parts) {
      part = until_any_of(rest, "/");
      rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    }
    const std::string repo = str(parts[0], "/", parts[1]);
    if (!is_repo(repo)) return std::nullopt;
    const bool has_file = parts[2] == "blob" || parts[2] == "resolve";
    if (!parts[2].empty() && parts[2] != "tree" && !has_file) return std::nullopt;
    ModelRef ref = {.repo = repo};
    if (!parts[3].empty() && parts[3] != "main") ref.revision = parts[3];
    if (!ref.revision.empty()) check_revision(ref.revision, url);
    if (has_file) ref.selector = rest;
    if (!ref.selector.empty()) check_remote_path(ref.selector, std::string(url));
    return ref;
  }
  return std::nullopt;
}

// "org/repo" without a scheme stays a path when it looks like one, or when its first folder exists:
// a mistyped path must not become a download.
bool may_be_path(std::string_view text) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::path(text), error)) return true;
  const std::string_view first = until_any_of(text, "/");
  if (std::filesystem::is_directory(std::filesystem::path(first), error)) return true;
  return text.find(':') == std::string_view::npos && has_model_suffix(text);
}

}  // namespace

void check_remote_path(std::string_view path, const std::string& where) {
  const auto refuse = [&](const char* why) {
    fail(where, ": refused file name '", path, "': ", why);
  };
  if (path.empty() || path.size() > kMaxPath) fail(where, ": file name of ", path.size(), " bytes");
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) refuse("control character");
    if (c == '\\') refuse("backslash");
  }
  for (std::string_view rest = path;;) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty() || part == "." || part == "..") refuse("it may leave its folder");
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
}

ModelRef parse_ollama_name(std::string_view name) {
  for (const std::string_view host : {"hf.co/", "huggingface.co/"}) {
    if (!name.starts_with(host)) continue;
    ModelRef ref = repo_ref(Source::HuggingFace, name.substr(host.size()), name);
    if (ref.selector == "latest") ref.selector.clear();
    return ref;
  }
  constexpr std::string_view kHost = "registry.ollama.ai/";
  std::string_view rest = name.starts_with(kHost) ? name.substr(kHost.size()) : name;
  ModelRef ref = {.source = Source::Ollama, .selector = "latest"};
  const std::size_t colon = rest.find(':');
  if (colon != std::string_view::npos) {
    ref.selector = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
  }
  ref.repo = rest.find('/') == std::string_view::npos ? str("library/", rest) : std::string(rest);
  if (!is_repo(ref.repo) || !is_name(ref.selector))
    fail(name, ": not an Ollama name; expected MODEL[:TAG] or NAMESPACE/MODEL[:TAG]");
  return ref;
}

std::optional<ModelRef> parse_model_ref(std::string_view text) {
  if (text.starts_with("hf:")) return repo_ref(Source::HuggingFace, text.substr(3), text);
  if (text.starts_with("ms:")) return repo_ref(Source::ModelScope, text.substr(3), text);
  if (text.starts_with("ollama:")) return parse_ollama_name(text.substr(7));
  if (text.starts_with("hf.co/")) return repo_ref(Source::HuggingFace, text.substr(6), text);
  if (text.starts_with("http://") || text.starts_with("https://")) {
    if (auto ref = hugging_face_url(text)) return ref;
    return ModelRef{.source = Source::Url, .repo = std::string(text)};
  }
  const std::string_view repo = until_any_of(text, ":@");
  if (!is_repo(repo) || may_be_path(text)) return std::nullopt;
  return repo_ref(Source::HuggingFace, text, text);
}

std::string to_string(const ModelRef& ref) {
  if (ref.source == Source::Url) return ref.repo;
  if (ref.source == Source::Ollama) {
    const std::string_view repo = ref.repo;
    constexpr std::string_view kLibrary = "library/";
    return str("ollama:", repo.starts_with(kLibrary) ? repo.substr(kLibrary.size()) : repo, ":",
               ref.selector);
  }
  return str(ref.source == Source::ModelScope ? "ms:" : "", ref.repo,
             ref.selector.empty() ? "" : ":", ref.selector, ref.revision.empty() ? "" : "@",
             ref.revision);
}

std::string_view source_name(Source source) {
  constexpr std::array<std::string_view, 4> kNames = {"Hugging Face", "ModelScope", "Ollama",
                                                      "URL"};
  return kNames.at(static_cast<std::size_t>(source));
}

}  // namespace graft::hub
