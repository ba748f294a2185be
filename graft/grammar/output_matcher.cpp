#include "graft/grammar/output_matcher.h"

#include <algorithm>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/grammar/dfa.h"
#include "graft/grammar/expression.h"
#include "graft/grammar/gbnf.h"
#include "graft/grammar/json_schema/json_schema.h"
#include "graft/grammar/regex.h"

namespace graft::grammar {
namespace {

constexpr std::size_t kMaxSchemaValues = 100'000;

Expr choice_of(const std::string& text) {
  const OrderedJson list = parse_ordered_json(text, "choice", kMaxSchemaValues);
  if (!list.is_array() || list.empty()) fail("choice: expected a list of texts");
  std::vector<std::string> texts;
  for (const OrderedJson& each : list) {
    if (!each.is_string()) fail("choice: expected a list of texts");
    texts.push_back(each.get<std::string>());
  }
  return regular(std::make_shared<const Dfa>(Dfa::of_texts(std::move(texts))));
}

Expr regex_of(const std::string& pattern) {
  try {
    return regex_match(pattern);
  } catch (const Error& error) {
    fail("regex: ", error.what());
  }
}

Automaton automaton_of(const Expr& expression, const std::string& what) {
  RuleSet rules;
  const RuleId root = rules.add("root");
  rules.define(root, expression);
  return {rules, root, what};
}

}  // namespace

Automaton compile(const StructuredOutput& output, std::span<const SpecialToken> tokens) {
  start_dfa_budget();
  RuleSet rules;
  switch (output.kind) {
    case StructuredOutput::Kind::JsonSchema: {
      const OrderedJson schema = parse_ordered_json(output.text, "schema", kMaxSchemaValues);
      return {rules, add_json_schema(rules, schema), "schema"};
    }
    case StructuredOutput::Kind::Regex:
      return automaton_of(regex_of(output.text), "regex");
    case StructuredOutput::Kind::Choice:
      return automaton_of(choice_of(output.text), "choice");
    case StructuredOutput::Kind::Grammar:
      return {rules, add_gbnf(rules, output.text, tokens), "grammar"};
  }
  fail("unknown kind of structured output");
}

OutputMatcher::OutputMatcher(Matcher matcher,
                             std::vector<std::string> triggers,
                             const tokenizer::Tokenizer& tokenizer)
    : matcher_(std::move(matcher)), triggers_(std::move(triggers)), tokenizer_(&tokenizer) {}

bool OutputMatcher::accept(TokenId token) {
  if (is_active()) {
    const std::string bytes = grammar_bytes(*tokenizer_, token);
    return !bytes.empty() && matcher_.accept(bytes);
  }
  tail_ += tokenizer_->bytes(token);
  std::size_t end = std::string::npos;
  std::size_t longest = 0;
  for (const std::string& trigger : triggers_) {
    const std::size_t at = tail_.find(trigger);
    if (at != std::string::npos) end = std::min(end, at + trigger.size());
    longest = std::max(longest, trigger.size());
  }
  if (end == std::string::npos) {
    if (tail_.size() >= longest) tail_.erase(0, tail_.size() - longest + 1);
    return true;
  }
  triggers_.clear();
  matcher_.accept(std::string_view(tail_).substr(end));
  tail_.clear();
  return true;
}

bool OutputMatcher::is_complete() const {
  return is_active() && matcher_.can_end() && !matcher_.can_continue();
}

TokenBits OutputMatcher::allowed() const {
  return is_active() ? matcher_.allowed() : TokenBits();
}

GrammarCache::GrammarCache(const tokenizer::Tokenizer& tokenizer,
                           std::int64_t vocab_size,
                           std::vector<TokenId> ends)
    : tokenizer_(tokenizer), vocab_size_(vocab_size), ends_(std::move(ends)) {}

std::shared_ptr<const GrammarCache::Vocabulary> GrammarCache::vocabulary() {
  const std::lock_guard lock(vocabulary_mutex_);
  if (vocabulary_ == nullptr) {
    vocabulary_ = std::make_shared<const Vocabulary>(
        Vocabulary{.trie = TokenTrie(tokenizer_, vocab_size_, ends_),
                   .special = special_tokens(tokenizer_, ends_)});
  }
  return vocabulary_;
}

std::shared_ptr<Constraint> GrammarCache::find(const StructuredOutput& key) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.output == key; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return entries_.front().constraint;
}

OutputMatcher GrammarCache::matcher(const StructuredOutput& output) {
  try {
    return new_matcher(output);
  } catch (const Error& error) {
    throw GrammarError(error.what());
  }
}

OutputMatcher GrammarCache::new_matcher(const StructuredOutput& output) {
  if (output.text.size() > kMaxTextBytes) {
    fail("its text has ", output.text.size(), " bytes, at most ", kMaxTextBytes, " are supported");
  }
  for (const std::string& trigger : output.triggers)
    if (trigger.empty()) fail("a trigger is empty");
  const StructuredOutput key = {.kind = output.kind, .text = output.text};
  std::shared_ptr<Constraint> constraint = find(key);
  if (constraint == nullptr) {
    const std::shared_ptr<const Vocabulary> all = vocabulary();
    constraint = std::make_shared<Constraint>(compile(key, all->special),
                                              std::shared_ptr<const TokenTrie>(all, &all->trie));
    const std::lock_guard lock(mutex_);
    entries_.push_front({.output = key, .constraint = constraint});
    if (entries_.size() > kMaxGrammars) entries_.pop_back();
  }
  const Matcher matcher(constraint);
  const TokenBits first = matcher.allowed();  // kept for the engine's thread
  const bool has_token = std::ranges::any_of(first, [](std::uint32_t word) { return word != 0; });
  if (!has_token && !matcher.can_end())
    fail("no token of the vocabulary begins a text that matches");
  return {matcher, output.triggers, tokenizer_};
}

}  // namespace graft::grammar
