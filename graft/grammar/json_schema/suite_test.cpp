// The JSON Schema Test Suite, where GRAFT_JSON_SCHEMA_SUITE names its folder of tests (with draft7
// and draft2020-12). A valid instance must match in some order of its properties, an invalid one in
// none; numbers and strings are in the forms that json_schema.h describes. Schemas that are refused
// are counted, not checked; so are host names that no output has.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/grammar/json_schema/numbers.h"
#include "graft/testing/grammar_texts.h"

namespace graft::grammar {
namespace {

constexpr std::size_t kMaxTexts = 5000;

// Texts of the value with the properties of objects in all orders.
std::vector<std::string> texts_of(const OrderedJson& value) {
  if (value.is_number()) return {json::decimal_text(value)};
  if (!value.is_structured()) return {value.dump()};
  std::vector<std::vector<std::string>> parts;
  for (const auto& [key, item] : value.items()) {
    parts.push_back(texts_of(item));
    if (!value.is_object()) continue;
    for (std::string& text : parts.back())
      text = OrderedJson(key).dump() + ":" + text;
  }
  std::vector<std::size_t> order(parts.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::vector<std::string> texts;
  do {
    std::vector<std::string> prefixes = {value.is_object() ? "{" : "["};
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::vector<std::string> longer;
      for (const std::string& prefix : prefixes)
        for (const std::string& text : parts[order[i]])
          if (longer.size() < kMaxTexts) longer.push_back(prefix + (i == 0 ? "" : ",") + text);
      prefixes = std::move(longer);
    }
    for (std::string& text : prefixes)
      texts.push_back(text + (value.is_object() ? "}" : "]"));
  } while (value.is_object() && texts.size() < kMaxTexts &&
           std::ranges::next_permutation(order).found);
  return texts;
}

struct Counts {
  int passed = 0;
  int refused = 0;
  int left_out = 0;
  int wrongly_accepted = 0;
  int wrongly_rejected = 0;
};

// Host names in another spelling ("xn--9n2bp8q"), whose rules no automaton can check: valid ones
// are rejected, too.
bool has_encoded_label(const OrderedJson& value) {
  return value.is_string() && value.get_ref<const std::string&>().find("xn--") != std::string::npos;
}

class SuiteRun {
 public:
  void run_file(const std::filesystem::path& path, Counts& counts) {
    for (OrderedJson group : read_ordered_json_file(path)) {
      OrderedJson schema = group.at("schema");
      const bool is_draft7 = path.string().find("draft7") != std::string::npos;
      if (is_draft7 && schema.is_object() && !schema.contains("$schema"))
        schema["$schema"] = "http://json-schema.org/draft-07/schema#";
      std::optional<Automaton> automaton;
      std::string error;
      try {
        automaton.emplace(
            compile({.kind = StructuredOutput::Kind::JsonSchema, .text = schema.dump()}));
      } catch (const Error& thrown) {
        error = thrown.what();
      }
      const bool is_refused = !automaton && error.find("no text matches") == std::string::npos;
      if (is_refused) ++reasons[error.substr(error.rfind('/') + 1)];
      for (const OrderedJson& test : group.at("tests")) {
        if (is_refused) {
          ++counts.refused;
          continue;
        }
        check(automaton, group, test, path, counts);
      }
    }
  }

  std::map<std::string, int> reasons;  // of refused schemas

 private:
  static void check(const std::optional<Automaton>& automaton,
                    const OrderedJson& group,
                    const OrderedJson& test,
                    const std::filesystem::path& path,
                    Counts& counts) {
    const std::vector<std::string> texts = texts_of(test.at("data"));
    const bool is_match = automaton && std::ranges::any_of(texts, [&](const std::string& text) {
                            return grammar::testing::matches(*automaton, text);
                          });
    const bool is_valid = test.at("valid").get<bool>();
    if (is_match == is_valid) {
      ++counts.passed;
      return;
    }
    if (is_valid && path.filename() == "hostname.json" && has_encoded_label(test.at("data"))) {
      ++counts.left_out;
      return;
    }
    ++(is_valid ? counts.wrongly_rejected : counts.wrongly_accepted);
    std::cout << (is_valid ? "rejected: " : "ACCEPTED: ") << path.filename().string() << ": "
              << group.at("description").get<std::string>() << ": "
              << test.at("description").get<std::string>() << "\n";
  }
};

TEST(JsonSchemaSuite, NoInstanceIsJudgedWrongly) {
  const char* folder = std::getenv("GRAFT_JSON_SCHEMA_SUITE");
  if (folder == nullptr) GTEST_SKIP() << "GRAFT_JSON_SCHEMA_SUITE is not set";
  SuiteRun run;
  for (const std::string draft : {"draft7", "draft2020-12"}) {
    std::map<std::string, Counts> counts;
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(folder) / draft)) {
      if (file.path().extension() != ".json") continue;
      const std::string path = file.path().string();
      // "format" is always checked here; it is an annotation in this file and not in others.
      if (file.path().filename() == "format.json") continue;
      const bool is_format = path.find("/format/") != std::string::npos;
      const bool is_optional = path.find("/optional/") != std::string::npos;
      run.run_file(file.path(), counts[is_format     ? "format"
                                       : is_optional ? "optional"
                                                     : "required"]);
    }
    for (const auto& [kind, count] : counts) {
      std::cout << draft << " " << kind << ": " << count.passed << " passed, " << count.refused
                << " refused, " << count.left_out << " left out, " << count.wrongly_accepted
                << " wrongly accepted, " << count.wrongly_rejected << " wrongly rejected\n";
      EXPECT_EQ(count.wrongly_accepted, 0);
      EXPECT_EQ(count.wrongly_rejected, 0);
    }
  }
  for (const auto& [reason, count] : run.reasons)
    std::cout << count << " x " << reason << "\n";
}

}  // namespace
}  // namespace graft::grammar
