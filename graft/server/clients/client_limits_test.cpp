#include "graft/server/clients/client_limits.h"

#include <string>

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::server {
namespace {

// printf abc | sha256sum
const std::string kAbcDigest =
    "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

ApiKeys three_keys() {
  ApiKeys keys;
  keys.add_lines("abc\ndef name=alice\nghi", "keys");
  return keys;
}

LimitTable parse_limits(const std::string& text) {
  return LimitTable::parse(text, "limits.yaml", {.concurrent_answers = 100}, three_keys());
}

std::string limits_error(const std::string& text) {
  try {
    parse_limits(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(LimitTable, KeysOverrideTheDefaultAndTheDefaultOverridesFlags) {
  const LimitTable table = parse_limits(
      "default: {requests_per_minute: 60, tokens_per_minute: 1000}\n"
      "keys:\n"
      "  alice: {requests_per_minute: unlimited, queued_tokens: 5}\n"
      "  " +
      kAbcDigest + ":\n    concurrent_answers: 3\n");
  const ClientLimits& alice = table.of(salt_of_text("def"));
  EXPECT_FALSE(alice.requests_per_minute.has_value());
  EXPECT_EQ(alice.tokens_per_minute, 1000);
  EXPECT_EQ(alice.concurrent_answers, 100);
  EXPECT_EQ(alice.queued_tokens, 5);
  const ClientLimits& hashed = table.of(salt_of_text("abc"));
  EXPECT_EQ(hashed.requests_per_minute, 60);
  EXPECT_EQ(hashed.concurrent_answers, 3);
  const ClientLimits& other = table.of(salt_of_text("ghi"));
  EXPECT_EQ(other.requests_per_minute, 60);
  EXPECT_EQ(other.concurrent_answers, 100);
  EXPECT_EQ(other.queued_tokens, ClientLimits().queued_tokens);
}

TEST(LimitTable, ErrorsNameTheLine) {
  EXPECT_EQ(limits_error("default: {}\n"), "no error");
  EXPECT_EQ(limits_error("keys:\ndefault:\n"), "no error");
  EXPECT_EQ(limits_error(""), "limits.yaml:1: expected 'default:' or 'keys:' with limits");
  EXPECT_EQ(limits_error("default:\n  rpm: 3\n"),
            "limits.yaml:2: unknown limit 'rpm'; expected one of requests_per_minute, "
            "tokens_per_minute, concurrent_answers, queued_tokens");
  EXPECT_EQ(limits_error("default:\n  queued_tokens: 0\n"),
            "limits.yaml:2: queued_tokens: expected 1 to 1000000000000 or unlimited, got '0'");
  EXPECT_EQ(limits_error("default: 3\n"),
            "limits.yaml:1: expected limits like \"requests_per_minute: 60\"");
  EXPECT_EQ(limits_error("limits: {}\n"),
            "limits.yaml:1: unknown key 'limits'; expected 'default' or 'keys'");
  EXPECT_EQ(limits_error("keys:\n\n  bob: {}\n"),
            "limits.yaml:3: no API key is named 'bob'; add name=NAME after the key in the file of "
            "--api-key-file");
  EXPECT_EQ(limits_error("keys: {sha256:12: {}}\n"),
            "limits.yaml:1: a SHA-256 digest has 64 hexadecimal digits, got 2");
  EXPECT_EQ(limits_error("keys:\n  alice: {}\n  alice: {}\n"),
            "limits.yaml:3: this key already has limits above");
  EXPECT_EQ(limits_error("keys: {'': {}}\n").substr(0, 37),
            "limits.yaml:1: no API key is named ''");
  EXPECT_NE(limits_error("default: [\n"), "no error");
}

}  // namespace
}  // namespace graft::server
