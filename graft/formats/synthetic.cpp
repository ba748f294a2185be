#include "graft/formats/synthetic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <list>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/formats/byte_letters.h"
#include "graft/formats/name_index.h"

namespace graft::formats {
namespace {

// Tensors start at one of kStarts offsets into the shared values, so that layers differ.
constexpr std::size_t kStarts = 61;
constexpr std::size_t kStartBytes = 4096;
constexpr std::size_t kBlockValues = std::size_t{1} << 20U;

std::uint16_t bf16(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
}

// Repeats one million drawn values: drawing all of them would take longer than encoding them.
std::vector<std::uint16_t> draw(std::size_t count, float mean, float deviation) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<std::uint16_t> values(count);
  for (std::size_t i = 0; i < std::min(count, kBlockValues); ++i)
    values[i] = bf16(normal(random));
  // An odd shift keeps rows of a power-of-two length from being equal.
  for (std::size_t i = kBlockValues; i < count; ++i)
    values[i] = values[i - kBlockValues + 7];
  return values;
}

// The tensor with rows scaled by SyntheticTensor::row_skew.
std::vector<std::uint16_t> skew_rows(std::span<const std::uint16_t> values,
                                     std::int64_t num_rows,
                                     double skew,
                                     unsigned seed) {
  std::vector<std::size_t> ranks(static_cast<std::size_t>(num_rows));
  std::iota(ranks.begin(), ranks.end(), std::size_t{1});
  std::shuffle(ranks.begin(), ranks.end(), std::mt19937(seed));
  std::vector<std::uint16_t> skewed(values.begin(), values.end());
  const std::size_t row_size = values.size() / ranks.size();
  for (std::size_t i = 0; i < skewed.size(); ++i) {
    const auto value = std::bit_cast<float>(std::uint32_t{values[i]} << 16U);
    const double scale = std::pow(static_cast<double>(ranks[i / row_size]), -skew);
    skewed[i] = bf16(static_cast<float>(value * scale));
  }
  return skewed;
}

// UTF-8 of a code point below U+0800.
std::string utf8(std::int32_t point) {
  if (point < 0x80) return {static_cast<char>(point)};
  return {static_cast<char>(0xC0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3F))};
}

class SyntheticSource final : public WeightSource {
 public:
  SyntheticSource(std::string name,
                  std::int64_t vocab_size,
                  const std::vector<SyntheticTensor>& tensors)
      : path_(std::move(name)), tokenizer_(synthetic_vocabulary(vocab_size)) {
    for (const SyntheticTensor& tensor : tensors) {
      tensors_.push_back({.name = tensor.name,
                          .dtype = tensor.num_ids > 0 ? DType::I32 : DType::BF16,
                          .shape = tensor.shape,
                          .data = {}});
    }
    std::size_t largest = 0;
    for (const TensorInfo& tensor : tensors_)
      largest = std::max(largest, static_cast<std::size_t>(tensor.num_elems()));
    const std::size_t room = largest + kStarts * kStartBytes / sizeof(std::uint16_t);
    weights_ = draw(room, 0.0F, 0.02F);
    norms_ = draw(room, 1.0F, 0.02F);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      TensorInfo& tensor = tensors_[i];
      if (tensors[i].num_ids > 0) {
        draw_ids(tensor, tensors[i].num_ids);
        continue;
      }
      const bool is_norm = tensor.name.find("norm") != std::string::npos;
      const auto all = std::as_bytes(std::span(is_norm ? norms_ : weights_));
      tensor.data =
          all.subspan(i % kStarts * kStartBytes, bytes_of(DType::BF16, tensor.num_elems()));
      if (tensors[i].row_skew > 0) skew(tensor, tensors[i].row_skew, static_cast<unsigned>(i));
    }
    index_ = NameIndex(tensors_);
  }

  std::string_view format() const override { return "synthetic"; }
  const std::filesystem::path& path() const override { return path_; }
  std::span<const std::filesystem::path> files() const override { return {&path_, 1}; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }
  void release(const TensorInfo& /*tensor*/) const override {}
  TokenizerData read_tokenizer(const ModelTokens& /*tokens*/,
                               std::vector<std::string>& /*warnings*/) const override {
    return tokenizer_;
  }

 private:
  void skew(TensorInfo& tensor, double row_skew, unsigned seed) {
    const std::span values(reinterpret_cast<const std::uint16_t*>(tensor.data.data()),
                           static_cast<std::size_t>(tensor.num_elems()));
    skewed_.push_back(skew_rows(values, tensor.shape.front(), row_skew, seed));
    tensor.data = std::as_bytes(std::span(skewed_.back()));
  }

  // Consecutive numbers: the ids of a row differ when it is no longer than their number.
  void draw_ids(TensorInfo& tensor, std::int64_t num_ids) {
    std::vector<std::int32_t>& ids =
        ids_.emplace_back(static_cast<std::size_t>(tensor.num_elems()));
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(num_ids));
    tensor.data = std::as_bytes(std::span(ids));
  }

  std::filesystem::path path_;  // no such file: the name for messages
  TokenizerData tokenizer_;
  std::vector<std::uint16_t> weights_;
  std::vector<std::uint16_t> norms_;
  std::list<std::vector<std::uint16_t>> skewed_;
  std::list<std::vector<std::int32_t>> ids_;
  std::vector<TensorInfo> tensors_;
  NameIndex index_;
};

}  // namespace

std::unique_ptr<WeightSource> make_synthetic(std::string name,
                                             std::int64_t vocab_size,
                                             const std::vector<SyntheticTensor>& tensors) {
  return std::make_unique<SyntheticSource>(std::move(name), vocab_size, tensors);
}

TokenizerData synthetic_vocabulary(std::int64_t size) {
  if (size < 257)
    fail("a vocabulary of ", size, " tokens is too small: 256 bytes and an end token need 257");
  TokenizerData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  std::vector<std::string> letters;
  letters.reserve(kByteLetters.size());
  for (const std::int32_t point : kByteLetters)
    letters.push_back(utf8(point));
  data.tokens = letters;
  // Token 256 + n is token n / 256 followed by byte n % 256: all distinct, one merge each.
  for (std::int64_t n = 0; n < size - 257; ++n) {
    const std::string& left = data.tokens[static_cast<std::size_t>(n / 256)];
    const std::string& right = letters[static_cast<std::size_t>(n % 256)];
    data.merges.push_back(str(left, ' ', right));
    data.tokens.push_back(left + right);
  }
  data.types.assign(data.tokens.size(), TokenType::Normal);
  data.tokens.emplace_back("<|end|>");
  data.types.push_back(TokenType::Control);
  data.eos_id = size - 1;
  data.bos_id = size - 1;
  data.add_bos = false;
  return data;
}

}  // namespace graft::formats
