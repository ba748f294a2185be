#include "graft/cli/bench/bench_structured.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graft/api/llm.h"
#include "graft/base/error.h"
#include "graft/cli/bench/bench_workload.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/text_file.h"

namespace graft::cli {
namespace {

struct BenchStructuredOptions {
  ModelOptions model;
  std::string schema_file;
  std::int64_t batch_size = 16;
  std::int64_t input_len = 128;
  std::int64_t output_len = 128;
  std::int64_t rounds = 5;
  double temperature = 0;
  bool json = false;
};

// Objects with values of every kind, in a list that is longer than the output, so that no sequence
// ends before the others.
constexpr const char* kSchema = R"json({
  "type": "array", "minItems": 200,
  "items": {
    "type": "object",
    "properties": {
      "name": {"type": "string", "maxLength": 24},
      "kind": {"enum": ["animal", "plant", "stone"]},
      "size": {"type": "number"},
      "count": {"type": "integer", "minimum": 0, "maximum": 999},
      "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3},
      "found": {"type": "string", "format": "date"},
      "alive": {"type": "boolean"}
    },
    "required": ["name", "kind", "size", "count", "tags", "found", "alive"],
    "additionalProperties": false
  }
})json";

// Everything a model may write: tokens are chosen as without it, and what it costs are the masks.
constexpr const char* kAnyText = "[\\s\\S]*";

// The decode steps of one batch.
struct Decode {
  double seconds = 0;
  std::vector<std::vector<api::TokenId>> tokens;  // by sequence

  std::int64_t num_tokens() const {
    std::int64_t count = 0;
    for (const auto& each : tokens)
      count += std::ssize(each) - 1;  // the first belongs to the prompt
    return count;
  }
  double tokens_per_second() const { return static_cast<double>(num_tokens()) / seconds; }
  double step_ms() const {
    return 1e3 * seconds * static_cast<double>(tokens.size()) / static_cast<double>(num_tokens());
  }
};

Decode decode(api::LLM& llm,
              const std::vector<api::Prompt>& prompts,
              const api::SamplingParams& params) {
  const auto start = std::chrono::steady_clock::now();
  const auto outputs = llm.generate(prompts, params);
  Decode result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  double last_start = 0;  // of decoding: the first token of the slowest prompt
  for (const auto& output : outputs) {
    const auto& sample = output.samples[0];
    last_start = std::max(last_start, sample.timings.first_token_seconds);
    result.tokens.push_back(sample.tokens);
  }
  result.seconds -= last_start;
  return result;
}

// Of the tokens of `a`, in percent, those that are the same in `b`.
double equal_percent(const Decode& a, const Decode& b) {
  std::int64_t num_equal = 0;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.tokens.size(); ++i) {
    for (std::size_t k = 0; k < a.tokens[i].size(); ++k, ++count)
      num_equal += k < b.tokens[i].size() && a.tokens[i][k] == b.tokens[i][k] ? 1 : 0;
  }
  return 100 * static_cast<double>(num_equal) / static_cast<double>(count);
}

const Decode& median(std::vector<Decode>& rounds) {
  std::ranges::sort(rounds, {}, &Decode::step_ms);
  return rounds[rounds.size() / 2];
}

// The same batch without masks, with masks that allow everything, and with those of a schema.
struct Comparison {
  Decode first_use;  // of the schema
  std::vector<Decode> plain;
  std::vector<Decode> any_text;
  std::vector<Decode> schema;
};

