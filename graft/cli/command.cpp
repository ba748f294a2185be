#include "graft/cli/command.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>  // App needs the classes of its other headers

namespace graft::cli {

Option* Option::check(const Range& range) {
  if (range.is_real) {
    option_.check(CLI::Range(range.min_real, range.max_real));
  } else {
    option_.check(CLI::Range(range.min_int, range.max_int));
  }
  return this;
}

Option* Option::check(const IsMember& member) {
  option_.check(CLI::IsMember(member.words));
  return this;
}

Option* Option::check(std::function<std::string(const std::string&)> problem) {
  option_.check(std::move(problem));
  return this;
}

Option* Option::option_text(const std::string& placeholder) {
  option_.option_text(placeholder);
  return this;
}

Option* Option::required() {
  option_.required();
  return this;
}

Option* Option::excludes(const Option* other) {
  option_.excludes(&other->option_);
  return this;
}

Option* Option::excludes(const std::string& name) {
  option_.excludes(name);
  return this;
}

Option* Option::needs(const Option* other) {
  option_.needs(&other->option_);
  return this;
}

Option* Option::delimiter(char separator) {
  option_.delimiter(separator);
  return this;
}

Option* Option::allow_extra_args(bool allow) {
  option_.allow_extra_args(allow);
  return this;
}

Option* Option::take_all() {
  option_.take_all();
  return this;
}

Option* Option::expected(int count) {
  option_.expected(count);
  return this;
}

Option* Option::expected(int min, int max) {
  option_.expected(min, max);
  return this;
}

Option* Option::envname(const std::string& variable) {
  option_.envname(variable);
  return this;
}

Option* Option::default_str(const std::string& text) {
  option_.default_str(text);
  return this;
}

std::size_t Option::count() const {
  return option_.count();
}

Command::Command(const std::string& description, const std::string& name)
    : owned_(std::make_unique<CLI::App>(description, name)), app_(owned_.get()) {}

Command::Command(CLI::App& app) : app_(&app) {}

Command::~Command() = default;

Command* Command::add_subcommand(const std::string& name, const std::string& description) {
  CLI::App* app = app_->add_subcommand(name, description);
  return subcommands_.emplace_back(std::make_unique<Command>(*app)).get();
}

void Command::require_subcommand(int count) {
  app_->require_subcommand(count);
}

void Command::require_subcommand(int min, int max) {
  app_->require_subcommand(static_cast<std::size_t>(min), static_cast<std::size_t>(max));
}

bool Command::has_parsed_subcommand() const {
  return !app_->get_subcommands().empty();
}

template <class T>
Option* Command::add_option(const std::string& names, T& value, const std::string& help) {
  return keep(app_->add_option(names, value, help));
}

Option* Command::add_flag(const std::string& names, bool& value, const std::string& help) {
  return keep(app_->add_flag(names, value, help));
}

void Command::callback(std::function<void()> function) {
  app_->callback(std::move(function));
}

void Command::footer(const std::string& text) {
  app_->footer(text);
}

Option* Command::keep(CLI::Option* option) {
  return options_.emplace_back(std::make_unique<Option>(*option)).get();
}

bool parse_number(const std::string& text, double& value) {
  return CLI::detail::lexical_cast(text, value);
}

using Text = const std::string&;
template Option* Command::add_option(Text, bool&, Text);
template Option* Command::add_option(Text, int&, Text);
template Option* Command::add_option(Text, std::int64_t&, Text);
template Option* Command::add_option(Text, std::uint16_t&, Text);
template Option* Command::add_option(Text, std::uint64_t&, Text);
template Option* Command::add_option(Text, double&, Text);
template Option* Command::add_option(Text, std::string&, Text);
template Option* Command::add_option(Text, std::filesystem::path&, Text);
template Option* Command::add_option(Text, std::optional<double>&, Text);
template Option* Command::add_option(Text, std::optional<std::int64_t>&, Text);
template Option* Command::add_option(Text, std::optional<std::uint64_t>&, Text);
template Option* Command::add_option(Text, std::vector<std::int64_t>&, Text);
template Option* Command::add_option(Text, std::vector<std::string>&, Text);

}  // namespace graft::cli
