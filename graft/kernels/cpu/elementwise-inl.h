// Elementwise functions and reductions of one row; declared in math.h. See graft/quant/simd-inl.h
// for the rules of these files: included inside an instruction-set region, after simd-inl.h.

namespace {

GRAFT_INLINE F32x16 load_tail(const float* from, std::int64_t count, float padding) {
  float t[kLanes];
  for (std::int64_t i = 0; i < kLanes; ++i)
    t[i] = i < count ? from[i] : padding;
  return load(t);
}

GRAFT_INLINE void store_tail(float* to, std::int64_t count, F32x16 v) {
  float t[kLanes];
  store(t, v);
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = t[i];
}

// 2^n for integer n in -126..127
GRAFT_INLINE NativeF32 power_of_two(NativeF32 n) {
  return reinterpret_cast<NativeF32>((__builtin_convertvector(n, NativeI32) + 127) << 23);
}

// exp to 2 units in the last place; 0 where the result would be subnormal, at most exp(88). NaN
// stays NaN. exp(x) = 2^n exp(r) with |r| <= ln(2) / 2, and a polynomial for exp(r).
template <int kCount>
GRAFT_INLINE F32<kCount> exp_lanes(F32<kCount> x) {
  if constexpr (kCount > kNativeLanes) {
    return {exp_lanes(x.low), exp_lanes(x.high)};
  } else {
    using N = F32<kNativeLanes>;
    constexpr float kLowest = -87.33F;
    const N limited = vmin(vmax(x, N(kLowest)), N(88.0F));
    const N n = round_even(limited * N(1.44269504F));
    // ln(2) in two parts; the first has few enough bits that its product with n is exact.
    const N r = (limited - n * N(0.693359375F)) - n * N(-2.12194440e-4F);
    N p = N(1.9875691500e-4F);
    p = p * r + N(1.3981999507e-3F);
    p = p * r + N(8.3334519073e-3F);
    p = p * r + N(4.1665795894e-2F);
    p = p * r + N(1.6666665459e-1F);
    p = p * r + N(5.0000001201e-1F);
    p = p * (r * r) + r + N(1.0F);
    const N value = p * N(power_of_two(n.v));
    const auto is_nan = x != x;  // NOLINT(misc-redundant-expression)
    return choose(is_nan, x, choose(x < N(kLowest), N(0.0F), value));
  }
}

GRAFT_INLINE F32x16 sigmoid_lanes(F32x16 x) {
  return F32x16(1.0F) / (F32x16(1.0F) + exp_lanes(-x));
}

inline void rms_norm(const float* x, const float* weight, float* y, std::int64_t n, float eps) {
  F32x16 squares = 0.0F;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F32x16 v = load(x + i);
    squares += v * v;
  }
  if (i < n) {
    const F32x16 v = load_tail(x + i, n - i, 0.0F);
    squares += v * v;
  }
  const float inverse_rms = 1.0F / __builtin_sqrtf(sum(squares) / static_cast<float>(n) + eps);
  for (i = 0; i + kLanes <= n; i += kLanes)
    store(y + i, load(x + i) * F32x16(inverse_rms) * load(weight + i));
  for (; i < n; ++i)
    y[i] = x[i] * inverse_rms * weight[i];
}

inline float max(const float* x, std::int64_t n) {
  F32x16 largest = x[0];
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    largest = vmax(largest, load(x + i));
  if (i < n) largest = vmax(largest, load_tail(x + i, n - i, x[0]));
  return max_lane(largest);
}

inline float exp_sum(float* x, std::int64_t n, float max) {
  F32x16 total = 0.0F;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F32x16 v = exp_lanes(load(x + i) - F32x16(max));
    total += v;
    store(x + i, v);
  }
  if (i < n) {
    // Padding with -infinity, whose exp is 0.
    const F32x16 v = exp_lanes(load_tail(x + i, n - i, -__builtin_inff()) - F32x16(max));
    total += v;
    store_tail(x + i, n - i, v);
  }
  return sum(total);
}

inline void scale(float* x, std::int64_t n, float factor) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(x + i, load(x + i) * F32x16(factor));
  for (; i < n; ++i)
    x[i] = x[i] * factor;
}

