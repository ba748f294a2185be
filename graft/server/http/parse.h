// Bytes of HTTP to a request. Boost parses; this says what of it we keep and what we answer to the
// rest. Includes Boost, like connection.h.

#pragma once

#include <string>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "graft/server/http/message.h"

namespace graft::server::http {

using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

// The head that was parsed; the body is not in it.
Request to_request(const Parser& parser, const std::string& remote);

// The answer to what could not be parsed. 0: nobody is there to be told.
int status_of(const boost::system::error_code& error);

}  // namespace graft::server::http
