// Structured output with the engine's other features. The model is Sprout.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"
#include "graft/engine/engine.h"
#include "graft/models/families/family.h"
#include "graft/models/open_model.h"
#include "graft/testing/device.h"
#include "graft/testing/grammar_texts.h"
#include "graft/testing/shared_data.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::engine {
namespace {

using Kind = StructuredOutput::Kind;

constexpr const char* kPerson = R"({"type": "object", "properties": {
  "name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
  "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3}},
  "required": ["name", "age", "tags"], "additionalProperties": false})";

class StructuredOutputTest : public testing::Test {
 protected:
  struct Text {
    std::vector<TokenId> tokens;
    std::string text;
    std::optional<Finish> finish;
  };
  using Texts = std::map<SequenceId, Text>;

  static void SetUpTestSuite() {
    models::OpenOptions options;
    options.num_threads = 1;  // small steps: synchronizing threads would dominate
    open_ = std::make_unique<models::OpenModel>(bundled_sprout(), options);
    tokenizer_ = std::make_unique<tokenizer::Tokenizer>(open_->source().tokenizer(),
                                                        models::pre_tokenizer_names());
  }
  static void TearDownTestSuite() {
    tokenizer_.reset();
    open_.reset();
  }

  static EngineConfig config() {
    EngineConfig config;
    config.max_num_seqs = 8;
    config.max_model_len = 256;
    config.num_kvcache_blocks = 200;
    return config;
  }
  static Request request(Kind kind, const std::string& text, double temperature = 1.0) {
    Request request;
    request.prompt = tokenizer_->encode("Once upon a time there was");
    request.params.temperature = temperature;
    request.params.seed = 7;
    request.params.max_tokens = 120;
    request.params.structured_output = StructuredOutput{.kind = kind, .text = text};
    return request;
  }
  static void collect(Engine& engine, Texts& texts) {
    for (Update& update : engine.step()) {
      Text& text = texts[update.id];
      text.tokens.insert(text.tokens.end(), update.tokens.begin(), update.tokens.end());
      text.text += update.text;
      if (update.finish) text.finish = update.finish;
    }
  }
  static Texts run(const std::vector<Request>& requests, const EngineConfig& config) {
    Engine engine(*open_, tokenizer_.get(), config);
    for (const Request& each : requests)
      engine.add(each);
    Texts texts;
    while (engine.has_work())
      collect(engine, texts);
    return texts;
  }
  static Text run_one(const Request& request) { return run({request}, config()).begin()->second; }
  static bool is_match(Kind kind, const std::string& spec, const std::string& text) {
    return grammar::testing::matches(grammar::compile({.kind = kind, .text = spec}), text);
  }

