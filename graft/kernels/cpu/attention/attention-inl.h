// Online softmax of attention, one block of keys at a time, and the merge of partial softmax states
// (max, sum, output) of KV splits. Lanes are query rows, so rows are independent: the result is
// batch-invariant. Scores are in base 2 (scaled by log2(e) by the caller). See
// graft/quant/simd-inl.h for the rules of these files: included inside an instruction-set region,
// after product-inl.h and elementwise-inl.h.

namespace {

// 2^x for x <= 0 to two units in the last place, at least 2^-125. NaN stays NaN.
template <int kCount>
GRAFT_INLINE F32<kCount> exp2_lanes(F32<kCount> x) {
  if constexpr (kCount > kNativeLanes) {
    return {exp2_lanes(x.low), exp2_lanes(x.high)};
  } else {
    using N = F32<kNativeLanes>;
    const N limited = vmax(N(-125.0F), x);
    const N n = round_even(limited);
    const N r = limited - n;
    N p = N(1.535336188319500e-4F);
    p = mul_add(p, r, N(1.339887440266574e-3F));
    p = mul_add(p, r, N(9.618437357674640e-3F));
    p = mul_add(p, r, N(5.550332471162809e-2F));
    p = mul_add(p, r, N(2.402264791363012e-1F));
    p = mul_add(p, r, N(6.931472028550421e-1F));
    p = mul_add(p, r, N(1.0F));
    return p * N(power_of_two(n.v));
  }
}

// Repeats kWidth rows over the 16 lanes: a vector holds kWidth query rows for 16 / kWidth keys.
template <int kWidth>
GRAFT_INLINE F32x16 repeat(const float* rows) {
  float t[kLanes];
  for (int i = 0; i < kLanes; ++i)
    t[i] = rows[i % kWidth];
  return load(t);
}

// Mask of the visible keys per lane; keys are compared as floats.
struct Visible {
  F32x16 first;
  F32x16 end;
  F32x16 key;  // key index of each lane in the first vector

  GRAFT_INLINE Mask<kLanes> operator()(float offset) const {
    const F32x16 at = key + F32x16(offset);
    return (at > first) & (at < end);
  }
};

template <int kWidth>
GRAFT_INLINE Visible visible_keys(const SoftmaxBlock& b, std::int64_t column) {
  float first[kWidth] = {};
  float end[kWidth] = {};
  float key[kLanes];
  for (int i = 0; i < kWidth && b.first != nullptr; ++i) {
    first[i] = static_cast<float>(b.first[column + i]) - 0.5F;
    end[i] = static_cast<float>(b.end[column + i]);
  }
  for (int i = 0; i < kLanes; ++i) {
    const int key_in_vector = i / kWidth;
    key[i] = static_cast<float>(key_in_vector);
  }
  return {repeat<kWidth>(first), repeat<kWidth>(end), load(key)};
}

GRAFT_INLINE F32x16 swap_halves(F32x16 v) {
#if GRAFT_VECTOR_BYTES == 64
  return {NativeF32(
      __builtin_shufflevector(v.v, v.v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7))};
#else
  return {v.high, v.low};
#endif
}

// Swaps the first quarter with the second and the third with the fourth.
GRAFT_INLINE F32x16 swap_quarters(F32x16 v) {
#if GRAFT_VECTOR_BYTES == 64
  return {NativeF32(
      __builtin_shufflevector(v.v, v.v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11))};
#elif GRAFT_VECTOR_BYTES == 32
  return {F32<8>(NativeF32(__builtin_shufflevector(v.low.v, v.low.v, 4, 5, 6, 7, 0, 1, 2, 3))),
          F32<8>(NativeF32(__builtin_shufflevector(v.high.v, v.high.v, 4, 5, 6, 7, 0, 1, 2, 3)))};
#else
  return {F32<8>(v.low.high, v.low.low), F32<8>(v.high.high, v.high.low)};
#endif
}

template <int kWidth>
GRAFT_INLINE void store_rows(float* to, F32x16 v) {
  float t[kLanes];
  store(t, v);
  __builtin_memcpy(to, t, kWidth * sizeof(float));
}

// Reduces lanes [key][row] over the keys, the two halves first, and broadcasts the result to all
// keys.
template <class Op, int kWidth>
GRAFT_INLINE F32x16 reduce_keys(F32x16 v) {
  if constexpr (kWidth < 16) v = Op::apply(v, swap_halves(v));
  if constexpr (kWidth < 8) v = Op::apply(v, swap_quarters(v));
  return v;
}

// Sixteen lanes of the block starting at `column`. Keys are summed in four partial sums by key
// index modulo 4, the same ones whether a vector holds one, two or four keys.
template <int kWidth, bool kMasked>
void softmax_lanes(const SoftmaxBlock& b, std::int64_t column) {
  constexpr int kKeys = kLanes / kWidth;  // per vector
  constexpr int kVectors = 4 / kKeys;     // per four keys
  const std::int64_t step = kKeys == 1 ? b.width : kLanes;
  const std::int64_t num_quads = (b.count + 3) / 4;
  float* const scores = b.scores + column;
  const Visible visible = visible_keys<kWidth>(b, column);

  const F32x16 minus_infinity = -__builtin_inff();
  F32x16 largest[4] = {minus_infinity, minus_infinity, minus_infinity, minus_infinity};
  for (std::int64_t quad = 0; quad < num_quads; ++quad) {
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      F32x16 s = load(scores + (quad * kVectors + i) * step);
      if constexpr (kMasked) {
        s = select(visible(static_cast<float>(quad * 4 + i * kKeys)), s, minus_infinity);
      }
      largest[i] = vmax(largest[i], s);
    }
  }
  const F32x16 old_max = repeat<kWidth>(b.max + column);
  const F32x16 new_max = vmax(
      old_max,
      reduce_keys<Max, kWidth>(vmax(vmax(largest[0], largest[2]), vmax(largest[1], largest[3]))));

