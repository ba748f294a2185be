#include "graft/grammar/json_schema/json_schema.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/grammar_texts.h"

namespace graft::grammar {
namespace {

using testing::compile_error;
using testing::matches;

struct SchemaCase {
  std::string schema;
  std::vector<std::string> accepted;
  std::vector<std::string> rejected;
};

void check(const std::vector<SchemaCase>& cases) {
  for (const SchemaCase& each : cases) {
    const Automaton automaton =
        compile({.kind = StructuredOutput::Kind::JsonSchema, .text = each.schema});
    for (const std::string& text : each.accepted)
      EXPECT_TRUE(matches(automaton, text)) << each.schema << " must allow " << text;
    for (const std::string& text : each.rejected)
      EXPECT_FALSE(matches(automaton, text)) << each.schema << " must not allow " << text;
  }
}

std::string schema_error(const std::string& schema) {
  return compile_error(StructuredOutput::Kind::JsonSchema, schema);
}

TEST(JsonSchema, AllowsTypes) {
  check({
      {"{}",
       {"null", "true", "-1.5e3", "\"a\\u00e9\\ud83d\\ude00\"", "[]", "[1, {\"a\":[]}]", "{}"},
       {"", "nul", "01", "+1", "1.", "\"\n\"", "\"\\ud83d\"", "[1,]", "{a:1}", " 1", "[1 , 2]"}},
      {R"({"type": "object"})", {"{}", "{\"a\": 1, \"b\": [{}]}", "{\n  \"a\": 1\n}"}, {"[]", "1"}},
      {R"({"type": ["string", "null"]})", {"\"x\"", "null"}, {"1", "true"}},
      {R"({"type": "integer"})", {"0", "-12", "345"}, {"1.5", "1e3", "007", "-"}},
      {R"({"type": "boolean"})", {"true", "false"}, {"null"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {"\"ab\"", "\"a\\n\\u0041\"", "\"é😀\""},
       {"\"a\"", "\"abcd\""}},
      {R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
       {"[1]", "[1, 2,3]", "[\n1\n]"},
       {"[]", "[1,2,3,4]", "[\"a\"]"}},
      {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false})",
       {"[]", "[1]", "[1,\"a\"]"},
       {"[\"a\"]", "[1,\"a\",2]"}},
  });
}

TEST(JsonSchema, BoundsBlanks) {
  const std::string indent(32, ' ');
  check({{R"({"type": "array"})",
          {"[ 1, 2 ]", "[\n" + indent + "1\n]"},
          {"[  1]", "[\n\n1]", "[\n" + indent + " 1]", "[1 ]x"}}});
}

TEST(JsonSchema, OrdersProperties) {
  check({
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"},
           "c": {"type": "null"}}, "required": ["b"], "additionalProperties": false})",
       {"{\"b\":\"\"}", "{\"a\": 1, \"b\": \"x\"}", "{\"b\":\"\",\"c\":null}"},
       {"{}", "{\"a\":1}", "{\"b\":\"\",\"a\":1}", "{\"b\":\"\",\"d\":1}", "{,\"b\":\"\"}"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}},
           "additionalProperties": {"type": "string"}})",
       {"{}", "{\"a\":1,\"b\":\"x\",\"aa\":\"y\"}", "{\"b\":\"x\"}"},
       {"{\"a\":\"x\"}", "{\"b\":1}", "{\"b\":\"x\",\"a\":1}"}},
      {R"({"type": "object", "patternProperties": {"^n": {"type": "integer"}, "s$": {"minimum": 5}},
           "additionalProperties": false})",
       {"{}", "{\"n\":1}", "{\"ns\":7,\"s\":9}", "{\"s\":\"text\"}"},
       {"{\"n\":\"x\"}", "{\"ns\":1}", "{\"x\":1}"}},
      {R"({"type": "object", "required": ["a\"b"], "maxProperties": 2})",
       {"{\"a\\\"b\":1}", "{\"a\\\"b\":1,\"c\":2}"},
       {"{}", "{\"a\\\"b\":1,\"c\":2,\"d\":3}"}},
      {R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "minProperties": 2,
           "additionalProperties": false})",
       {"{\"a\":1,\"c\":2}", "{\"a\":1,\"b\":1,\"c\":1}"},
       {"{}", "{\"b\":1}"}},
      {R"({"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}})",
       {"{}", "{\"abc\":1}"},
       {"{\"A\":1}"}},
      {R"({"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]},
           "additionalProperties": false})",
       {"{}", "{\"b\":1}", "{\"a\":1,\"b\":1}"},
       {"{\"a\":1}"}},
  });
}

