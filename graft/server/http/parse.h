// Converts Boost.Beast's parsed messages to Request, and its errors to HTTP statuses. Includes
// Boost, like connection.h.

#pragma once

#include <string>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "graft/server/http/message.h"

namespace graft::server::http {

using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

// The parsed request head, without the body.
Request to_request(const Parser& parser, const std::string& remote);

// The HTTP status for a read error; 0: the connection ended, no response can be sent.
int status_of(const boost::system::error_code& error);

}  // namespace graft::server::http
