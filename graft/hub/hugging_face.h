// The Hugging Face Hub: https://huggingface.co/docs/hub/api.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graft/hub/environment.h"
#include "graft/hub/http/http.h"
#include "graft/hub/model_ref.h"
#include "graft/hub/remote_files.h"

namespace graft::hub {

// Reads the response of /api/models/{repo}/revision/{revision}?blobs=true. Throws Error.
RemoteRepo parse_hugging_face(std::string_view text, const std::string& where);

RemoteRepo list_hugging_face(HttpClient& client, const Environment& env, const ModelRef& ref);

std::string hugging_face_url(const Environment& env,
                             const ModelRef& ref,
                             const std::string& commit,
                             const std::string& file);
std::vector<std::string> hugging_face_headers(const Environment& env);

}  // namespace graft::hub
