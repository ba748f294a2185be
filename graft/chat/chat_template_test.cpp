#include "graft/chat/chat_template.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::chat {
namespace {

std::string render(const std::string& source, const RenderLimits& limits = {}) {
  RenderInput input;
  input.messages = parse_ordered_json(R"([{"role": "user", "content": "Hi"}])", "messages");
  input.extra = parse_ordered_json(R"({"n": 3, "list": [1, 2, 3], "s": "text"})", "extra");
  return ChatTemplate(source, "t").render(input, limits);
}

std::string error_of(const std::string& source, const RenderLimits& limits = {}) {
  try {
    return "no error: " + render(source, limits);
  } catch (const Error& error) {
    return error.what();
  }
}

void expect_error(const std::string& source, const std::string& part) {
  const std::string error = error_of(source);
  EXPECT_NE(error.find(part), std::string::npos) << source << "\n" << error;
}

TEST(ChatTemplate, DefinesTheVariablesOfTransformers) {
  RenderInput input;
  input.messages = parse_ordered_json(R"([{"role": "user", "content": "Hi"}])", "messages");
  const ChatTemplate probe(
      "{{ messages|length }} {{ tools }} {{ documents }} {{ add_generation_prompt }} "
      "{{ bos_token is defined }} {{ eos_token }} {{ x }}",
      "t");
  EXPECT_EQ(probe.render(input), "1 None None True False  ");
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.extra = {{"x", 1.0}, {"tools", "mine"}};
  EXPECT_EQ(probe.render(input), "1 mine None True True </s> 1.0");
}

TEST(ChatTemplate, ErrorsIncludeTheLine) {
  expect_error("a\nb {{ 1 +\n }}", "t:3: unexpected '}}'");
  expect_error("a\n\n{% if x %}", "t:3: the template ends without {% endif %}");
  expect_error("a\n{{ 'x }}", "t:2: unexpected char");
  expect_error("\n{% frob %}", "t:2: Encountered unknown tag 'frob'.");
  expect_error("{{ n }}\n{{ n|frob }}", "t:2: No filter named 'frob'.");
  expect_error("{{ n }}\n\n{{ missing.x }}", "t:3: 'missing' is undefined");
  expect_error("\n{{ messages[0].x.y }}", "t:2: 'dict object' has no attribute 'x'");
  expect_error("\n{{ raise_exception('roles\nmust alternate') }}", "t:2: roles must alternate");
  expect_error("\n{{ n + 's' }}", "t:2: unsupported operand type(s) for +: 'int' and 'str'");
  expect_error("\n{{ 9223372036854775807 + 1 }}", "t:2: an integer does not fit into 64 bits");
  expect_error("{{ 99999999999999999999 }}", "t:1: the integer 99999999999999999999");
  expect_error("{{ 'a' }}\n{% macro f(x) %}\n{{ x.y.z }}{% endmacro %}\n{{ f(1) }}", "t:3: ");
  expect_error("\xff", "t: the template is not UTF-8");
}

TEST(ChatTemplate, RejectsImportsAndIncludes) {
  for (const char* tag : {"import 'a' as b", "from 'a' import b", "include 'a'", "extends 'a'"})
    expect_error(std::string("\n{% ") + tag + " %}", "t:2: {% ");
  expect_error("{% include 'a' %}", "cannot read other files");
}

TEST(ChatTemplate, RejectsMutatingMethods) {
  expect_error("{{ list.append(1) }}", "access to attribute 'append' of 'list' object is unsafe.");
  expect_error("{{ list.pop() }}", "is unsafe");
  expect_error("{{ messages[0].update({}) }}", "is unsafe");
}

// Jinja's `do` extension, which Transformers does not enable.
TEST(ChatTemplate, SupportsDo) {
  EXPECT_EQ(render("{% do n + 1 %}x"), "x");
  expect_error("{% do list.append(1) %}", "is unsafe");
}

TEST(ChatTemplate, SetsSeveralAttributesAtOnce) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}"),
            "12");
}

TEST(ChatTemplate, BoundsMemory) {
  for (const char* source :
       {"{{ 'x' * 10000000000 }}", "{{ [1] * 10000000000 }}", "{{ 'x'.ljust(10000000000) }}",
        "{{ '%10000000000d' % 1 }}", "{{ '%999999999d' % 1 }}", "{{ '{:999999999}'.format('') }}",
        "{{ 'a'|indent(99999999999, true) }}", "{{ 'a'|center(99999999999) }}",
        "{{ '1'.zfill(99999999999) }}", "{{ [1]|batch(9999999999, 0)|list }}",
        "{{ [1]|tojson(indent=99999999999) }}",
        "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x "
        "%}{% endfor %}",
        "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(100) %}{% set ns.x = "
        "ns.x.replace('x', 'xx') %}{% endfor %}",
        "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(100) %}{% set ns.x = "
        "ns.x|join(ns.x) %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% "
        "endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(190) %}{% set ns.x = [ns.x, ns.x] %}{% "
        "endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(190) %}{% set ns.x = [ns.x, ns.x] %}{% "
        "endfor %}{{ ns.x|tojson }}"}) {
    const std::string error =
        error_of(source, {.max_steps = 1'000'000, .max_memory_bytes = std::size_t{16} << 20U});
    const bool is_limit = error.find("bytes of memory") != std::string::npos ||
                          error.find("steps") != std::string::npos ||
                          error.find("Too many decimal digits") != std::string::npos;
    EXPECT_TRUE(is_limit) << source << "\n" << error.substr(0, 200);
  }
}

