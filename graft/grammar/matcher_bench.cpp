// Time of structured output: compiling a schema of 5 kB, its first mask, and a cached mask, with a
// vocabulary of 150,000 tokens.

#include "graft/grammar/matcher.h"

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "graft/grammar/output_matcher.h"

namespace graft::grammar {
namespace {

constexpr std::size_t kVocabulary = 150'000;

// Words of random letters, with the lengths of usual vocabularies, and all bytes.
std::shared_ptr<const TokenTrie> vocabulary() {
  std::mt19937 random(5);
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.emplace_back(1, static_cast<char>(byte));
  constexpr std::string_view kLetters = "etaoinshrdlucmfwypvbgkjqxz0123456789\"{}[],:._-";
  while (tokens.size() < kVocabulary) {
    std::string word = random() % 2 == 0 ? " " : "";
    for (unsigned i = 0; i < 2 + random() % 8; ++i)
      word += kLetters[(random() % kLetters.size()) * (random() % 4) / 3];
    tokens.push_back(std::move(word));
  }
  return std::make_shared<const TokenTrie>(tokens);
}

std::string schema() {
  std::string properties;
  for (int i = 0; i < 40; ++i) {
    if (i > 0) properties += ",";
    properties += "\"property_number_" + std::to_string(i) +
                  R"(": {"type": "object", "properties": {"name": {"type": "string"},
                     "count": {"type": "integer", "minimum": 0}}, "required": ["name"]})";
  }
  return R"({"type": "object", "properties": {)" + properties + "}}";
}

StructuredOutput output() {
  return {.kind = StructuredOutput::Kind::JsonSchema, .text = schema()};
}

void compile_schema(benchmark::State& state) {
  for (auto _ : state)
    benchmark::DoNotOptimize(compile(output()));
  state.counters["bytes"] = static_cast<double>(schema().size());
}
BENCHMARK(compile_schema)->Unit(benchmark::kMillisecond);

void first_mask(benchmark::State& state) {
  const std::shared_ptr<const TokenTrie> trie = vocabulary();
  const Automaton automaton = compile(output());
  // At the start, and inside a string, where nearly all tokens are allowed.
  const std::string text = state.range(0) == 0 ? "" : R"({"property_number_7": {"name": "a)";
  for (auto _ : state) {
    state.PauseTiming();
    Matcher matcher(std::make_shared<Constraint>(automaton, trie));
    matcher.accept(text);
    state.ResumeTiming();
    benchmark::DoNotOptimize(matcher.allowed());
  }
}
BENCHMARK(first_mask)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void cached_mask(benchmark::State& state) {
  Matcher matcher(std::make_shared<Constraint>(compile(output()), vocabulary()));
  matcher.accept(R"({"property_number_7": {"name": "a)");
  for (auto _ : state)
    benchmark::DoNotOptimize(matcher.allowed());
}
BENCHMARK(cached_mask)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace graft::grammar