TEST(JsonSchema, BoundsNumbers) {
  check({
      {R"({"type": "integer", "minimum": -3, "maximum": 120})",
       {"-3", "-1", "0", "9", "10", "99", "100", "119", "120"},
       {"-4", "-10", "121", "130", "200", "1000", "1.5", "-0"}},
      {R"({"type": "number", "minimum": 0.25, "exclusiveMaximum": 1.5})",
       {"0.25", "0.3", "1", "1.49", "0.251"},
       {"0.2", "0.249", "1.5", "1.51", "2", "-1", "0.30"}},
      {R"({"type": "number", "exclusiveMinimum": -2})", {"-1.999", "0", "5"}, {"-2", "-2.1", "-3"}},
      {R"({"type": "integer", "multipleOf": 7})", {"0", "7", "-14", "700"}, {"1", "-13", "701"}},
      {R"({"type": "number", "multipleOf": 0.05})",
       {"0", "0.05", "1.1", "-3.25", "4"},
       {"0.01", "0.051", "1.12"}},
      {R"({"type": "integer", "minimum": 10, "multipleOf": 3, "maximum": 20})",
       {"12", "15", "18"},
       {"9", "10", "21"}},
      {R"({"enum": [1, 2.5, "x", null, [1, "a"], {"k": true}]})",
       {"1", "2.5", "\"x\"", "null", "[1, \"a\"]", "{\"k\":true}"},
       {"2", "\"y\"", "[1]", "[1,\"a\",2]", "{}", "{\"k\":false}", "true"}},
  });
}

TEST(JsonSchema, CombinesSchemas) {
  check({
      {R"({"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"},
           "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"],
           "additionalProperties": false}}, "$ref": "#/$defs/node"})",
       {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"},
       {"{\"v\":1}", "{\"v\":1,\"next\":{}}"}},
      {R"({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}]})", {"3", "5"}, {"2", "6"}},
      {R"({"allOf": [{"properties": {"a": {"minimum": 2}}, "required": ["a"]},
           {"properties": {"a": {"type": "integer"}, "b": {"type": "null"}}}], "type": "object"})",
       {"{\"a\":2}", "{\"a\":3,\"b\":null}", "{\"a\":2,\"c\":0}"},
       {"{\"a\":1}", "{}", "{\"a\":2.5}"}},
      {R"({"oneOf": [{"type": "integer", "multipleOf": 2}, {"type": "integer", "multipleOf": 3}]})",
       {"2", "3", "4", "9"},
       {"6", "0", "12", "5"}},
      {R"({"oneOf": [{"properties": {"t": {"const": "a"}, "x": {"type": "integer"}}, "required": ["t"]},
           {"properties": {"t": {"const": "b"}}, "required": ["t"]}], "type": "object"})",
       {"{\"t\":\"a\",\"x\":1}", "{\"t\":\"b\",\"x\":\"free\"}"},
       {"{\"t\":\"a\",\"x\":\"s\"}", "{\"t\":\"c\"}", "{}"}},
      {R"({"type": ["integer", "string"], "not": {"enum": [1, "a"]}})",
       {"2", "10", "\"b\"", "\"aa\""},
       {"1", "\"a\"", "true"}},
      {R"({"if": {"type": "integer"}, "then": {"minimum": 10}, "else": {"type": "string"}})",
       {"10", "\"a\""},
       {"9", "1.5", "null"}},
      {R"({"type": "array", "contains": {"const": 7}})", {"[7]", "[1,7,\"a\"]"}, {"[]", "[1,2]"}},
  });
}

TEST(JsonSchema, RestrictsStrings) {
  check({
      {R"({"type": "string", "pattern": "^[a-z]+-\\d{2}$"})",
       {"\"ab-12\""},
       {"\"AB-12\"", "\"ab-123\""}},
      {R"({"type": "string", "pattern": "\"\\\\\n"})", {"\"x\\\"\\\\\\n\""}, {"\"x\""}},
      {R"({"type": "string", "pattern": "^a*$", "minLength": 2, "maxLength": 3})",
       {"\"aa\"", "\"aaa\""},
       {"\"a\"", "\"aaaa\"", "\"ab\""}},
  });
}

