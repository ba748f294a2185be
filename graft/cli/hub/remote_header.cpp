// Opens a remote model from the first bytes of its files: sparse files of the right sizes, whose
// rest is never read.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "graft/base/error.h"
#include "graft/cli/hub/download_model.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;

// Enough for most headers; a tokenizer with 256 k tokens has about 12 MiB.
constexpr std::uint64_t kFirstBytes = std::uint64_t{1} << 20U;
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{256} << 20U;

// Removed with the object: mappings of its files stay valid.
class HeaderFolder {
 public:
  HeaderFolder() {
    std::string name = (fs::temp_directory_path() / "graft_header_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail(name, ": cannot be created");
    path_ = name;
  }
  HeaderFolder(const HeaderFolder&) = delete;
  HeaderFolder& operator=(const HeaderFolder&) = delete;
  ~HeaderFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct HeaderFile {
  const hub::DownloadJob* job;
  fs::path path;
  std::uint64_t size;
  std::uint64_t num_read = 0;
};

// Reads on until the file has `wanted` bytes; the rest of it is a hole.
void read_until(hub::HttpClient& client, HeaderFile& file, std::uint64_t wanted) {
  const std::uint64_t end = std::min(file.size, wanted);
  if (end <= file.num_read) return;
  fs::create_directories(file.path.parent_path());
  std::ofstream out(file.path,
                    std::ios::binary | (file.num_read > 0 ? std::ios::in : std::ios::out));
  out.seekp(static_cast<std::streamoff>(file.num_read));
  const hub::HttpResponse response =
      client.get({.url = file.job->url,
                  .headers = file.job->headers,
                  .range = hub::ByteRange{.begin = file.num_read, .end = end},
                  .sink = [&](std::span<const std::byte> bytes) {
                    out.write(reinterpret_cast<const char*>(bytes.data()),
                              static_cast<std::streamsize>(bytes.size()));
                  }});
  hub::check_status(response, file.job->subject);
  if (response.status == 200) {
    fail(file.job->subject,
         ": the server does not support ranges, so that its header cannot be read "
         "alone; `graft pull` downloads it");
  }
  out.close();
  if (!out) fail(file.path.string(), ": cannot be written");
  fs::resize_file(file.path, file.size);
  file.num_read = end;
}

bool is_weights(const std::string& path) {
  return path.ends_with(".gguf") || path.ends_with(".safetensors") || path.starts_with("sha256:");
}

// The files that a plan needs: the weights of the model, and small configuration files.
std::vector<HeaderFile> header_files(const hub::RemoteModel& model, const fs::path& folder) {
  std::vector<HeaderFile> files;
  for (std::size_t i = 0; i < model.jobs.size(); ++i) {
    const std::string& path = model.chosen.files[i].path;
    const bool is_ollama = model.ref.source == hub::Source::Ollama;
    if (is_ollama && path != model.chosen.main) continue;
    const bool is_config =
        path == "config.json" || path == "generation_config.json" || path.ends_with(".index.json");
    if (!is_weights(path) && !is_config) continue;
    if (model.jobs[i].size == 0) {
      fail(model.jobs[i].subject,
           ": the server does not tell its size, so that its header cannot be "
           "read alone; `graft pull` downloads it");
    }
    const std::string name = is_ollama ? "model.gguf" : path;
    files.push_back({.job = &model.jobs[i], .path = folder / name, .size = model.jobs[i].size});
  }
  return files;
}

}  // namespace

std::unique_ptr<models::Checkpoint> open_remote_header(const hub::RemoteModel& model,
                                                       const hub::Environment& env) {
  const HeaderFolder folder;
  std::vector<HeaderFile> files = header_files(model, folder.path());
  hub::HttpClient client({.is_offline = env.is_offline});
  fs::path main = folder.path();
  if (model.ref.source == hub::Source::Ollama) {
    main /= "model.gguf";
  } else if (!model.chosen.main.empty()) {
    main /= model.chosen.main;
  }
  for (std::uint64_t wanted = kFirstBytes;; wanted *= 4) {
    bool is_whole = true;
    for (HeaderFile& file : files) {
      const bool is_small = !is_weights(file.path.filename().string());
      read_until(client, file, is_small ? std::min(file.size, kMaxHeaderBytes) : wanted);
      is_whole &= file.num_read == file.size;
    }
    try {
      return models::open_checkpoint(main);
    } catch (const Error&) {
      // The header may be longer than what was read.
      if (is_whole || wanted * 4 > kMaxHeaderBytes) throw;
    }
  }
}

}  // namespace graft::cli
