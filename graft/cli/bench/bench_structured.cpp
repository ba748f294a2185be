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

// The decode steps of one batch.
struct Decode {
  double seconds = 0;
  std::int64_t num_tokens = 0;

  double tokens_per_second() const { return static_cast<double>(num_tokens) / seconds; }
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
    result.num_tokens += std::ssize(sample.tokens) - 1;
  }
  result.seconds -= last_start;
  return result;
}

double median_speed(std::vector<Decode> rounds) {
  std::ranges::sort(rounds, {}, &Decode::tokens_per_second);
  return rounds[rounds.size() / 2].tokens_per_second();
}

void bench_structured(const BenchStructuredOptions& options) {
  const std::string schema =
      options.schema_file.empty() ? kSchema : read_text_file(options.schema_file);
  api::LlmConfig config = options.model.config();
  config.engine.max_num_seqs = options.batch_size;
  config.engine.max_model_len = options.input_len + options.output_len + 1;
  const auto llm = options.model.open(config);
  Workload workload(*llm);
  std::vector<api::Prompt> prompts;
  for (std::int64_t i = 0; i < options.batch_size; ++i)
    prompts.emplace_back(workload.tokens(options.input_len));
  api::SamplingParams plain = generate_exactly(options.output_len, 0.6);
  api::SamplingParams structured = plain;
  structured.structured_output =
      StructuredOutput{.kind = StructuredOutput::Kind::JsonSchema, .text = schema};
  decode(*llm, prompts, plain);  // warm-up; the prompts are in the prefix cache from here on
  const Decode first = decode(*llm, prompts, structured);
  const std::int64_t num_tokens = options.batch_size * (options.output_len - 1);
  if (first.num_tokens < num_tokens) {
    fail("bench structured: the schema allowed ", first.num_tokens, " of ", num_tokens,
         " tokens; it must allow longer outputs");
  }
  // Alternating, so that other work on the machine slows down both alike.
  std::vector<Decode> without;
  std::vector<Decode> with;
  for (std::int64_t i = 0; i < options.rounds; ++i) {
    without.push_back(decode(*llm, prompts, plain));
    with.push_back(decode(*llm, prompts, structured));
  }
  const double plain_speed = median_speed(without);
  const double structured_speed = median_speed(with);
  const double share = plain_speed / structured_speed - 1;
  if (options.json) {
    fmt::print(
        "{{\"batch\": {}, \"decode_tokens_per_s\": {:.2f}, \"structured_tokens_per_s\": {:.2f}, "
        "\"structured_first_tokens_per_s\": {:.2f}, \"added_time\": {:.4f}}}\n",
        options.batch_size, plain_speed, structured_speed, first.tokens_per_second(), share);
    return;
  }
  fmt::print("{} sequences, decode tok/s, median of {} rounds\n", options.batch_size,
             options.rounds);
  fmt::print("  {:<32} {:>9.1f}\n", "without a schema", plain_speed);
  fmt::print("  {:<32} {:>9.1f}\n", "with a schema, first use", first.tokens_per_second());
  fmt::print("  {:<32} {:>9.1f}  {:+.1f} % time\n", "with a schema, masks cached", structured_speed,
             100 * share);
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
  command->add_flag("--json", options->json, "Print the results as JSON");
  command->callback([options] { bench_structured(*options); });
}

}  // namespace graft::cli
