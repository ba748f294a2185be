// The grids of quant/iq_grids.h in the forms that the unpackers of panels look up. Codes of IQ1 are
// 8 (grid value) + delta + offset, so their tables hold 8 (grid value) + offset.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/quant/iq_grids.h"

namespace graft::kernels::cpu {

inline constexpr int kIq1Offset = 9;

// One row after another, for loads of a row.
template <std::size_t kRows, int kValues>
struct RowTable {
  static constexpr int kRowValues = kValues;
  alignas(64) std::uint8_t rows[kRows][kValues];
};

// Rows of eight values of three kinds: two bits per value, four values per byte. vpermi2b looks up
// bytes and vpermb the values.
template <std::size_t kRows>
struct DigitTable {
  static constexpr int kRowValues = 8;
  static constexpr std::size_t kNumRows = kRows;
  alignas(64) std::uint8_t digits[2][kRows];
  alignas(64) std::uint8_t values[64];  // of a digit in the low two bits, plus the offset
};

// Rows of four values: a table per column, with the offset added.
template <std::size_t kRows>
struct ColumnTable {
  static constexpr int kRowValues = 4;
  static constexpr std::size_t kNumRows = kRows;
  alignas(64) std::uint8_t columns[4][kRows];
};

namespace detail {

template <std::size_t kRows, int kValues>
consteval RowTable<kRows, kValues> row_table(const quant::Grid<kRows, kValues>& grid,
                                             int factor,
                                             int offset) {
  RowTable<kRows, kValues> table{};
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t i = 0; i < kValues; ++i)
      table.rows[row][i] = static_cast<std::uint8_t>(factor * grid.rows[row][i] + offset);
  }
  return table;
}

template <std::size_t kRows>
consteval DigitTable<kRows> digit_table(const quant::Grid<kRows, 8>& grid,
                                        const std::int8_t (&values)[3],
                                        int factor,
                                        int offset) {
  DigitTable<kRows> table{};
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t i = 0; i < 8; ++i) {
      unsigned digit = 0;
      while (values[digit] != grid.rows[row][i])
        ++digit;
      table.digits[i / 4][row] |= static_cast<std::uint8_t>(digit << (i % 4 * 2));
    }
  }
  for (std::size_t i = 0; i < 64; ++i) {
    if (i % 4 < 3) table.values[i] = static_cast<std::uint8_t>(factor * values[i % 4] + offset);
  }
  return table;
}

template <std::size_t kRows>
consteval ColumnTable<kRows> column_table(const quant::Grid<kRows, 4>& grid, int offset) {
  ColumnTable<kRows> table{};
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t i = 0; i < 4; ++i)
      table.columns[i][row] = static_cast<std::uint8_t>(grid.rows[row][i] + offset);
  }
  return table;
}

}  // namespace detail

inline constexpr auto kIq1Rows = detail::row_table(quant::kIq1Grid, 8, kIq1Offset);
inline constexpr auto kIq2XxsRows = detail::row_table(quant::kIq2XxsGrid, 1, 0);
inline constexpr auto kIq2XsRows = detail::row_table(quant::kIq2XsGrid, 1, 0);
inline constexpr auto kIq2SRows = detail::row_table(quant::kIq2SGrid, 1, 0);
inline constexpr auto kIq3XxsRows = detail::row_table(quant::kIq3XxsGrid, 1, 0);
inline constexpr auto kIq3SRows = detail::row_table(quant::kIq3SGrid, 1, 0);

inline constexpr auto kIq1Digits =
    detail::digit_table(quant::kIq1Grid, quant::detail::kIq1Digits, 8, kIq1Offset);
inline constexpr auto kIq2XxsDigits =
    detail::digit_table(quant::kIq2XxsGrid, quant::detail::kIq2Digits, 1, 43);
inline constexpr auto kIq2XsDigits =
    detail::digit_table(quant::kIq2XsGrid, quant::detail::kIq2Digits, 1, 43);
inline constexpr auto kIq2SDigits =
    detail::digit_table(quant::kIq2SGrid, quant::detail::kIq2Digits, 1, 43);
inline constexpr auto kIq3XxsColumns = detail::column_table(quant::kIq3XxsGrid, 62);
inline constexpr auto kIq3SColumns = detail::column_table(quant::kIq3SGrid, 15);

}  // namespace graft::kernels::cpu
