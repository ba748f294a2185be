// Fuzzes what hubs send and what users type: file lists of Hugging Face and ModelScope, manifests
// of Ollama, model references, Content-Range. Each is read within its bounds or throws Error. The
// first byte chooses the reader.

#include <cstddef>
#include <cstdint>
#include <string>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/hub/fields.h"
#include "graft/hub/http/http.h"
#include "graft/hub/hugging_face.h"
#include "graft/hub/model_ref.h"
#include "graft/hub/modelscope.h"
#include "graft/hub/ollama_store.h"
#include "graft/hub/remote_files.h"

namespace {

namespace hub = graft::hub;

void check_repo(const hub::RemoteRepo& repo) {
  GRAFT_CHECK(repo.files.size() <= hub::kMaxRemoteFiles, repo.files.size());
  for (const hub::RemoteFile& file : repo.files) {
    hub::check_remote_path(file.path, "fuzz");
    GRAFT_CHECK(file.size <= hub::kMaxFileBytes, file.size);
  }
  const hub::ChosenFiles chosen = hub::choose_files(repo.files, "", "fuzz");
  GRAFT_CHECK(!chosen.files.empty(), "no file");
}

void check_ref(const std::string& text) {
  const auto ref = hub::parse_model_ref(text);
  if (!ref || ref->source == hub::Source::Url) return;
  hub::check_remote_path(ref->repo, "fuzz");
  if (!ref->selector.empty()) hub::check_remote_path(ref->selector, "fuzz");
}

void check_manifest(const std::string& text) {
  for (const hub::OllamaLayer& layer : hub::parse_ollama_manifest(text, "fuzz").layers) {
    GRAFT_CHECK(layer.digest.size() == 71 && layer.digest.find('/') == std::string::npos,
                layer.digest);
    GRAFT_CHECK(layer.size <= hub::kMaxFileBytes, layer.size);
  }
}

}  // namespace

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 5) {
      case 0:
        check_repo(hub::parse_hugging_face(text, "fuzz"));
        break;
      case 1:
        check_repo(hub::parse_modelscope(text, "fuzz"));
        break;
      case 2:
        check_manifest(text);
        break;
      case 3:
        check_ref(text);
        break;
      default:
        if (const auto range = hub::parse_content_range(text))
          GRAFT_CHECK(range->begin < range->end && range->end <= range->total, text);
        break;
    }
  } catch (const graft::Error&) {
    // A valid outcome.
  }
  return 0;
}
