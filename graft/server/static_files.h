// Files that are part of the program: the web page. The table is empty until there is one; `/` then
// answers with a line of text.

#pragma once

#include <span>
#include <string_view>

#include "graft/server/router.h"

namespace graft::server {

struct StaticFile {
  std::string_view path;  // "/", "/assets/page.js"
  std::string_view content_type;
  std::string_view bytes;
};

std::span<const StaticFile> static_files();

void add_static_routes(Router& router);

}  // namespace graft::server
