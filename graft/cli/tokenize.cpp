// graft tokenize and graft detokenize: run a model's tokenizer on standard input.

#include <charconv>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/model_options.h"
#include "graft/formats/read_tokenizer.h"
#include "graft/models/families/family.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::cli {
namespace {

using tokenizer::TokenId;
using tokenizer::Tokenizer;

struct TokenizeOptions {
  ModelChoice model;
  bool ids = false;  // the default; the flag is accepted for clarity
  bool json = false;
  bool pieces = false;
  bool no_special = false;
};

Tokenizer open_tokenizer(const ModelChoice& model) {
  const std::filesystem::path path = model.path();
  const formats::TokenizerData data = formats::read_tokenizer(path);
  if (data.empty()) fail(path.string(), ": has no tokenizer");
  return Tokenizer(data, models::pre_tokenizer_names());
}

std::string read_input() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

// As a JSON string; invalid UTF-8 is replaced.
std::string quoted(std::string_view bytes) {
  return Json(std::string(bytes)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void tokenize(const TokenizeOptions& options) {
  const Tokenizer tokenizer = open_tokenizer(options.model);
  const std::vector<TokenId> ids = tokenizer.encode(
      read_input(), {.add_special = !options.no_special, .parse_special = !options.no_special});
  std::string out;
  if (options.json) {
    out = Json(ids).dump();
  } else if (options.pieces) {
    for (const TokenId id : ids) {
      out += fmt::format("{}{:>7}  {}", out.empty() ? "" : "\n", id, quoted(tokenizer.bytes(id)));
    }
  } else {
    out = fmt::format("{}", fmt::join(ids, " "));
  }
  fmt::print("{}\n", out);
}

void detokenize(const TokenizeOptions& options) {
  const Tokenizer tokenizer = open_tokenizer(options.model);
  std::vector<TokenId> ids;
  std::string word;
  while (std::cin >> word) {
    TokenId id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size())
      fail("\"", word, "\": not a token id");
    if (id < 0 || id >= tokenizer.vocab_size())
      fail("token ", id, ": the vocabulary has ", tokenizer.vocab_size(), " tokens");
    ids.push_back(id);
  }
  const std::string text = tokenizer.decode(ids, !options.no_special);
  if (options.json) {
    fmt::print("{}\n", Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void add_tokenize(Command& app) {
  auto options = std::make_shared<TokenizeOptions>();
  Command* command = app.add_subcommand("tokenize", "Convert text on standard input to token ids");
  options->model.add_to(*command, "MODEL");
  Option* ids = command->add_flag("--ids", options->ids, "Print ids separated by spaces (default)");
  Option* json = command->add_flag("--json", options->json, "Print ids as a JSON list");
  command->add_flag("--pieces", options->pieces, "Print one line per token with its text")
      ->excludes(ids)
      ->excludes(json);
  ids->excludes(json);
  command->add_flag("--no-special", options->no_special,
                    "Add no BOS or EOS and do not parse special tokens in the text");
  command->callback([options] { tokenize(*options); });
}

void add_detokenize(Command& app) {
  auto options = std::make_shared<TokenizeOptions>();
  Command* command =
      app.add_subcommand("detokenize", "Convert token ids on standard input to text");
  options->model.add_to(*command, "MODEL");
  command->add_flag("--no-special", options->no_special, "Skip special tokens");
  command->add_flag("--json", options->json, "Print a JSON string");
  command->callback([options] { detokenize(*options); });
}

}  // namespace graft::cli
