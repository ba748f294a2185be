// A golden LLaVA checkpoint with a tokenizer of bytes and a chat template that writes "<image>", so
// that it can be served.

#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "graft/base/text/json.h"
#include "graft/testing/golden.h"

namespace graft {

// The letters that stand for bytes in vocabularies of GPT-2's kind, in UTF-8.
inline std::string byte_letter(int byte) {
  const auto is_own = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  int code = byte;
  if (!is_own(byte)) {
    code = 256;
    for (int other = 0; other < byte; ++other)
      code += is_own(other) ? 0 : 1;
  }
  if (code < 128) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
}

// A special token of 320: 0 <unk>, 1 <s>, 2 </s>, 3 to 258 the bytes, 319 <image>.
inline Json special_token(int id, std::string_view text) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// Writes the checkpoint `name` ("llava" or "llava-next") to `folder`, which must exist. The
// template puts images first; without `writes_images` it takes text alone.
inline void write_llava_chat(std::string_view name,
                             const std::filesystem::path& folder,
                             bool writes_images = true) {
  for (const auto& file : std::filesystem::directory_iterator(golden_checkpoint(name)))
    std::filesystem::copy_file(file.path(), folder / file.path().filename());
  Json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte)
    vocab[byte_letter(byte)] = 3 + byte;
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const Json tokenizer = {
      {"version", "1.0"},
      {"added_tokens", Json::array({special_token(0, "<unk>"), special_token(1, "<s>"),
                                    special_token(2, "</s>"), special_token(319, "<image>")})},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
  std::ofstream(folder / "tokenizer.json") << tokenizer.dump();
  std::ofstream(folder / "tokenizer_config.json")
      << Json({{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}}).dump();
  const std::string_view parts =
      "{% for m in messages %}{{ m.role }}:"
      "{% for p in m.content if p.type == 'image' %}<image>\n{% endfor %}"
      "{% for p in m.content if p.type == 'text' %}{{ p.text }}{% endfor %}\n{% endfor %}";
  const std::string_view text = "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}";
  std::ofstream(folder / "chat_template.jinja") << (writes_images ? parts : text);
}

}  // namespace graft