TEST(JsonSchema, ChecksFormats) {
  check({
      {R"({"type": "string", "format": "date"})",
       {"\"2024-02-29\"", "\"2000-02-29\"", "\"1999-12-31\""},
       {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-13-01\"", "\"2024-4-1\""}},
      {R"({"type": "string", "format": "date-time"})",
       {"\"2024-02-29T12:00:00Z\"", "\"2024-01-01T23:59:59.123+02:00\""},
       {"\"2024-02-29 12:00:00Z\"", "\"2024-02-29T24:00:00Z\"", "\"2024-02-29T12:00:00\""}},
      // Leap seconds end June and December in UTC.
      {R"({"type": "string", "format": "date-time"})",
       {"\"2016-12-31T23:59:60Z\"", "\"2016-12-31T15:59:60.5-08:00\"",
        "\"2017-01-01T05:44:60+05:45\"", "\"2015-06-30T23:59:60+00:00\""},
       {"\"2016-12-30T23:59:60Z\"", "\"2016-12-31T22:59:60Z\"", "\"2016-12-31T15:59:60-07:00\"",
        "\"2017-01-01T15:59:60-08:00\"", "\"2016-12-31T05:44:60+05:45\""}},
      {R"({"type": "string", "format": "time"})",
       {"\"23:59:60z\"", "\"01:29:60+01:30\"", "\"00:29:60-23:30\"", "\"12:00:00+23:59\""},
       {"\"23:59:60+00:15\"", "\"22:59:60Z\"", "\"23:59:61Z\"", "\"01:29:60-01:30\""}},
      {R"({"type": "string", "format": "uuid"})",
       {"\"2EB8AA08-aa98-11ea-b4aa-73b441d16380\""},
       {"\"2eb8aa08-aa98-11ea-b4aa-73b441d1638\""}},
      {R"({"type": "string", "format": "ipv4"})",
       {"\"192.168.0.255\""},
       {"\"256.0.0.1\"", "\"01.2.3.4\""}},
      {R"({"type": "string", "format": "ipv6"})",
       {"\"::1\"", "\"::\"", "\"fe80::1:2\"", "\"1:2:3:4:5:6:7:8\"", "\"::ffff:192.168.0.1\"",
        "\"1::8\"", "\"1:2:3:4:5:6:7::\""},
       {"\"1:2:3\"", "\"1::2::3\"", "\"12345::\"", "\"1:2:3:4:5:6:7:8:9\""}},
      {R"({"type": "string", "format": "email"})",
       {"\"joe.bloggs@example.com\"", "\"a.b.c.d.e@mail.example.co.uk\"",
        R"("\"joe bloggs\"@example.com")", R"("\"a@b\\\"\"@example.com")", "\"a@[127.0.0.1]\"",
        "\"a@[IPv6:::1]\"", "\"" + std::string(62, 'a') + "@example.com\""},
       {"\"joe\"", "\"a@\"", R"("\"a\"b\"@example.com")", "\"a@[127.0.0.300]\"",
        "\"a@[IPv6:1:2:3:4:5:6:7::]\"", "\"a b@example.com\"",
        "\"" + std::string(65, 'a') + "@example.com\""}},
      {R"({"type": "string", "format": "hostname"})",
       {"\"a.b.c.example.co.uk\"", "\"" + std::string(63, 'a') + ".example.com\""},
       {"\"a..b\"", "\"" + std::string(64, 'a') + "\"", "\"xn--x\"", "\"-a\""}},
      {R"({"type": "string", "format": "uri"})",
       {"\"https://example.com/a?b=c#d\"", "\"urn:isbn:1\"", "\"ftp://[::1]:21/\""},
       {"\"//example.com\"", "\"no scheme\"", "\"http://a b\""}},
      {R"({"type": "string", "format": "uri-reference"})",
       {"\"//example.com/a\"", "\"a/b:c\"", "\"\"", "\"?a#b\"", "\"http://[v1.a:b]/\""},
       {"\"a b\"", "\"1:a\"", "\"\\\\a\""}},
      {R"({"type": "string", "format": "iri"})",
       {"\"http://\u00fcber.example/\u00e9?\ue000\""},
       {"\"/\u00e9\"", "\"http://\ue000\""}},
      {R"({"type": "string", "format": "iri-reference"})", {"\"/\u00e9\""}, {"\"/ \""}},
  });
}

// Each has thousands of states.
TEST(JsonSchema, ManyPropertiesMayHaveFormats) {
  std::string properties;
  std::string text = "{";
  for (int i = 0; i < 300; ++i) {
    const std::string name = "\"p" + std::to_string(i) + "\"";
    properties += (i == 0 ? "" : ", ") + name + R"(: {"type": "string", "format": "date-time"})";
    text += (i == 0 ? "" : ",") + name + R"(:"2016-12-31T15:59:60-08:00")";
  }
  check({{R"({"type": "object", "properties": {)" + properties + "}}", {text + "}"}, {}}});
}

