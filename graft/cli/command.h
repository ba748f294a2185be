// A command of the program with its options: the part of CLI11 that the commands use, under the
// same names. CLI11 is header-only and costs seconds per file that includes it, so only command.cpp
// and the few files that walk over all commands do.

#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): of CLI11
class App;
class Option;
}  // namespace CLI

namespace graft::cli {

// Accepted values of an option, both ends included.
struct Range {
  Range(int first, int last) : Range(std::int64_t{first}, std::int64_t{last}) {}
  Range(std::int64_t first, std::int64_t last) : min_int(first), max_int(last) {}
  Range(double first, double last) : is_real(true), min_real(first), max_real(last) {}

  bool is_real = false;
  std::int64_t min_int = 0;
  std::int64_t max_int = 0;
  double min_real = 0;
  double max_real = 0;
};

struct IsMember {
  IsMember(std::initializer_list<std::string> list) : words(list) {}

  std::vector<std::string> words;
};

// Owned by its command. Every function returns the option itself.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(option) {}

  Option* check(const Range& range);
  Option* check(const IsMember& member);
  // Returns what is wrong with the text, "" when nothing is.
  Option* check(std::function<std::string(const std::string& text)> problem);
  Option* option_text(const std::string& placeholder);  // what the help prints for the value
  Option* required();
  Option* excludes(const Option* other);
  Option* excludes(const std::string& name);
  Option* needs(const Option* other);
  Option* delimiter(char separator);
  Option* allow_extra_args(bool allow);  // of lists: several values after one flag
  Option* take_all();                    // of a flag given several times: a list of its values
  Option* expected(int count);
  Option* expected(int min, int max);
  Option* envname(const std::string& variable);  // the environment variable that sets it
  Option* default_str(const std::string& text);  // the value of a flag given without one

  std::size_t count() const;  // how often it was given

 private:
  CLI::Option& option_;
};

class Command {
 public:
  Command(const std::string& description, const std::string& name);  // the program itself
  explicit Command(CLI::App& app);                                   // not owned
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command();

  Command* add_subcommand(const std::string& name, const std::string& description);
  void require_subcommand(int count);
  void require_subcommand(int min, int max);
  bool has_parsed_subcommand() const;

  // T: bool, int, integers of 16 and 64 bits, double, std::string, std::filesystem::path, or a
  // vector or optional of these, as listed at the end of command.cpp. The value must outlive the
  // command's callback.
  template <class T>
  Option* add_option(const std::string& names, T& value, const std::string& help);
  Option* add_flag(const std::string& names, bool& value, const std::string& help);

  void callback(std::function<void()> function);  // runs when the command was given
  void footer(const std::string& text);

  CLI::App& app() { return *app_; }
  const CLI::App& app() const { return *app_; }

 private:
  Option* keep(CLI::Option* option);

  std::unique_ptr<CLI::App> owned_;
  CLI::App* app_;
  std::vector<std::unique_ptr<Option>> options_;
  std::vector<std::unique_ptr<Command>> subcommands_;
};

// Reads a number as the options do.
bool parse_number(const std::string& text, double& value);

}  // namespace graft::cli
