#include "graft/formats/pre_tokenizers.h"

#include <algorithm>

namespace graft::formats {
namespace {

// Most rows are variants of OpenAI's cl100k: contractions, words with the character before them,
// digits, punctuation, spaces. Line breaks are written as \r and \n.
// clang-format off
constexpr std::array kRows = {
    NamedPreTokenizer{
        .name = "gpt-2",
        .steps = {"bytelevel regex"}},
    NamedPreTokenizer{
        .name = "mpt",
        .steps = {"bytelevel regex"},
        .nfc = true},
    NamedPreTokenizer{
        .name = "smollm",
        .steps = {"digits 1", "bytelevel regex"}},
    NamedPreTokenizer{
        .name = "llama-bpe",
        .steps = {R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                  R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"},
        .ignore_merges = true,
        .add_bos = true},
    NamedPreTokenizer{
        .name = "glm4",
        .steps = {R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                  R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"},
        .ignore_merges = true,
        .marker_token = "[gMASK]"},
    NamedPreTokenizer{
        .name = "dbrx",
        .steps = {R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                  R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"}},
    NamedPreTokenizer{
        .name = "qwen2",
        .steps = {R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                  R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"},
        .nfc = true},
    NamedPreTokenizer{
        .name = "qwen35",
        .steps = {R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
                  R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"},
        .nfc = true},
    NamedPreTokenizer{
        .name = "deepseek-llm",
        .steps = {R"(split [\r\n])",
                  R"(split \s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-Ⴥ)"
                  R"(Ꭰ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ί)"
                  R"(ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇ)"
                  R"(Ꞌ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)",
                  R"(split \s?[!-/:-~！-／：-～‘-‟　-。]+)",
                  R"(split \s+$)",
                  "split [一-龥ࠀ-一가-퟿]+",
                  "digits 1",
                  "bytelevel"}},
    NamedPreTokenizer{
        .name = "deepseek-coder",
        .steps = {R"(split [\r\n])",
                  R"(split \s?\p{L}+)",
                  R"(split \s?\p{P}+)",
                  "split [一-龥ࠀ-一가-퟿]+",
                  "digits 1",
                  "bytelevel"}},
    NamedPreTokenizer{
        .name = "deepseek-v3",
        .steps = {R"(split \p{N}{1,3})",
                  "split [一-龥぀-ゟ゠-ヿ]+",
                  R"(split [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?)"
                  R"([\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"}},
    NamedPreTokenizer{
        .name = "tekken",
        .steps = {R"(split [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*)"
                  R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                  R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"},
        .ignore_merges = true,
        .add_bos = true},
    NamedPreTokenizer{
        .name = "gpt-4o",
        .steps = {R"(split [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*)"
                  R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
                  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
                  R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"},
        .ignore_merges = true},
    NamedPreTokenizer{
        .name = "kimi-k2",
        .steps = {R"(split [\p{Han}]+|)"
                  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
                  R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
                  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
                  R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
                  R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"},
        .ignore_merges = true,
        .ids_are_ranks = true},
    NamedPreTokenizer{
        .name = "falcon",
        .steps = {R"(split [\p{P}$+<=>^~|`]+)",
                  R"(split 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|)"
                  R"(\s+(?!\S)|\s+)",
                  "split [0-9][0-9][0-9]",
                  "bytelevel"}},
    NamedPreTokenizer{
        .name = "bloom",
        .steps = {R"(split  ?[^(\s|.,!?…。，、।۔،)]+)", "bytelevel"}},
    NamedPreTokenizer{
        .name = "viking",
        .steps = {R"(split  ?[^(\s|.,!?…。，、।۔،)]+)", "digits 1", "bytelevel"}},
    NamedPreTokenizer{
        .name = "chameleon",
        .steps = {"split <sentinel:[0-9]+>",
                  "split (IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
                  R"(split ([\t\n]|    |  ))",
                  "digits 1",
                  R"(split [\p{P}!-/:-@\[-`{-~])",
                  "bytelevel regex"},
        .add_bos = true},
    NamedPreTokenizer{
        .name = "jais-2",
        .steps = {R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                  R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|)"
                  R"(\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|)"
                  R"(\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})",
                  "bytelevel"}},
    NamedPreTokenizer{
        .name = "grok-2",
        .steps = {R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                  R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"}},
    NamedPreTokenizer{
        .name = "laguna",
        .steps = {R"(split [^\n]+|[\n]+)",
                  R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                  R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"}},
    NamedPreTokenizer{
        .name = "seed-coder",
        .steps = {R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}|)"
                  R"( ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"}},
    NamedPreTokenizer{
        .name = "minicpm5",
        .steps = {R"(split \p{N}{1,3})",
                  R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|)"
                  R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"},
        .ignore_merges = true},
    NamedPreTokenizer{
        .name = "bailingmoe",
        .steps = {R"(split '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}|)"
                  R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
                  "bytelevel"}},
    NamedPreTokenizer{
        .name = "exaone-moe",
        .steps = {R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|)"
                  R"([^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|)"
                  R"( ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)",
                  "bytelevel"}},
    // Numbers are cut into threes from their end; of tiny_aya only those before a word boundary.
    NamedPreTokenizer{
        .name = "superbpe",
        .steps = {R"(threes \p{N}+)", "bytelevel"}},
    NamedPreTokenizer{
        .name = "tiny_aya",
        .steps = {R"(threes (?<!\d)\d++\b)",
                  R"(split )"
                  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*)"
                  R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
                  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
                  R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"}},
    NamedPreTokenizer{
        .name = "afmoe",
        .steps = {R"(threes \p{N}+)",
                  "split [一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+",
                  R"(split [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?)"
                  R"([\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"}},
    NamedPreTokenizer{
        .name = "youtu",
        .steps = {"split [가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
                  R"(split )"
                  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*)"
                  R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
                  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
                  R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                  "bytelevel"},
        .ignore_merges = true},
    NamedPreTokenizer{
        .name = "gemma4",
        .steps = {R"(split [^\n]+|[\n]+)"},
        .is_sentencepiece = true},
};

// Names that belong to no model family of ours.
constexpr std::array kOtherNames = {
    PreTokenizerName{"",              "gpt-2"},
    PreTokenizerName{"default",       "gpt-2"},
    PreTokenizerName{"phi-2",         "gpt-2"},
    PreTokenizerName{"modern-bert",   "gpt-2"},
    PreTokenizerName{"jina-es",       "gpt-2"},
    PreTokenizerName{"jina-de",       "gpt-2"},
    PreTokenizerName{"jina-v2-es",    "gpt-2"},
    PreTokenizerName{"jina-v2-de",    "gpt-2"},
    PreTokenizerName{"olmo",          "mpt"},
    PreTokenizerName{"starcoder",     "smollm"},
    PreTokenizerName{"refact",        "smollm"},
    PreTokenizerName{"command-r",     "smollm"},
    PreTokenizerName{"codeshell",     "smollm"},
    PreTokenizerName{"exaone",        "smollm"},
    PreTokenizerName{"minerva-7b",    "smollm"},
    PreTokenizerName{"stablelm2",     "qwen2"},
    PreTokenizerName{"llama4",        "gpt-4o"},
    PreTokenizerName{"hunyuan-dense", "deepseek-v3"},
    PreTokenizerName{"a.x-4.0",       "gpt-2"},
    PreTokenizerName{"exaone4",       "gpt-2"},
    PreTokenizerName{"gigachat",      "gpt-2"},
    PreTokenizerName{"granite-docling", "gpt-2"},
    PreTokenizerName{"jais",          "gpt-2"},
    PreTokenizerName{"jina-v1-en",    "gpt-2"},
    PreTokenizerName{"jina-v2-code",  "gpt-2"},
    PreTokenizerName{"mellum",        "gpt-2"},
    PreTokenizerName{"roberta-bpe",   "gpt-2"},
    PreTokenizerName{"trillion",      "gpt-2"},
    PreTokenizerName{"mellum2",       "smollm"},
    PreTokenizerName{"falcon-h1",     "llama-bpe"},
    PreTokenizerName{"jina-v5-nano",  "llama-bpe"},
    PreTokenizerName{"lfm2",          "llama-bpe"},
    PreTokenizerName{"midm-2.0",      "llama-bpe"},
    PreTokenizerName{"smaug-bpe",     "dbrx"},
    PreTokenizerName{"f2llmv2",       "qwen2"},
    PreTokenizerName{"kormo",         "qwen2"},
    PreTokenizerName{"hunyuan",       "grok-2"},
    PreTokenizerName{"solar-open",    "grok-2"},
    PreTokenizerName{"granite-embed-multi-97m", "gpt-4o"},
    PreTokenizerName{"kanana2",       "gpt-4o"},
    PreTokenizerName{"talkie",        "gpt-4o"},
    PreTokenizerName{"gpt3-finnish",  "bloom"},
    PreTokenizerName{"poro-chat",     "bloom"},
    PreTokenizerName{"bailingmoe2",   "bailingmoe"},
    PreTokenizerName{"llada-moe",     "bailingmoe"},
    PreTokenizerName{"cohere2moe",    "tiny_aya"},
    PreTokenizerName{"granite-embed-multi-311m", "gemma4"},
    PreTokenizerName{"sarvam-moe",    "gemma4"},
};
// clang-format on

}  // namespace

std::span<const NamedPreTokenizer> named_pre_tokenizers() {
  return kRows;
}

const NamedPreTokenizer* find_named_pre_tokenizer(std::string_view name,
                                                  std::span<const PreTokenizerName> names) {
  for (const auto rows : {names, std::span<const PreTokenizerName>(kOtherNames)}) {
    const auto found = std::ranges::find(rows, name, &PreTokenizerName::name);
    if (found == rows.end()) continue;
    name = found->definition;
    break;
  }
  const auto* row = std::ranges::find(kRows, name, &NamedPreTokenizer::name);
  return row == kRows.end() ? nullptr : row;
}

}  // namespace graft::formats
