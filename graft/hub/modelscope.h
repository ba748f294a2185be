// ModelScope: file lists with SHA-256 and downloads by file path.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graft/hub/environment.h"
#include "graft/hub/http/http.h"
#include "graft/hub/model_ref.h"
#include "graft/hub/remote_files.h"

namespace graft::hub {

// Reads the response of /api/v1/models/{repo}/repo/files. Throws Error.
RemoteRepo parse_modelscope(std::string_view text, const std::string& where);

RemoteRepo list_modelscope(HttpClient& client, const Environment& env, const ModelRef& ref);

std::string modelscope_url(const Environment& env, const ModelRef& ref, const std::string& file);
std::vector<std::string> modelscope_headers(const Environment& env);

}  // namespace graft::hub
