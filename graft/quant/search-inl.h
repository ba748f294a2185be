// The scale search of the encoders. See simd-inl.h for the rules of these files. A lane is a
// candidate scale, not a value: one pass over the values of a (sub-)block tries sixteen candidates,
// every sum runs in the order of the values, and no sum crosses lanes.

namespace {

// Rounding to the integers kLow..kHigh.
template <int kLow, int kHigh>
struct IntegerPoints {
  static GRAFT_INLINE F32x16 nearest(F32x16 t) { return round_even(clamp(t, kLow, kHigh)); }
};

// The values of one (sub-)block with their error weights and sums.
template <int kCount>
struct Values {
  static_assert(kCount % kLanes == 0);

  alignas(64) float x[kCount];
  alignas(64) float weight[kCount];  // weight of the squared error of x
  float sum_w = 0;
  float sum_wx = 0;
  float sum_wxx = 0;
  float low = 0;
  float high = 0;

  bool is_zero() const { return high < kSmallest && low > -kSmallest; }
  // The value of largest magnitude, with its sign.
  float extreme() const { return high > -low ? high : low; }
};

// Reads kCount values. The error of x is weighted by kSigma * rms + kLinear * |x| + kSquare * x^2 /
// rms: large weights matter more to a model than the plain squared error suggests. Weights holds
// the three constants, defined next to each family's encoder.
template <class Weights, int kCount>
GRAFT_INLINE void read_values(const float* from, Values<kCount>& v) {
  F32x16 low = kLargest;
  F32x16 high = -kLargest;
  F32x16 squares = 0.0F;
  for (int i = 0; i < kCount; i += kLanes) {
    const F32x16 x = load_finite(from + i);
    store(v.x + i, x);
    low = vmin(low, x);
    high = vmax(high, x);
    squares += x * x;
  }
  v.low = min_lane(low);
  v.high = max_lane(high);
  const float rms = __builtin_sqrtf(sum(squares) / kCount);
  const float per_rms = inverse(rms);
  for (int i = 0; i < kCount; i += kLanes) {
    const F32x16 size = vabs(load(v.x + i));
    store(v.weight + i,
          Weights::kSigma * rms + size * (Weights::kLinear + Weights::kSquare * per_rms * size));
  }
}

// Subtracts `base` from the values and computes the sums for best_scale_and_min. Removing a large
// common offset first avoids cancellation in these sums.
template <int kCount>
GRAFT_INLINE void sum_values(Values<kCount>& v, float base) {
  F32x16 sum_w = 0.0F;
  F32x16 sum_wx = 0.0F;
  F32x16 sum_wxx = 0.0F;
  for (int i = 0; i < kCount; i += kLanes) {
    const F32x16 x = load(v.x + i) - base;
    const F32x16 w = load(v.weight + i);
    store(v.x + i, x);
    sum_w += w;
    sum_wx += w * x;
    sum_wxx += w * x * x;
  }
  v.low -= base;
  v.high -= base;
  v.sum_w = sum(sum_w);
  v.sum_wx = sum(sum_wx);
  v.sum_wxx = sum(sum_wxx);
}

// 0, 1, 2 ... 15
GRAFT_INLINE F32x16 lane_indices() {
  constexpr float kNumbers[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load(kNumbers);
}

// The lanes as a 4 x 4 grid: columns 0, 1, 2, 3, 0, 1 ... and rows 0, 0, 0, 0, 1, 1 ...
GRAFT_INLINE F32x16 lane_columns() {
  constexpr float kNumbers[kLanes] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
  return load(kNumbers);
}

GRAFT_INLINE F32x16 lane_rows() {
  constexpr float kNumbers[kLanes] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  return load(kNumbers);
}

// The first lane that holds the minimum.
GRAFT_INLINE int argmin_lane(F32x16 v) {
  const unsigned lanes = bits_of(v == F32x16(min_lane(v)));
  return lanes != 0 ? __builtin_ctz(lanes) : 0;
}

// 1 / v, or 0 where v is 0.
GRAFT_INLINE F32x16 inverse(F32x16 v) {
  return select(v != 0.0F, 1.0F / select(v != 0.0F, v, 1.0F), 0.0F);
}

struct Candidate {
  float scale = 0;
  float gain = -1;  // reduction of the error relative to all zeros
};

// For each of sixteen inverse scales: rounds x * inverse to the points and fits the scale to the
// result by least squares. Returns the candidate with the largest gain.
template <class Points, int kCount>
GRAFT_INLINE Candidate best_scale(const Values<kCount>& v, F32x16 inverses, Candidate best) {
  F32x16 sum_xq = 0.0F;
  F32x16 sum_qq = 0.0F;
  for (int i = 0; i < kCount; ++i) {
    const F32x16 q = Points::nearest(v.x[i] * inverses);
    const F32x16 wq = v.weight[i] * q;
    sum_xq += v.x[i] * wq;
    sum_qq += wq * q;
  }
  const F32x16 scale = sum_xq * inverse(sum_qq);
  const F32x16 gain = scale * sum_xq;
  float scales[kLanes];
  float gains[kLanes];
  store(scales, scale);
  store(gains, gain);
  const int lane = argmin_lane(-gain);
  return gains[lane] > best.gain ? Candidate{scales[lane], gains[lane]} : best;
}

// Of the sixteen integer multiples of d next to `first`, the one with the smallest error.
template <class Points, int kCount>
GRAFT_INLINE float refine_multiple(
    const Values<kCount>& v, float d, float first, float low, float high) {
  const F32x16 multiples = clamp(lane_indices() - 7.0F + first, low, high);
  const F32x16 scales = multiples * d;
  const F32x16 inverses = inverse(scales);
  F32x16 errors = 0.0F;
  for (int i = 0; i < kCount; ++i) {
    const F32x16 error = scales * Points::nearest(v.x[i] * inverses) - v.x[i];
    errors += v.weight[i] * (error * error);
  }
  float t[kLanes];
  store(t, multiples);
  return t[argmin_lane(errors)];
}

struct ScaleAndMin {
  float scale = 0;
  float min = 0;  // x = scale q + min
};

// The same for x = scale q + min with q in 0..kHigh, after sum_values(). Lanes try `inverses` as
// the inverse scale and `offsets` as the value of q = 0; with kMinNotPositive the fitted min is at
// most zero.
template <int kHigh, bool kMinNotPositive, int kCount>
GRAFT_INLINE ScaleAndMin best_scale_and_min(const Values<kCount>& v,
                                            F32x16 inverses,
                                            F32x16 offsets) {
  F32x16 sum_q = 0.0F;
  F32x16 sum_qq = 0.0F;
  F32x16 sum_xq = 0.0F;
  const F32x16 shift = -offsets * inverses;
  for (int i = 0; i < kCount; ++i) {
    const F32x16 q = IntegerPoints<0, kHigh>::nearest(v.x[i] * inverses + shift);
    const F32x16 wq = v.weight[i] * q;
    sum_q += wq;
    sum_qq += wq * q;
    sum_xq += v.x[i] * wq;
  }
  const F32x16 determinant = v.sum_w * sum_qq - sum_q * sum_q;
  const F32x16 per_determinant = inverse(determinant);
  F32x16 scale = (v.sum_w * sum_xq - v.sum_wx * sum_q) * per_determinant;
  F32x16 min = (sum_qq * v.sum_wx - sum_q * sum_xq) * per_determinant;
  if constexpr (kMinNotPositive) {
    scale = select(min > 0.0F, sum_xq * inverse(sum_qq), scale);
    min = select(min > 0.0F, 0.0F, min);
  }
  const F32x16 error = v.sum_wxx + scale * (scale * sum_qq + 2.0F * (min * sum_q - sum_xq)) +
                       min * (min * v.sum_w - 2.0F * v.sum_wx);
  constexpr float kUnusable = 3e38F;
  const F32x16 usable = select((determinant > 0.0F) & (scale > 0.0F), error, kUnusable);
  float scales[kLanes];
  float mins[kLanes];
  store(scales, scale);
  store(mins, min);
  float errors[kLanes];
  store(errors, usable);
  const int lane = argmin_lane(usable);
  if (errors[lane] >= kUnusable) return {(v.high - v.low) / kHigh, v.low};
  return {scales[lane], mins[lane]};
}

}  // namespace