inline void axpy(float a, const float* x, float* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(y + i, load(y + i) + F32x16(a) * load(x + i));
  for (; i < n; ++i)
    y[i] = y[i] + a * x[i];
}

inline void silu_mul(const float* gate, const float* up, float* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F32x16 g = load(gate + i);
    store(y + i, g * sigmoid_lanes(g) * load(up + i));
  }
  if (i < n) {
    const F32x16 g = load_tail(gate + i, n - i, 0.0F);
    store_tail(y + i, n - i, g * sigmoid_lanes(g) * load_tail(up + i, n - i, 0.0F));
  }
}

// 0.5 x (1 + tanh(z)) = x sigmoid(2 z), z = sqrt(2 / pi) (x + 0.044715 x^3).
GRAFT_INLINE F32x16 gelu_lanes(F32x16 x) {
  const F32x16 twice_z = F32x16(1.5957691216F) * (x + F32x16(0.044715F) * x * x * x);
  return x * sigmoid_lanes(twice_z);
}

inline void gelu_mul(const float* gate, const float* up, float* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(y + i, gelu_lanes(load(gate + i)) * load(up + i));
  if (i < n) {
    const F32x16 g = gelu_lanes(load_tail(gate + i, n - i, 0.0F));
    store_tail(y + i, n - i, g * load_tail(up + i, n - i, 0.0F));
  }
}

GRAFT_INLINE F32x16 clamped_swiglu_lanes(F32x16 gate, F32x16 up, float limit) {
  const F32x16 g = vmin(gate, F32x16(limit));
  const F32x16 u = vmin(vmax(up, F32x16(-limit)), F32x16(limit));
  return g * sigmoid_lanes(g * F32x16(kClampedSwigluAlpha)) * (u + F32x16(1.0F));
}

inline void clamped_swiglu(
    const float* gate, const float* up, float* y, std::int64_t n, float limit) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(y + i, clamped_swiglu_lanes(load(gate + i), load(up + i), limit));
  if (i < n) {
    store_tail(y + i, n - i,
               clamped_swiglu_lanes(load_tail(gate + i, n - i, 0.0F),
                                    load_tail(up + i, n - i, 0.0F), limit));
  }
}

inline void sigmoid(float* x, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(x + i, sigmoid_lanes(load(x + i)));
  if (i < n) store_tail(x + i, n - i, sigmoid_lanes(load_tail(x + i, n - i, 0.0F)));
}

// Not fused: the same bits at every level.
inline void rope_halves(float* x, const float* cosines, const float* sines, std::int64_t half) {
  float* const y = x + half;
  std::int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const F32x16 a = load(x + i);
    const F32x16 b = load(y + i);
    const F32x16 c = load(cosines + i);
    const F32x16 s = load(sines + i);
    store(x + i, a * c - b * s);
    store(y + i, b * c + a * s);
  }
  for (; i < half; ++i) {
    const float a = x[i];
    x[i] = a * cosines[i] - y[i] * sines[i];
    y[i] = y[i] * cosines[i] + a * sines[i];
  }
}

template <int kCount>
GRAFT_INLINE F32<kCount> swap_neighbours(F32<kCount> v) {
  if constexpr (kCount > kNativeLanes) {
    return {swap_neighbours(v.low), swap_neighbours(v.high)};
  } else {
#if GRAFT_VECTOR_BYTES == 64
    return {NativeF32(
        __builtin_shufflevector(v.v, v.v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14))};
#elif GRAFT_VECTOR_BYTES == 32
    return {NativeF32(__builtin_shufflevector(v.v, v.v, 1, 0, 3, 2, 5, 4, 7, 6))};
#else
    return {NativeF32(__builtin_shufflevector(v.v, v.v, 1, 0, 3, 2))};
#endif
  }
}

inline void rope_pairs(float* x, const float* cosines, const float* sines, std::int64_t half) {
  std::int64_t i = 0;
  for (; i + kLanes <= 2 * half; i += kLanes) {
    const F32x16 v = load(x + i);
    store(x + i, v * load(cosines + i) + swap_neighbours(v) * load(sines + i));
  }
  for (; i < 2 * half; i += 2) {
    const float a = x[i];
    const float b = x[i + 1];
    x[i] = a * cosines[i] + b * sines[i];
    x[i + 1] = b * cosines[i + 1] + a * sines[i + 1];
  }
}

}  // namespace