TEST(ChatTemplate, BoundsSteps) {
  const std::string loops =
      "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}"
      "{% endfor %}{% endfor %}{% endfor %}";
  expect_error(loops, "steps");
  expect_error("{{ range(1000000000000) }}", "Range too big");
  expect_error(
      "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ x.find('b') }}{% endfor %}",
      "steps");
  // Nested lists that share their items take exponential time to compare.
  expect_error(
      "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(100) %}"
      "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
      "steps");
}

TEST(ChatTemplate, BoundsOutput) {
  EXPECT_NE(error_of("{% for i in range(1000) %}0123456789{% endfor %}", {.max_output_bytes = 5000})
                .find("longer than 5000 bytes"),
            std::string::npos);
}

TEST(ChatTemplate, BoundsDepth) {
  expect_error("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "nested deeper than");
  expect_error("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "nested deeper than");
  expect_error("{{ " + std::string(100000, '(') + "1", "nested deeper than");
  expect_error("{{ " + std::string(100000, '[') + "1", "nested deeper than");
  expect_error("{{ " + std::string(100000, '-') + "1 }}", "nested deeper than");
  std::string nots;
  std::string ifs;
  std::string sum = "1";
  std::string dots = "n";
  for (int i = 0; i < 10000; ++i) {
    nots += "not ";
    ifs += "{% if 1 %}";
    sum += "+1";
    dots += ".a";
  }
  expect_error("{{ " + nots + "1 }}", "nested deeper than");
  expect_error(ifs, "nested deeper than");
  expect_error("{{ " + sum + " }}", "levels");
  expect_error("{{ " + dots + " }}", "levels");
  expect_error(
      "{% set ns = namespace(x=1) %}{% for i in range(10000) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "values nested deeper than");
  expect_error(
      "{% set ns = namespace(x=[1]) %}{% for i in range(10000) %}"
      "{% set ns.x = ns.x|map('string') %}{% endfor %}{{ ns.x|list }}",
      "nested deeper than");
  expect_error(
      "{% set ns = namespace(x=[1]) %}{% for i in range(10000) %}"
      "{% set ns.x = [1]|map('default', ns.x) %}{% endfor %}",
      "nested deeper than");
}

// Namespaces, macros and loops can form reference cycles; the leak sanitizer checks that all are
// freed.
TEST(ChatTemplate, FreesCycles) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns.me|length }}"), "1");
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}"),
            "<Namespace {'me': <Namespace {...}>}>");
  EXPECT_EQ(render("{% set ns = namespace() %}{% for i in list %}{% set ns.l = loop %}"
                   "{% if loop.changed(loop) %}{% endif %}{% endfor %}{{ ns.l.index }}"),
            "3");
  EXPECT_EQ(render("{% set ns = namespace() %}{% macro f() %}{% set ns.f = caller %}{% endmacro %}"
                   "{% call f() %}{{ n }}{% endcall %}{{ ns.f() }}"),
            "3");
  EXPECT_EQ(render("{% set ns = namespace(l=0) %}{% for i in range(20000) %}{% set x = ns.l %}"
                   "{% for j in [1] %}{% set ns.l = loop %}{% endfor %}{% endfor %}done"),
            "done");
}

TEST(ChatTemplate, DetectsContentPartSupport) {
  const auto reads = [](const char* source) {
    return ChatTemplate(source, "t").reads_content_parts();
  };
  EXPECT_FALSE(reads("{% for m in messages %}{{ m.content }}{% endfor %}"));
  EXPECT_FALSE(reads("{% for m in messages %}{{ m.content + 'x' }}{% endfor %}"));
  EXPECT_FALSE(reads("{% for m in messages %}{{ m.content|tojson }}{% endfor %}"));
  EXPECT_TRUE(
      reads("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
            "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{% endfor %}"));
}

TEST(ChatTemplate, CanBeMovedAndKeepsItsSource) {
  ChatTemplate first("{{ n }}", "t");
  const ChatTemplate second = std::move(first);
  EXPECT_EQ(second.source(), "{{ n }}");
  EXPECT_EQ(second.render({}), "");
}

}  // namespace
}  // namespace graft::chat
