// Kernels of layers with a recurrent state; declared in math.h. No fused multiply-adds: the same
// bits at every level. See graft/quant/simd-inl.h for the rules of these files: included inside an
// instruction-set region, after elementwise-inl.h.

namespace {

inline void conv_silu(
    const float* const* x, const float* taps, std::int64_t num_taps, float* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    F32x16 total = 0.0F;
    for (std::int64_t j = 0; j < num_taps; ++j)
      total += load(taps + j * n + i) * load(x[j] + i);
    store(y + i, total * sigmoid_lanes(total));
  }
  if (i == n) return;
  F32x16 total = 0.0F;
  for (std::int64_t j = 0; j < num_taps; ++j)
    total += load_tail(taps + j * n + i, n - i, 0.0F) * load_tail(x[j] + i, n - i, 0.0F);
  store_tail(y + i, n - i, total * sigmoid_lanes(total));
}

inline void l2_norm(float* x, std::int64_t n, float eps, float factor) {
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
  scale(x, n, factor / __builtin_sqrtf(sum(squares) + eps));
}

inline void sigmoid_mul(const float* gate, float* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(y + i, load(y + i) * sigmoid_lanes(load(gate + i)));
  if (i < n) {
    const F32x16 factor = sigmoid_lanes(load_tail(gate + i, n - i, 0.0F));
    store_tail(y + i, n - i, load_tail(y + i, n - i, 0.0F) * factor);
  }
}

// One token on kVectors * 16 columns of the state. The sums stay in registers; the state is read
// twice and written twice, from the L1 cache.
template <int kVectors>
GRAFT_INLINE void delta_token(const DeltaRule& r, std::int64_t t, float* state) {
  const float* q = r.q + t * r.qk_stride;
  const float* k = r.k + t * r.qk_stride;
  const F32x16 decay = r.decay[t * r.gate_stride];
  F32x16 sums[kVectors];
  for (int c = 0; c < kVectors; ++c)
    sums[c] = F32x16(0.0F);
  for (std::int64_t i = 0; i < r.key_dim; ++i) {
    float* row = state + i * r.state_stride;
    for (int c = 0; c < kVectors; ++c) {
      const F32x16 s = load(row + c * kLanes) * decay;
      store(row + c * kLanes, s);
      sums[c] += s * F32x16(k[i]);
    }
  }
  const F32x16 beta = r.beta[t * r.gate_stride];
  F32x16 delta[kVectors];
  for (int c = 0; c < kVectors; ++c) {
    delta[c] = (load(r.v + t * r.v_stride + c * kLanes) - sums[c]) * beta;
    sums[c] = F32x16(0.0F);
  }
  for (std::int64_t i = 0; i < r.key_dim; ++i) {
    float* row = state + i * r.state_stride;
    for (int c = 0; c < kVectors; ++c) {
      const F32x16 s = load(row + c * kLanes) + F32x16(k[i]) * delta[c];
      store(row + c * kLanes, s);
      sums[c] += s * F32x16(q[i]);
    }
  }
  for (int c = 0; c < kVectors; ++c)
    store(r.out + t * r.out_stride + c * kLanes, sums[c]);
}

// One token on fewer than 16 columns.
inline void delta_token_tail(const DeltaRule& r, std::int64_t t) {
  const float* q = r.q + t * r.qk_stride;
  const float* k = r.k + t * r.qk_stride;
  const float decay = r.decay[t * r.gate_stride];
  const float beta = r.beta[t * r.gate_stride];
  for (std::int64_t c = 0; c < r.cols; ++c) {
    float sum = 0.0F;
    for (std::int64_t i = 0; i < r.key_dim; ++i) {
      float& s = r.state[i * r.state_stride + c];
      s = s * decay;
      sum = sum + s * k[i];
    }
    const float delta = (r.v[t * r.v_stride + c] - sum) * beta;
    sum = 0.0F;
    for (std::int64_t i = 0; i < r.key_dim; ++i) {
      float& s = r.state[i * r.state_stride + c];
      s = s + k[i] * delta;
      sum = sum + s * q[i];
    }
    r.out[t * r.out_stride + c] = sum;
  }
}

template <int kVectors>
inline void delta_columns(const DeltaRule& r) {
  for (std::int64_t t = 0; t < r.tokens; ++t)
    delta_token<kVectors>(r, t, r.state);
}

inline void delta_rule(const DeltaRule& rule) {
  DeltaRule r = rule;
  while (r.cols > 0) {
    const std::int64_t cols = r.cols >= 4 * kLanes ? 4 * kLanes
                              : r.cols >= kLanes   ? kLanes
                                                   : r.cols;
    if (cols == 4 * kLanes) {
      delta_columns<4>(r);
    } else if (cols == kLanes) {
      delta_columns<1>(r);
    } else {
      for (std::int64_t t = 0; t < r.tokens; ++t)
        delta_token_tail(r, t);
    }
    r.v += cols;
    r.out += cols;
    r.state += cols;
    r.cols -= cols;
  }
}

}  // namespace