  F32x16 sums[4] = {0.0F, 0.0F, 0.0F, 0.0F};
  for (std::int64_t quad = 0; quad < num_quads; ++quad) {
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      float* const at = scores + (quad * kVectors + i) * step;
      F32x16 weight = exp2_lanes(load(at) - new_max);
      if constexpr (kMasked) {
        weight = select(visible(static_cast<float>(quad * 4 + i * kKeys)), weight, 0.0F);
      }
      sums[i] += weight;
      store(at, weight);
    }
  }
  const F32x16 sum =
      reduce_keys<Add, kWidth>(kVectors == 4   ? (sums[0] + sums[2]) + (sums[1] + sums[3])
                               : kVectors == 2 ? sums[0] + sums[1]
                                               : sums[0]);
  // A row without visible keys in this block keeps its state; its max may still be -infinity.
  const F32x16 correction = select(new_max == old_max, F32x16(1.0F), exp2_lanes(old_max - new_max));
  store_rows<kWidth>(b.sum + column, repeat<kWidth>(b.sum + column) * correction + sum);
  store_rows<kWidth>(b.max + column, new_max);
  store_rows<kWidth>(b.correction + column, correction);
}

template <bool kMasked>
void softmax_columns(const SoftmaxBlock& b) {
  if (b.width == 4) return softmax_lanes<4, kMasked>(b, 0);
  if (b.width == 8) return softmax_lanes<8, kMasked>(b, 0);
  for (std::int64_t column = 0; column < b.width; column += kLanes)
    softmax_lanes<16, kMasked>(b, column);
}

inline void softmax_block(const SoftmaxBlock& b) {
  if (b.first == nullptr) {
    softmax_columns<false>(b);
  } else {
    softmax_columns<true>(b);
  }
}

inline void softmax_merge(SoftmaxState to,
                          SoftmaxState from,
                          std::int64_t rows,
                          std::int64_t cols) {
  const float minus_infinity = -__builtin_inff();
  for (std::int64_t r = 0; r < rows; ++r) {
    if (from.max[r] == minus_infinity) continue;
    float* const y = to.acc + r * cols;
    const float* const x = from.acc + r * cols;
    if (to.max[r] == minus_infinity) {
      to.max[r] = from.max[r];
      to.sum[r] = from.sum[r];
      __builtin_memcpy(y, x, static_cast<std::size_t>(cols) * sizeof(float));
      continue;
    }
    const float max = to.max[r] > from.max[r] ? to.max[r] : from.max[r];
    const NativeF32 a = exp2_lanes(F32<kNativeLanes>(to.max[r] - max)).v;
    const NativeF32 b = exp2_lanes(F32<kNativeLanes>(from.max[r] - max)).v;
    std::int64_t i = 0;
    for (; i + kNativeLanes <= cols; i += kNativeLanes) {
      const NativeF32 v = mul_add(load_native(x + i), b, load_native(y + i) * a);
      __builtin_memcpy(y + i, &v, sizeof(v));
    }
    for (; i < cols; ++i)
      y[i] = mul_add(x[i], b[0], y[i] * a[0]);
    to.sum[r] = mul_add(from.sum[r], b[0], to.sum[r] * a[0]);
    to.max[r] = max;
  }
}

}  // namespace