// As zod writes them for e-mail addresses, and programs for passwords.
TEST(JsonSchema, PatternsMayBeginWithAssertions) {
  check({
      {R"s({"type": "string", "pattern": "^(?!\\.)(?!.*\\.\\.)([a-z.]*)[a-z]@([a-z]+\\.)+[a-z]{2,}$"})s",
       {"\"a.b@example.com\""},
       {"\".a@example.com\"", "\"a..b@example.com\"", "\"a@example\""}},
      {R"s({"type": "string", "pattern": "^(?=.*[A-Z)])(?=.*\\d).{4,6}$"})s",
       {"\"abC1\"", "\"1)aaaa\""},
       {"\"abcd\"", "\"ABCD\"", "\"A1\""}},
      {R"s({"type": "string", "pattern": "^(?!(a|b)$)[ab]+$"})s", {"\"ab\""}, {"\"a\"", "\"b\""}},
      {R"s({"type": "string", "pattern": "^(?!a)"})s", {"\"\"", "\"ba\""}, {"\"ab\""}},
  });
  EXPECT_EQ(schema_error(R"s({"pattern": "^(?!a)b|c"})s"),
            "#/pattern: at 1: lookaround is not supported");
  EXPECT_EQ(schema_error(R"s({"pattern": "^b(?!a)"})s"),
            "#/pattern: at 2: lookaround is not supported");
  EXPECT_EQ(schema_error(R"s({"pattern": "^(?!a"})s"),
            "#/pattern: at 1: lookaround is not supported");
  EXPECT_EQ(schema_error(R"s({"pattern": "^(?!a(?=b))"})s"),
            "#/pattern: a part of ^(?!a(?=b)): at 5: lookaround is not supported");
}

TEST(JsonSchema, FormatsOfZodArePatterns) {
  check({{R"({"type": "string", "format": "starts_with", "pattern": "^ab.*"})",
          {"\"abc\""},
          {"\"ba\""}}});
  EXPECT_EQ(schema_error(R"({"format": "starts_with"})"),
            "#/format: the format starts_with is not supported");
  EXPECT_EQ(schema_error(R"({"format": "color", "pattern": "a"})"),
            "#/format: the format color is not supported");
}

TEST(JsonSchema, ContentIsCheckedInDraft7) {
  const std::string draft7 = R"({"$schema": "http://json-schema.org/draft-07/schema#", )";
  check({
      {draft7 + R"("type": "string", "contentEncoding": "base64"})",
       {"\"\"", "\"YWI=\"", "\"YWJj\""},
       {"\"YWI\"", "\"Y%I=\""}},
      {R"({"type": "string", "contentEncoding": "base64", "contentMediaType": "a/b",
           "contentSchema": {"type": "object"}})",
       {"\"%\""},
       {}},
      {R"({"type": "string", "format": "base64"})", {"\"YWI=\""}, {"\"YWI\""}},
  });
  EXPECT_EQ(schema_error(draft7 + R"("contentMediaType": "application/json"})"),
            "#/contentMediaType: it is not supported in draft 7");
  EXPECT_EQ(schema_error(draft7 + R"("contentEncoding": "base32"})"),
            "#/contentEncoding: it is not supported in draft 7, only base64");
}

TEST(JsonSchema, RefusesByKeywordAndPath) {
  EXPECT_EQ(schema_error(R"({"properties": {"a": {"frobnicate": 1}}})"),
            "#/properties/a/frobnicate: this keyword is not supported");
  EXPECT_EQ(schema_error(R"({"items": {"format": "color"}})"),
            "#/items/format: the format color is not supported");
  EXPECT_EQ(schema_error(R"({"type": "array", "uniqueItems": true})"),
            "#/uniqueItems: it is supported only with maxItems up to 1");
  EXPECT_EQ(schema_error(R"s({"pattern": "(?=a)"})s"),
            "#/pattern: at 0: lookaround is not supported");
  EXPECT_EQ(schema_error(R"({"$ref": "#/$defs/x"})"), "#/$ref: #/$defs/x was not found");
  EXPECT_EQ(schema_error(R"({"$ref": "http://a/b"})"),
            "#/$ref: only references inside the schema (#...) are supported, not http://a/b");
  EXPECT_EQ(schema_error(R"({"$ref": "#"})"), "#: $ref refers to itself");
  EXPECT_EQ(schema_error(R"({"type": "text"})"), "#/type: unknown type text");
  EXPECT_EQ(schema_error(R"({"type": "string", "enum": [1]})"), "schema: no text matches");
  std::string items = "{}";
  for (int i = 0; i < 5000; ++i)
    items += ",{}";
  EXPECT_EQ(schema_error(R"({"prefixItems": [)" + items + "]}"),
            "#/prefixItems: it has more than 1000 items");
  EXPECT_EQ(schema_error("false"), "schema: no text matches");
  EXPECT_EQ(schema_error("[]"), "#: a schema must be an object or a boolean");
  EXPECT_NE(schema_error("{"), "");
  EXPECT_EQ(schema_error(R"({"title": "t", "description": "d", "default": 1, "x-own": 2})"), "");
}

}  // namespace
}  // namespace graft::grammar
