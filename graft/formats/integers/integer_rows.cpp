#include "graft/formats/integers/integer_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/formats/integers/integer_config.h"
#include "graft/quant/blocks.h"
#include "graft/quant/codec.h"

namespace graft::formats {
namespace {

constexpr std::int64_t kBlock = 32;    // columns of a block of Q4_0, Q5_0 and Q8_0
constexpr std::int64_t kTileRows = 8;  // rows in one word of AWQ
constexpr std::int64_t kWordBits = 32;

// AWQ: the position in a word of each of its eight rows.
constexpr std::array<std::uint32_t, 8> kAwqPlaces = {0, 4, 1, 5, 2, 6, 3, 7};

// Q4_0: code i in the low, code i + 16 in the high nibble of byte i.
void write_q40(const std::uint8_t* codes, std::uint16_t scale, std::byte* out) {
  quant::BlockQ40 block{};
  block.d = scale;
  for (std::int64_t i = 0; i < kBlock / 2; ++i)
    block.quants[i] = static_cast<std::uint8_t>(codes[i] | codes[i + kBlock / 2] << 4);
  std::memcpy(out, &block, sizeof(block));
}

// Codes minus zero points are -15 .. 15; Q5_0 stores them plus 16.
void write_q50(const std::uint8_t* codes, int zero, std::uint16_t scale, std::byte* out) {
  constexpr int kOffset = 16;
  quant::BlockQ50 block{};
  block.d = scale;
  std::uint32_t high = 0;
  for (std::int64_t i = 0; i < kBlock; ++i) {
    const auto code = static_cast<std::uint32_t>(codes[i] - zero + kOffset);
    high |= (code >> 4U) << static_cast<std::uint32_t>(i);
    const std::uint32_t nibble = (code & 15U) << (i < kBlock / 2 ? 0U : 4U);
    block.quants[i % (kBlock / 2)] |= static_cast<std::uint8_t>(nibble);
  }
  block.high = high;
  std::memcpy(out, &block, sizeof(block));
}

void write_q80(const std::uint8_t* codes, std::uint16_t scale, std::byte* out) {
  constexpr int kOffset = 128;
  quant::BlockQ80 block{};
  block.d = scale;
  for (std::int64_t i = 0; i < kBlock; ++i)
    block.quants[i] = static_cast<std::int8_t>(codes[i] - kOffset);
  std::memcpy(out, &block, sizeof(block));
}

// Whether a scale in F16 is infinity or NaN.
bool is_finite_f16(std::uint16_t bits) {
  constexpr std::uint16_t kExponent = 0x7c00;
  return (bits & kExponent) != kExponent;
}

}  // namespace

DType IntegerLayout::dtype() const {
  return integer_dtype(bits, symmetric);
}

IntegerRows::IntegerRows(IntegerLayout layout, const IntegerTensors& tensors)
    : layout_(std::move(layout)) {
  std::array<std::pair<const TensorInfo*, const TensorInfo**>, 4> places = {{
      {tensors.codes, &tensors_.codes},
      {tensors.scales, &tensors_.scales},
      {tensors.zeros, &tensors_.zeros},
      {tensors.group_of_column, &tensors_.group_of_column},
  }};
  parts_.reserve(places.size());  // tensors_ points into it
  for (const auto& [from, to] : places) {
    if (from == nullptr) continue;
    parts_.push_back(*from);
    *to = &parts_.back();
  }
}

std::uint32_t IntegerRows::code_word(const TensorInfo& tensor, std::int64_t idx) const {
  std::uint32_t word = 0;  // the data may be unaligned
  std::memcpy(&word, tensor.data.data() + static_cast<std::size_t>(idx) * sizeof(word),
              sizeof(word));
  return word;
}

const IntegerRows::Columns& IntegerRows::columns() const {
  std::call_once(found_columns_, [&] { columns_ = find_columns(); });
  return columns_;
}

// Sorts the columns by group, if they are not. Every group must fill whole blocks.
IntegerRows::Columns IntegerRows::find_columns() const {
  const std::int64_t cols = layout_.cols;
  const std::int64_t group_cols = cols / layout_.groups;
  Columns found;
  std::vector<std::int32_t> groups(static_cast<std::size_t>(cols));
  for (std::int64_t col = 0; col < cols; ++col)
    groups[static_cast<std::size_t>(col)] = static_cast<std::int32_t>(col / group_cols);
  if (tensors_.group_of_column != nullptr) {
    std::memcpy(groups.data(), tensors_.group_of_column->data.data(),
                groups.size() * sizeof(std::int32_t));
  }
  std::vector<std::int32_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  const auto group_of = [&](std::int32_t col) { return groups[static_cast<std::size_t>(col)]; };
  for (const std::int32_t group : groups) {
    if (group < 0 || group >= layout_.groups) {
      fail(tensors_.group_of_column->name, ": group ", group, " is out of range: there are ",
           layout_.groups, " groups");
    }
  }
  if (!std::ranges::is_sorted(groups)) {
    std::ranges::stable_sort(order, {}, group_of);
    found.order = std::make_shared<const std::vector<std::int32_t>>(order);
  }
  for (std::int64_t block = 0; block < cols; block += kBlock) {
    const auto first = static_cast<std::size_t>(block);
    const std::int32_t group = group_of(order[first]);
    if (group_of(order[first + kBlock - 1]) != group) {
      fail(tensors_.group_of_column->name, ": group ", group,
           " has a number of columns that is no multiple of ", kBlock);
    }
    found.group_of_block.push_back(group);
  }
  return found;
}

std::shared_ptr<const std::vector<std::int32_t>> IntegerRows::column_order() const {
  return columns().order;
}

// codes[count, cols], in the order of the file.
void IntegerRows::unpack_rows(std::int64_t begin, std::int64_t count, std::uint8_t* codes) const {
  const TensorInfo& stored = *tensors_.codes;
  const std::int64_t cols = layout_.cols;
  const auto bits = static_cast<std::uint32_t>(layout_.bits);
  const std::uint32_t mask = (1U << bits) - 1;
  const std::int64_t per_word = kWordBits / layout_.bits;
  const auto unpack = [&](std::uint32_t word, std::uint8_t* out) {
    for (std::int64_t i = 0; i < per_word; ++i, word >>= bits)
      out[i] = static_cast<std::uint8_t>(word & mask);
  };
  switch (layout_.packing) {
    case IntegerPacking::Bytes:
      for (std::int64_t i = 0; i < count * cols; ++i) {
        const auto code =
            std::to_integer<std::uint8_t>(stored.data[static_cast<std::size_t>(begin * cols + i)]);
        codes[i] = code ^ 0x80U;  // plus 128
      }
      return;
    case IntegerPacking::CompressedTensors:
      for (std::int64_t i = 0; i < count * cols / per_word; ++i)
        unpack(code_word(stored, begin * cols / per_word + i), codes + i * per_word);
      return;
    case IntegerPacking::Gptq:
      for (std::int64_t word = 0; word < cols / per_word; ++word) {
        for (std::int64_t row = 0; row < count; ++row) {
          unpack(code_word(stored, word * layout_.rows + begin + row),
                 codes + row * cols + word * per_word);
        }
      }
      return;
    case IntegerPacking::Awq:
      for (std::int64_t col = 0; col < cols; ++col) {
        for (std::int64_t row = 0; row < count; ++row) {
          const std::int64_t at = begin + row;
          const std::uint32_t word =
              code_word(stored, col * (layout_.rows / per_word) + at / per_word);
          const std::uint32_t place = kAwqPlaces[static_cast<std::size_t>(at % per_word)];
          codes[row * cols + col] = static_cast<std::uint8_t>(word >> (place * bits) & mask);
        }
      }
      return;
  }
}

// The scales of a row as F16, by group.
void IntegerRows::read_scales(std::int64_t row, std::vector<std::uint16_t>& out) const {
  const TensorInfo& scales = *tensors_.scales;
  const auto groups = static_cast<std::size_t>(layout_.groups);
  const std::size_t bytes = bytes_of(scales.dtype, 1);
  const bool is_by_row = layout_.packing == IntegerPacking::CompressedTensors ||
                         layout_.packing == IntegerPacking::Bytes;
  std::vector<std::byte> stored(groups * bytes);
  for (std::size_t group = 0; group < groups; ++group) {
    const std::size_t idx = layout_.one_scale ? 0
                            : is_by_row       ? static_cast<std::size_t>(row) * groups + group
                                              : group * static_cast<std::size_t>(layout_.rows) +
                                              static_cast<std::size_t>(row);
    std::memcpy(stored.data() + group * bytes, scales.data.data() + idx * bytes, bytes);
  }
  out.resize(groups);
  const auto* raw = reinterpret_cast<const std::byte*>(stored.data());
  if (scales.dtype == DType::F16) {
    std::memcpy(out.data(), raw, stored.size());
  } else {
    const quant::CodecTable& codecs = quant::reference_codecs();
    std::vector<float> values(groups);
    codecs[static_cast<std::size_t>(scales.dtype)].decode(raw, values.data(), groups);
    codecs[static_cast<std::size_t>(DType::F16)].encode(
        values.data(), reinterpret_cast<std::byte*>(out.data()), groups);
  }
  const auto bad = std::ranges::find_if_not(out, is_finite_f16);
  if (bad != out.end()) {
    fail(scales.name, ": the scale of row ", row, ", group ", bad - out.begin(),
         " is not finite in F16");
  }
}

int IntegerRows::zero(std::int64_t row, std::int64_t group) const {
  const int middle = 1 << (layout_.bits - 1);
  if (tensors_.zeros == nullptr) return middle;
  const TensorInfo& zeros = *tensors_.zeros;
  const auto bits = static_cast<std::uint32_t>(layout_.bits);
  const std::uint32_t mask = (1U << bits) - 1;
  const std::int64_t per_word = kWordBits / layout_.bits;
  const auto in_word = static_cast<std::uint32_t>(row % per_word);
  switch (layout_.packing) {
    case IntegerPacking::Bytes:
      return middle + std::to_integer<std::int8_t>(
                          zeros.data[static_cast<std::size_t>(row * layout_.groups + group)]);
    case IntegerPacking::CompressedTensors: {
      const std::uint32_t word = code_word(zeros, row / per_word * layout_.groups + group);
      return static_cast<int>(word >> (in_word * bits) & mask);
    }
    case IntegerPacking::Gptq: {
      const std::uint32_t word =
          code_word(zeros, group * (layout_.rows / per_word) + row / per_word);
      // The reference adds one within the bits: a stored 15 is the zero point 0.
      const std::uint32_t offset = layout_.zeros_minus_one ? 1 : 0;
      return static_cast<int>(((word >> (in_word * bits)) + offset) & mask);
    }
    case IntegerPacking::Awq: {
      const std::uint32_t word =
          code_word(zeros, group * (layout_.rows / per_word) + row / per_word);
      return static_cast<int>(word >> (kAwqPlaces[in_word] * bits) & mask);
    }
  }
  return middle;
}

void IntegerRows::write_row(std::int64_t row,
                            const std::uint8_t* codes,
                            const std::vector<std::uint16_t>& scales,
                            std::byte* out) const {
  const Columns& found = columns();
  const DType dtype = layout_.dtype();
  const std::size_t block_bytes = bytes_of(dtype, kBlock);
  const int middle = 1 << (layout_.bits - 1);
  std::int64_t first = 0;
  for (const std::int32_t group : found.group_of_block) {
    std::array<std::uint8_t, kBlock> sorted;
    const std::uint8_t* block = codes + first;
    if (found.order) {
      for (std::int64_t i = 0; i < kBlock; ++i) {
        sorted[static_cast<std::size_t>(i)] =
            codes[(*found.order)[static_cast<std::size_t>(first + i)]];
      }
      block = sorted.data();
    }
    const std::uint16_t scale = scales[static_cast<std::size_t>(group)];
    const int zero_point = zero(row, group);
    if (dtype == DType::Q5_0) {
      write_q50(block, zero_point, scale, out);
    } else if (zero_point != middle) {
      fail(tensors_.zeros->name, ": the zero point of row ", row, ", group ", group, " is ",
           zero_point, ", expected ", middle, " of symmetric integers of ", layout_.bits, " bits");
    } else if (dtype == DType::Q8_0) {
      write_q80(block, scale, out);
    } else {
      write_q40(block, scale, out);
    }
    out += block_bytes;
    first += kBlock;
  }
}

void IntegerRows::read(std::int64_t begin, std::int64_t count, std::byte* out) const {
  GRAFT_CHECK(begin >= 0 && begin + count <= layout_.rows, layout_.name, ": rows ", begin, " + ",
              count, " of ", layout_.rows);
  const std::size_t row_bytes = bytes_of(layout_.dtype(), layout_.cols);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(kTileRows * layout_.cols));
  std::vector<std::uint16_t> scales;
  for (std::int64_t first = begin; first < begin + count; first += kTileRows) {
    const std::int64_t num_rows = std::min(kTileRows, begin + count - first);
    unpack_rows(first, num_rows, codes.data());
    for (std::int64_t i = 0; i < num_rows; ++i, out += row_bytes) {
      read_scales(first + i, scales);
      write_row(first + i, codes.data() + i * layout_.cols, scales, out);
    }
  }
}

}  // namespace graft::formats
