// graft_tokenize_bench VOCABULARY [TEXT]: encodes 10 MB of mixed text on one thread, and 1 MB each
// of inputs that are hard for a tokenizer. Measures CPU time, which other load disturbs less. With
// TEXT the mixed text is also written to that file, so that a peer can be measured on it.

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "graft/formats/read_tokenizer.h"
#include "graft/testing/shared_data.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::bench {
namespace {

constexpr std::size_t kMixedBytes = 10'000'000;
constexpr std::size_t kHardBytes = 1'000'000;
constexpr int kRounds = 5;

// Sentences in many scripts; their words are shuffled.
constexpr std::array<std::string_view, 12> kScripts = {
    "Der schnelle braune Fuchs springt über den faulen Hund, während draußen größere Stürme toben.",
    "L'été dernier, nous avons mangé des crêpes à l'ombre d'un vieux chêne près de la rivière.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю; завтра будет новый день.",
    "敏捷的棕色狐狸跳过了懒狗。今天的天气很好，我们一起去公园散步吧！人工智能正在改变世界。",
    "いろはにほへと ちりぬるを。今日はとても良い天気ですね。新しいコンピューターを買いました。",
    "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다. 내일 다시 만나요.",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ومغلف بجلد أزرق.",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले राम थे।",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Η γρήγορη αλεπού πηδά πάνω από τον σκύλο.",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน",
    "😀🎉 👩‍👩‍👧‍👦 ✅ 🚀🚀🚀 🇩🇪🇫🇷 → ∑∫√ ≤≥≠ "
    "½¾ "
    "①② "
    "™®",
    "Zażółć gęślą jaźń, pchnąć w tę łódź jeża lub ośm skrzyń fig.",
};

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The sources and documents of the repository, and the validation text of Sprout.
std::vector<std::string> documents() {
  const std::filesystem::path root = GRAFT_SOURCE_DIR;
  std::vector<std::filesystem::path> paths;
  for (const char* folder : {"graft", "docs"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const auto extension = entry.path().extension();
      const bool is_text = extension == ".cpp" || extension == ".h" || extension == ".md";
      if (is_text && entry.file_size() > 0) paths.push_back(entry.path());
    }
  }
  std::ranges::sort(paths);
  std::vector<std::string> all;
  for (const auto& path : paths)
    all.push_back(text_of(path));
  const std::string prose = text_of(test_data("sprout/val.txt"));
  constexpr std::size_t kChunkBytes = 4000;
  for (std::size_t at = 0; at < prose.size(); at += kChunkBytes)
    all.push_back(prose.substr(at, kChunkBytes));
  return all;
}

class Mixer {
 public:
  // Alternates documents, sentences in many scripts, tables of numbers and white space.
  std::string mixed(std::size_t bytes) {
    const std::vector<std::string> all = documents();
    std::string out;
    while (out.size() < bytes) {
      const std::string& document = all[random_() % all.size()];
      const std::size_t begin = char_begin(document, random_() % document.size());
      out += document.substr(begin, char_begin(document, begin + 500 + random_() % 3000) - begin);
      for (int i = 0; i < 4; ++i)
        add_sentence(out);
      for (int i = 0; i < 8; ++i)
        out += std::to_string(random_() >> (random_() % 60)) + (random_() % 4 == 0 ? "\n" : ", ");
      out.append(random_() % 40, " \n\t"[random_() % 3]);
    }
    out.resize(char_begin(out, bytes));
    return out;
  }

 private:
  // The first byte of the UTF-8 character that contains byte `at`.
  static std::size_t char_begin(std::string_view text, std::size_t at) {
    at = std::min(at, text.size());
    while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) >> 6U) == 2)
      --at;
    return at;
  }

  void add_sentence(std::string& out) {
    std::vector<std::string_view> words;
    std::string_view rest = kScripts[random_() % kScripts.size()];
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      words.push_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    std::shuffle(words.begin(), words.end(), random_);
    for (const std::string_view word : words) {
      out += word;
      out += ' ';
    }
    out += '\n';
  }

  std::mt19937_64 random_{1};
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The best of kRounds rounds.
double seconds_for(const tokenizer::Tokenizer& tokenizer,
                   std::string_view text,
                   std::size_t& num_tokens) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double start = cpu_seconds();
    num_tokens = tokenizer.encode(text, {.add_special = false}).size();
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

std::string repeated(std::string_view text, std::size_t bytes) {
  std::string out;
  while (out.size() < bytes)
    out += text;
  return out;
}

void measure(const tokenizer::Tokenizer& tokenizer, const char* name, std::string_view text) {
  std::size_t num_tokens = 0;
  const double seconds = seconds_for(tokenizer, text, num_tokens);
  std::printf("%-16s %7.1f MB/s  %6.1f ns/byte  %zu tokens\n", name,
              static_cast<double>(text.size()) / seconds / 1e6,
              seconds * 1e9 / static_cast<double>(text.size()), num_tokens);
}

void run(const std::filesystem::path& vocabulary, const char* text_path) {
  const tokenizer::Tokenizer tokenizer(formats::read_tokenizer(vocabulary));
  const std::string mixed = Mixer().mixed(kMixedBytes);
  if (text_path != nullptr) std::ofstream(text_path, std::ios::binary) << mixed;
  std::string digits;
  std::string letters;
  std::mt19937_64 random(2);
  for (std::size_t i = 0; i < kHardBytes; ++i) {
    digits += static_cast<char>('0' + random() % 10);
    letters += static_cast<char>('a' + random() % 26);
  }
  std::printf("%s\n", vocabulary.filename().c_str());
  measure(tokenizer, "mixed, 10 MB", mixed);
  measure(tokenizer, "one letter", std::string(kHardBytes, 'a'));
  measure(tokenizer, "letters", letters);
  measure(tokenizer, "spaces", std::string(kHardBytes, ' '));
  measure(tokenizer, "line breaks", std::string(kHardBytes, '\n'));
  measure(tokenizer, "one digit", std::string(kHardBytes, '7'));
  measure(tokenizer, "digits", digits);
  measure(tokenizer, "one ideograph", repeated("字", kHardBytes));
  measure(tokenizer, "invalid UTF-8", std::string(kHardBytes, '\xFF'));
}

}  // namespace
}  // namespace graft::bench

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: graft_tokenize_bench VOCABULARY [TEXT]\n");
    return 2;
  }
  try {
    graft::bench::run(argv[1], argc > 2 ? argv[2] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