Comparison compare(api::LLM& llm, const BenchStructuredOptions& options) {
  Workload workload(llm);
  std::vector<api::Prompt> prompts;
  for (std::int64_t i = 0; i < options.batch_size; ++i)
    prompts.emplace_back(workload.tokens(options.input_len));
  api::SamplingParams plain = generate_exactly(options.output_len, options.temperature);
  plain.min_tokens = options.output_len;  // structured output allows no token that ends it
  const auto with = [&](StructuredOutput::Kind kind, const std::string& text) {
    api::SamplingParams params = plain;
    params.structured_output = StructuredOutput{.kind = kind, .text = text};
    return params;
  };
  const api::SamplingParams any_text = with(StructuredOutput::Kind::Regex, kAnyText);
  const api::SamplingParams schema =
      with(StructuredOutput::Kind::JsonSchema,
           options.schema_file.empty() ? kSchema : read_text_file(options.schema_file));
  decode(llm, prompts, plain);  // warm-up; the prompts are in the prefix cache from here on
  decode(llm, prompts, any_text);
  Comparison result;
  result.first_use = decode(llm, prompts, schema);
  const std::int64_t num_tokens = options.batch_size * (options.output_len - 1);
  if (result.first_use.num_tokens() < num_tokens) {
    fail("bench structured: the schema allowed ", result.first_use.num_tokens(), " of ", num_tokens,
         " tokens; it must allow longer outputs");
  }
  // Alternating, so that other work on the machine slows down all alike.
  for (std::int64_t i = 0; i < options.rounds; ++i) {
    result.plain.push_back(decode(llm, prompts, plain));
    result.any_text.push_back(decode(llm, prompts, any_text));
    result.schema.push_back(decode(llm, prompts, schema));
  }
  return result;
}

void print_row(const char* name, const Decode& decode, const Decode& plain) {
  fmt::print("  {:<34} {:>9.1f} tok/s {:>9.3f} ms/step", name, decode.tokens_per_second(),
             decode.step_ms());
  if (&decode != &plain) fmt::print("  {:+.1f} %", 100 * (decode.step_ms() / plain.step_ms() - 1));
  fmt::print("\n");
}

void bench_structured(const BenchStructuredOptions& options) {
  api::LlmConfig config = options.model.config();
  config.engine.max_num_seqs = options.batch_size;
  config.engine.max_model_len = options.input_len + options.output_len + 1;
  const auto llm = options.model.open(config);
  Comparison runs = compare(*llm, options);
  const Decode& plain = median(runs.plain);
  const Decode& any_text = median(runs.any_text);
  const Decode& schema = median(runs.schema);
  const double equal = equal_percent(plain, any_text);
  if (options.json) {
    const auto added = [&](const Decode& decode) { return decode.step_ms() / plain.step_ms() - 1; };
    fmt::print(
        "{{\"batch\": {}, \"step_ms\": {:.4f}, \"any_text_step_ms\": {:.4f}, "
        "\"schema_first_step_ms\": {:.4f}, \"schema_step_ms\": {:.4f}, "
        "\"any_text_added_time\": {:.4f}, \"schema_added_time\": {:.4f}, "
        "\"any_text_equal_percent\": {:.1f}}}\n",
        options.batch_size, plain.step_ms(), any_text.step_ms(), runs.first_use.step_ms(),
        schema.step_ms(), added(any_text), added(schema), equal);
    return;
  }
  fmt::print("{} sequences, {} tokens each, decode, median of {} rounds\n", options.batch_size,
             options.output_len, options.rounds);
  print_row("without masks", plain, plain);
  print_row("masks that allow any text", any_text, plain);
  print_row("schema, first use", runs.first_use, plain);
  print_row("schema, masks cached", schema, plain);
  fmt::print("  {:.1f} % of the tokens with any text are those without masks\n", equal);
}

}  // namespace

void add_structured_bench(Command& bench) {
  auto options = std::make_shared<BenchStructuredOptions>();
  const auto count = Range(std::int64_t{1}, std::int64_t{1} << 24);
  Command* command =
      bench.add_subcommand("structured", "Measure what structured output adds to decode time");
  options->model.add_to(*command);
  command->add_option("--json-schema", options->schema_file,
                      "JSON Schema file (default: a list of objects)");
  command->add_option("-b,--batch-size", options->batch_size, "Sequences (default: 16)")
      ->check(count);
  command->add_option("--input-len", options->input_len, "Prompt tokens (default: 128)")
      ->check(count);
  command->add_option("--output-len", options->output_len, "Output tokens (default: 128)")
      ->check(Range(std::int64_t{2}, std::int64_t{1} << 24));
  command->add_option("-r,--rounds", options->rounds, "Repetitions (default: 5)")
      ->check(Range(1, 1000));
  command
      ->add_option("--temperature", options->temperature,
                   "0 (default): the most likely tokens. Above, masks that allow few tokens make "
                   "sampling faster")
      ->check(Range(0.0, 2.0));
  command->add_flag("--json", options->json, "Print the results as JSON");
  command->callback([options] { bench_structured(*options); });
}

}  // namespace graft::cli
