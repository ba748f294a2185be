// Compares rendered templates with Python's jinja2, byte for byte; where one fails, the other must.
//
// GRAFT_TEMPLATES=FOLDER also compares the *.jinja files of a folder: published templates, which
// this repository does not contain.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"
#include "graft/chat/builtin_templates.h"
#include "graft/chat/chat_template.h"
#include "graft/testing/shared_data.h"

namespace graft::chat {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(GRAFT_SOURCE_DIR) / "tests/jinja";
constexpr std::int64_t kNow = 1721728799;  // 2024-07-23 09:59:59 UTC

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

struct ReferenceCase {
  std::string name;
  std::string source;
  OrderedJson variables;
};

// The sections of a file, separated by lines of dashes.
std::vector<std::string> snippets(const fs::path& path) {
  std::vector<std::string> sections(1);
  std::istringstream lines(read_text(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("----")) {
      sections.emplace_back();
    } else {
      sections.back() += line + "\n";
    }
  }
  return sections;
}

bool python(const std::vector<std::string>& arguments) {
  const char* given = std::getenv("GRAFT_PYTHON");
  std::string command = given != nullptr ? given : "/usr/bin/python3";
  for (const std::string& argument : arguments)
    command += " '" + argument + "'";
  return std::system(command.c_str()) == 0;
}

bool has_jinja() {
  static const bool found = python({"-c", "import jinja2"});
  return found;
}

#define GRAFT_REQUIRE_JINJA()                                                \
  do {                                                                       \
    if (!has_jinja()) {                                                      \
      if (shared_data_is_required()) {                                       \
        FAIL() << "python3-jinja2 is not installed and CI=true requires it"; \
      }                                                                      \
      GTEST_SKIP() << "python3-jinja2 is not installed";                     \
    }                                                                        \
  } while (false)

std::string render(const ReferenceCase& test, std::string& error) {
  RenderInput input;
  input.messages = nullptr;
  input.extra = test.variables;
  input.now = std::chrono::system_clock::time_point(std::chrono::seconds(kNow));
  try {
    return ChatTemplate(test.source, "template").render(input);
  } catch (const Error& caught) {
    error = caught.what();
    return "";
  }
}

// Adds the variables that Transformers always defines.
OrderedJson with_defaults(OrderedJson variables) {
  for (const char* name : {"messages", "tools", "documents"}) {
    if (!variables.contains(name)) variables[name] = nullptr;
  }
  if (!variables.contains("add_generation_prompt")) variables["add_generation_prompt"] = true;
  return variables;
}

void compare(const std::vector<ReferenceCase>& cases) {
  const TempDir folder;
  OrderedJson inputs = OrderedJson::array();
  for (const ReferenceCase& test : cases)
    inputs.push_back({{"template", test.source}, {"variables", test.variables}, {"now", kNow}});
  std::ofstream(folder / "cases.json") << inputs.dump();
  ASSERT_TRUE(python(
      {(kFolder / "reference.py").string(), folder / "cases.json", folder / "results.json"}));
  const Json results = read_json_file(folder / "results.json");
  ASSERT_EQ(results.size(), cases.size());
  std::size_t num_failed = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::string error;
    const std::string text = render(cases[i], error);
    const bool python_fails = results[i].contains("error");
    num_failed += python_fails ? 1 : 0;
    // Python prints the address of objects without a text form.
    if (!python_fails &&
        results[i]["text"].get_ref<const std::string&>().find(" at 0x") != std::string::npos)
      continue;
    if (python_fails) {
      EXPECT_FALSE(error.empty()) << cases[i].name << "\n"
                                  << cases[i].source << "\nPython: " << results[i]["error"]
                                  << "\ngraft:  " << text;
    } else {
      EXPECT_EQ(text, results[i]["text"].get<std::string>()) << cases[i].name << "\n"
                                                             << cases[i].source << "\n"
                                                             << error;
    }
  }
  std::cout << cases.size() << " cases, " << num_failed << " of them expected errors\n";
}

TEST(TemplateReference, Expressions) {
  GRAFT_REQUIRE_JINJA();
  const OrderedJson variables =
      with_defaults(parse_ordered_json(read_text(kFolder / "variables.json"), "variables"));
  std::vector<ReferenceCase> cases;
  std::istringstream lines(read_text(kFolder / "expressions.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    cases.push_back({.name = line, .source = "{{ " + line + " }}", .variables = variables});
  }
  compare(cases);
}

TEST(TemplateReference, Snippets) {
  GRAFT_REQUIRE_JINJA();
  const OrderedJson variables =
      with_defaults(parse_ordered_json(read_text(kFolder / "variables.json"), "variables"));
  std::vector<ReferenceCase> cases;
  for (const std::string& snippet : snippets(kFolder / "snippets.txt"))
    cases.push_back({.name = "snippet", .source = snippet, .variables = variables});
  compare(cases);
}

using NamedTemplates = std::map<std::string, std::string>;

NamedTemplates templates_in(const fs::path& folder) {
  NamedTemplates templates;
  for (const fs::path& path : files_in(folder)) {
    if (path.extension() == ".jinja") templates[path.filename().string()] = read_text(path);
  }
  return templates;
}

std::vector<ReferenceCase> conversations_with(const NamedTemplates& templates) {
  std::vector<ReferenceCase> cases;
  for (const auto& [name, source] : templates) {
    for (const fs::path& conversation : files_in(kFolder / "conversations")) {
      const OrderedJson variables = parse_ordered_json(read_text(conversation), conversation);
      for (const bool prompt : {true, false}) {
        OrderedJson all = with_defaults(variables);
        all["add_generation_prompt"] = prompt;
        cases.push_back({.name = name + " " + conversation.filename().string(),
                         .source = source,
                         .variables = std::move(all)});
      }
    }
  }
  return cases;
}

TEST(TemplateReference, TemplatesAndConversations) {
  GRAFT_REQUIRE_JINJA();
  compare(conversations_with(templates_in(kFolder / "templates")));
  if (const char* folder = std::getenv("GRAFT_TEMPLATES"))
    compare(conversations_with(templates_in(folder)));
}

TEST(TemplateReference, BuiltinTemplates) {
  GRAFT_REQUIRE_JINJA();
  NamedTemplates templates;
  for (const BuiltinTemplate& row : builtin_templates())
    templates.emplace(row.name, row.source);
  compare(conversations_with(templates));
}

TEST(TemplateReference, Random) {
  GRAFT_REQUIRE_JINJA();
  const TempDir folder;
  const char* count = std::getenv("GRAFT_RANDOM_TEMPLATES");
  const char* seed = std::getenv("GRAFT_SEED");
  ASSERT_TRUE(python({(kFolder / "generate.py").string(), count != nullptr ? count : "3000",
                      seed != nullptr ? seed : "1", folder / "random.json"}));
  const OrderedJson variables =
      with_defaults(parse_ordered_json(read_text(kFolder / "variables.json"), "variables"));
  std::vector<ReferenceCase> cases;
  for (const Json& source : read_json_file(folder / "random.json"))
    cases.push_back(
        {.name = "random", .source = source.get<std::string>(), .variables = variables});
  compare(cases);
}

}  // namespace
}  // namespace graft::chat
