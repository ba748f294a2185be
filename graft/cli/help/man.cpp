// graft man: manual pages in roff, made from the help of the commands.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/cli/commands.h"
#include "graft/cli/text_file.h"
#include "graft/version.h"

namespace graft::cli {
namespace {

// Escapes what roff would interpret: backslashes, hyphens and control characters at line starts.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool at_line_start = out.empty() || out.back() == '\n';
    if (at_line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

// "rules check" becomes "graft-rules-check".
std::string page_name(const std::string& path) {
  std::string name = path.empty() ? "graft" : "graft-" + path;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string options_text(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    const std::string value =
        option->get_option_text().empty() && option->get_items_expected_max() > 0
            ? option->get_type_name()
            : option->get_option_text();
    const bool has_flag = !option->get_lnames().empty() || !option->get_snames().empty();
    text += fmt::format(".TP\n.B {}{}\n{}\n", roff(option->get_name(!has_flag, true)),
                        value.empty() ? "" : " " + roff(value), roff(option->get_description()));
  }
  return text;
}

std::string synopsis(const CLI::App& app, const std::string& path) {
  std::string text = fmt::format(".B graft{}", path.empty() ? "" : " " + roff(path));
  if (!subcommands_of(app).empty()) return text + " COMMAND";
  for (const CLI::Option* option : app.get_options()) {
    const bool has_flag = !option->get_lnames().empty() || !option->get_snames().empty();
    if (has_flag) continue;
    const std::string name = roff(option->get_name(true));
    text += option->get_required() ? " " + name : " [" + name + "]";
  }
  return text + " [options]";
}

std::string page_text(const CLI::App& app, const std::string& path) {
  std::string text =
      fmt::format(".TH {} 1 \"\" \"graft {}\" \"graft manual\"\n", page_name(path), GRAFT_VERSION);
  text += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n.SH DESCRIPTION\n{}.\n",
                      roff(page_name(path)), roff(app.get_description()), synopsis(app, path),
                      roff(app.get_description()));
  const std::vector<const CLI::App*> subcommands = subcommands_of(app);
  if (!subcommands.empty()) text += ".SH COMMANDS\n";
  for (const CLI::App* sub : subcommands)
    text += fmt::format(".TP\n.B {}\n{}\n", roff(sub->get_name()), roff(sub->get_description()));
  text += ".SH OPTIONS\n" + options_text(app);
  // Examples and lists, as they are.
  if (const std::string footer = app.get_footer(); !footer.empty())
    text += fmt::format(".SH NOTES\n.nf\n{}\n.fi\n", roff(footer));
  if (!path.empty()) text += ".SH SEE ALSO\n.BR graft (1)\n";
  return text;
}

const CLI::App& find_command(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* found = &app;
  for (const std::string& word : words) {
    const CLI::App* sub = nullptr;
    for (const CLI::App* candidate : subcommands_of(*found)) {
      if (candidate->get_name() == word) sub = candidate;
    }
    if (sub == nullptr) fail("man: no command '", fmt::format("{}", fmt::join(words, " ")), "'");
    found = sub;
  }
  return *found;
}

void write_pages(const CLI::App& app,
                 const std::string& path,
                 const std::filesystem::path& folder) {
  write_text_file(folder / (page_name(path) + ".1"), page_text(app, path));
  for (const CLI::App* sub : subcommands_of(app))
    write_pages(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), folder);
}

struct ManOptions {
  std::vector<std::string> words;
  std::string folder;
};

}  // namespace

void add_man(Command& app) {
  auto options = std::make_shared<ManOptions>();
  Command* command = app.add_subcommand("man", "Print the manual page of a command");
  command->footer("Example:\n  graft man run | man -l -");
  command->add_option("COMMAND", options->words, "Command (default: graft itself)");
  command->add_option("--all", options->folder, "Write the pages of all commands to this folder")
      ->option_text("DIR")
      ->excludes("COMMAND");
  command->callback([&app, options] {
    if (!options->folder.empty()) return write_pages(app.app(), "", options->folder);
    const CLI::App& found = find_command(app.app(), options->words);
    fmt::print("{}", page_text(found, fmt::format("{}", fmt::join(options->words, " "))));
  });
}

}  // namespace graft::cli