  static std::unique_ptr<models::OpenModel> open_;
  static std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

std::unique_ptr<models::OpenModel> StructuredOutputTest::open_;
std::unique_ptr<tokenizer::Tokenizer> StructuredOutputTest::tokenizer_;

TEST_F(StructuredOutputTest, OutputMatchesAndEndsWithoutEos) {
  for (const double temperature : {0.0, 1.0}) {
    const Text text = run_one(request(Kind::JsonSchema, kPerson, temperature));
    ASSERT_TRUE(text.finish);
    EXPECT_EQ(text.finish->reason, FinishReason::Stop) << text.finish->message << text.text;
    EXPECT_TRUE(is_match(Kind::JsonSchema, kPerson, text.text)) << text.text;
    const OrderedJson value = parse_ordered_json(text.text, "output");
    EXPECT_LE(value.at("age").get<int>(), 130);
    EXPECT_LE(value.at("tags").size(), 3U);
  }
}

// The masks of a step are found while the device runs its pass, and requests end at any step.
TEST_F(StructuredOutputTest, IsTheSameOnADeviceThatRunsAhead) {
  std::vector<Request> requests = {
      request(Kind::JsonSchema, kPerson), request(Kind::Choice, R"(["red", "green", "blue"])"),
      request(Kind::Regex, "[a-z ]{5,30}", 0.0), request(Kind::JsonSchema, kPerson, 0.0)};
  requests.push_back(requests.front());
  requests.back().params.structured_output.reset();
  requests.back().params.max_tokens = 30;
  models::OpenOptions options;
  options.num_threads = 1;
  options.rules =
      "- {match: {name: \".*\"}, replace: {class: default, kwargs: {device: \"cuda:0\"}}}\n";
  options.machine.num_gpus = 1;
  options.operators = ops::testing::with_test_devices;
  models::OpenModel device(bundled_sprout(), options);
  ASSERT_TRUE(device.model().can_run_ahead());
  Engine engine(device, tokenizer_.get(), config());
  for (const Request& each : requests)
    engine.add(each);
  Texts texts;
  while (engine.has_work())
    collect(engine, texts);
  const Texts want = run(requests, config());
  for (const auto& [id, text] : texts) {
    EXPECT_EQ(text.tokens, want.at(id).tokens) << id.request;
    EXPECT_EQ(text.text, want.at(id).text) << id.request;
    EXPECT_EQ(text.finish->reason, want.at(id).finish->reason) << id.request;
  }
}

TEST_F(StructuredOutputTest, KindsOfConstraints) {
  const std::vector<std::pair<Kind, std::string>> specs = {
      {Kind::Regex, "(yes|no), [A-Z][a-z]{2,5}\\."},
      {Kind::Choice, R"(["red", "green", "blue!"])"},
      {Kind::Grammar, "root ::= item (\", \" item){2} \".\"\nitem ::= [a-z]+ | [0-9]{3}\n"},
      {Kind::Regex, "[äöü😀]{3}"}};
  for (const auto& [kind, spec] : specs) {
    const Text text = run_one(request(kind, spec));
    if (text.finish->reason == FinishReason::Length) continue;  // [a-z]+ may be long
    EXPECT_EQ(text.finish->reason, FinishReason::Stop) << text.finish->message;
    EXPECT_TRUE(is_match(kind, spec, text.text)) << spec << ": " << text.text;
  }
}

// EOS is allowed where the text matches, but more could follow.
TEST_F(StructuredOutputTest, EosEndsOnlyCompleteTexts) {
  Request asked = request(Kind::Regex, "(ab)+");
  asked.params.logit_bias = {{*tokenizer_->eos(), 100.0F}};
  const Text text = run_one(asked);
  EXPECT_EQ(text.finish->reason, FinishReason::Stop);
  EXPECT_EQ(text.text, "ab");
  EXPECT_TRUE(text.finish->stop_token);
  asked.params.ignore_eos = true;
  asked.params.max_tokens = 9;
  const Text longer = run_one(asked);
  EXPECT_EQ(longer.finish->reason, FinishReason::Length);
  EXPECT_GT(longer.text.size(), 2U);
}

TEST_F(StructuredOutputTest, MinTokensAndStopsAndLogprobs) {
  Request asked = request(Kind::Regex, "[ab]{1,40}c");
  asked.params.min_tokens = 4;
  asked.params.logprobs = 2;
  const Text text = run_one(asked);
  EXPECT_TRUE(is_match(Kind::Regex, "[ab]{1,40}c", text.text)) << text.text;
  asked.params.stop = {"c"};
  asked.params.include_stop_str_in_output = true;
  EXPECT_EQ(run_one(asked).finish->reason, FinishReason::Stop);
  // A complete text ends, whatever min_tokens asks for.
  asked = request(Kind::Choice, R"(["x"])");
  asked.params.min_tokens = 30;
  asked.params.ignore_eos = true;
  EXPECT_EQ(run_one(asked).text, "x");
}

TEST_F(StructuredOutputTest, LengthCutsTheOutput) {
  Request asked = request(Kind::Regex, "[ab]{200}");
  asked.params.max_tokens = 5;
  const Text text = run_one(asked);
  EXPECT_EQ(text.finish->reason, FinishReason::Length);
  EXPECT_EQ(text.text.find_first_not_of("ab"), std::string::npos);
}

// Alone, with others, in small chunks, with preemptions and without prefix caching.
TEST_F(StructuredOutputTest, BatchingDoesNotChangeOutput) {
  std::vector<Request> requests;
  for (int i = 0; i < 3; ++i) {
    requests.push_back(request(Kind::JsonSchema, kPerson));
    requests.back().params.seed = static_cast<std::uint64_t>(i);
    requests.back().params.max_tokens = 24;
    if (i % 3 == 1) requests.back().params.structured_output.reset();
    if (i % 3 == 2) requests.back().params.n = 2;
  }
  std::vector<std::string> want;
  for (const Request& each : requests)
    for (const auto& [id, text] : run({each}, config()))
      want.push_back(text.text);
  EngineConfig small = config();
  small.max_num_batched_tokens = 16;
  small.num_kvcache_blocks = 6;
  small.enable_prefix_caching = false;
  for (const EngineConfig& each : {config(), small}) {
    std::vector<std::string> got;
    for (const auto& [id, text] : run(requests, each))
      got.push_back(text.text);
    EXPECT_EQ(got, want);
  }
}

TEST_F(StructuredOutputTest, ContinuesFromASnapshot) {
  const Request asked = request(Kind::JsonSchema, kPerson);
  const Text want = run_one(asked);
  const TempDir folder;
  for (const int num_steps : {0, 1, 9}) {
    Texts before;
    {
      Engine engine(*open_, tokenizer_.get(), config());
      const RequestId id = engine.add(asked);
      for (int i = 0; i < num_steps; ++i)
        collect(engine, before);
      engine.save({.request = id, .sample = 0}, folder / "saved");
    }
    Engine engine(*open_, tokenizer_.get(), config());
    engine.restore(folder / "saved");
    Texts after;
    while (engine.has_work())
      collect(engine, after);
    const std::string head = before.empty() ? "" : before.begin()->second.text;
    EXPECT_EQ(head + after.begin()->second.text, want.text) << "after " << num_steps << " steps";
  }
}

// Nothing is constrained before the trigger.
TEST_F(StructuredOutputTest, BeginsAfterATrigger) {
  Request asked = request(Kind::Choice, R"(["42"])");
  asked.params.structured_output->triggers = {"never in a story", " the"};
  const Text text = run_one(asked);
  ASSERT_EQ(text.finish->reason, FinishReason::Stop) << text.text;
  const std::size_t at = text.text.find(" the");
  ASSERT_NE(at, std::string::npos) << text.text;
  EXPECT_TRUE(text.text.ends_with("42")) << text.text;
}

TEST_F(StructuredOutputTest, RefusesInvalidConstraints) {
  Engine engine(*open_, tokenizer_.get(), config());
  const auto error = [&](const Request& asked) -> std::string {
    try {
      engine.check(asked);
    } catch (const Error& thrown) {
      return thrown.what();
    }
    return "";
  };
  EXPECT_EQ(error(request(Kind::JsonSchema, R"({"frob": 1})")),
            "structured output: #/frob: this keyword is not supported");
  EXPECT_EQ(error(request(Kind::Regex, "(")), "structured output: regex: at 0: unmatched (");
  EXPECT_EQ(error(request(Kind::Choice, "[]")),
            "structured output: choice: expected a list of texts");
  const Engine without(*open_, nullptr, config());
  EXPECT_THROW(without.check(request(Kind::Regex, "a")), Error);
}

// The special token itself, never its name as text, which the vocabulary could spell too.
TEST_F(StructuredOutputTest, WritesSpecialTokens) {
  Request special = request(Kind::Grammar, "root ::= \"a\" %special \"<|im_start|>\" \"b\"\n");
  special.params.skip_special_tokens = false;
  const Texts texts = run({special}, config());
  const Text& text = texts.begin()->second;
  EXPECT_EQ(text.text, "a<|im_start|>b");
  const TokenId id = tokenizer_->find("<|im_start|>").value();
  EXPECT_EQ(text.tokens[1], id);
  Request spelled = request(Kind::Grammar, "root ::= \"<|im_start|>\"\n");
  spelled.params.skip_special_tokens = false;
  const Texts plain = run({spelled}, config());
  EXPECT_EQ(plain.begin()->second.text, "<|im_start|>");
  EXPECT_EQ(std::ranges::count(plain.begin()->second.tokens, id), 0);
}

}  // namespace
}  // namespace graft::engine
