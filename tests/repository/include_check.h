// Finds missing #includes in the text of the sources. The builds cannot: they compile several
// sources as one, after a precompiled header.

#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace graft::tests {

// Text of each file by the path that #include names.
using Sources = std::map<std::string, std::string>;

// Every .h, .cpp, .cuh and .cu in graft, include/graft and tests.
Sources read_sources();

// Adds all headers that the text includes, directly or through files of `sources`.
void add_includes(const Sources& sources, const std::string& text, std::set<std::string>& found);

// Words, numbers, literals and punctuation; no comments and no #include lines.
struct Token {
  std::string_view text;
  bool begins_line = false;
};
std::vector<Token> tokens_of(std::string_view text);

// Finds names of graft's headers in files that do not include the header. It knows the names that
// headers declare at the beginning of a line. A name that an included header mentions is not
// reported: that header includes its declaration.
class GraftIncludes {
 public:
  explicit GraftIncludes(const Sources& sources);

  // "Plan without graft/plan/plan.h", one per name.
  std::vector<std::string> missing(const std::string& path) const;

 private:
  struct File {
    std::vector<Token> tokens;
    std::set<std::string_view> words;
  };

  const Sources& sources_;
  std::map<std::string, File> files_;
  std::map<std::string_view, std::set<std::string>> headers_by_name_;
};

}  // namespace graft::tests
