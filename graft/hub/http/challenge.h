// What a registry wants of a client without a token (the protocol of container registries): a token
// from another URL, which it gives to all callers for public models.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace graft::hub {

// The URL that gives a token, of the WWW-Authenticate header
//   Bearer realm="https://host/token",service="host",scope="repository:library/llama:pull"
// nullopt: another kind of challenge.
std::optional<std::string> token_url(std::string_view challenge);

// The token in the JSON answer of that URL. Throws Error for an answer without one, and for a token
// that a header cannot carry.
std::string parse_token(std::string_view json, const std::string& where);

// "https://host:port" of a URL, in lower case.
std::string origin_of(std::string_view url);

}  // namespace graft::hub
