#include "graft/tokenizer/steps/normalizer.h"

#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <utf8proc.h>

#include "graft/testing/tokenizer.h"

namespace graft::tokenizer {
namespace {

using NormalizerKind = NormalizerStep::Kind;

std::string run_steps(const std::vector<NormalizerStep>& steps, std::string_view text) {
  Normalizer::Scratch scratch;
  RegexScratch regex;
  return std::string(Normalizer(steps).run(text, scratch, regex));
}

using Form = utf8proc_uint8_t* (*)(const utf8proc_uint8_t*);

std::string whole(Form form, const std::string& text) {
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> out(
      form(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str())), std::free);
  return reinterpret_cast<const char*>(out.get());
}

// Only segments that may change are normalized; the result must equal normalizing the whole text.
TEST(Normalizer, SegmentsMatchTheWholeText) {
  const std::vector<std::pair<NormalizerKind, Form>> forms = {
      {NormalizerKind::Nfc, utf8proc_NFC},
      {NormalizerKind::Nfd, utf8proc_NFD},
      {NormalizerKind::Nfkc, utf8proc_NFKC},
      {NormalizerKind::Nfkd, utf8proc_NFKD}};
  std::mt19937_64 random(1);
  // Marks, Hangul, ligatures, characters that compose and that do not.
  const std::vector<std::int32_t> odd = {
      0x301, 0x327, 0x344, 0x1100, 0x1161, 0x11A8, 0xAC00, 0xAC01, 0x212B, 0x2126,  0xFB01,
      0x958, 0x93C, 0x915, 0xE9,   'e',    'A',    0x30A,  0xFB2C, 0x5D0,  0x1D15E, 0x2F800};
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (std::size_t i = random() % 12; i > 0; --i) {
      std::int32_t code = odd[random() % odd.size()];
      if (random() % 4 == 0) code = static_cast<std::int32_t>(1 + random() % 0x2FFFF);
      if (code < 0xD800 || code > 0xDFFF) append_utf8(code, text);
    }
    for (const auto& [kind, form] : forms)
      EXPECT_EQ(run_steps({{.kind = kind}}, text), whole(form, text)) << text;
  }
}

TEST(Normalizer, KeepsInvalidUtf8) {
  EXPECT_EQ(run_steps({{.kind = NormalizerKind::Nfc}}, "e\u0301\xE4\u0301\xFF"), "é\xE4\u0301\xFF");
  EXPECT_EQ(run_steps({{.kind = NormalizerKind::Lowercase}}, "A\xFF\xC0Ä"), "a\xFF\xC0ä");
  EXPECT_EQ(run_steps({{.kind = NormalizerKind::Strip}}, " \xFF "), "\xFF");
}

TEST(Normalizer, AppliesEachStep) {
  EXPECT_EQ(run_steps({}, "as it is"), "as it is");
  EXPECT_EQ(run_steps({{.kind = NormalizerKind::Prepend, .content = "▁"}}, "x"), "▁x");
  EXPECT_EQ(run_steps({{.kind = NormalizerKind::Prepend, .content = "▁"}}, ""), "");
  EXPECT_EQ(run_steps({{.kind = NormalizerKind::Replace, .pattern = " ", .content = "▁"}}, " a  b"),
            "▁a▁▁b");
  EXPECT_EQ(run_steps({{.kind = NormalizerKind::Replace,
                        .pattern = "[0-9]+",
                        .is_regex = true,
                        .content = "#"}},
                      "1a\xFF"
                      "22"),
            "#a\xFF#");
  EXPECT_EQ(run_steps({{.kind = NormalizerKind::Lowercase}}, "İΣ"), "i\u0307σ");
  EXPECT_EQ(run_steps({{.kind = NormalizerKind::Strip, .right = false}}, "\u00A0 a "), "a ");
  EXPECT_EQ(run_steps({{.kind = NormalizerKind::Strip, .left = false}}, " a\u3000 "), " a");
}

}  // namespace
}  // namespace graft::tokenizer
