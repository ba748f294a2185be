#include "graft/ops/cpu/linear.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <tuple>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/ops/cpu/operators.h"
#include "graft/testing/ops.h"

namespace graft::ops::cpu {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kIn = 512;
constexpr std::int64_t kOut = 75;

struct Rig {
  ThreadPool pool{2};
  Workspace workspace;
  Batch batch;
  Pass pass{.batch = batch, .pool = pool, .workspace = workspace};
};

TEST(LinearCpu, EveryEncodableTypeEqualsTheProductWithItsDecodedRows) {
  Rig rig;
  for (const DTypeInfo& row : kDTypes) {
    if (kernels::cpu::kernels().codecs[static_cast<std::size_t>(row.type)].encode == nullptr)
      continue;
    SCOPED_TRACE(row.name);
    Random random;
    TestModel model;
    const Floats decoded =
        model.weights.add("l.weight", {kOut, kIn}, random.floats(kOut * kIn), row.type);
    model.weights.add("plain.weight", {kOut, kIn}, decoded);
    const LinearParams params = {.in_features = kIn, .out_features = kOut};
    Floats x = random.floats(5 * kIn);
    Floats got(5 * kOut);
    Floats want(5 * kOut);
    model.add<Linear>("cpu.linear", "l", params, {{"repack", "false"}})
        .forward(view(x, 5, kIn), view(got, 5, kOut), rig.pass);
    model.add<Linear>("cpu.linear", "plain", params)
        .forward(view(x, 5, kIn), view(want, 5, kOut), rig.pass);
    EXPECT_EQ(got, want);
    for (std::size_t r = 0; r < 5; ++r) {
      const auto from = x.begin() + static_cast<std::ptrdiff_t>(r) * kIn;
      const Doubles exact = times(decoded, Doubles(from, from + kIn));
      const auto row_of_got = got.begin() + static_cast<std::ptrdiff_t>(r) * kOut;
      EXPECT_LT(relative_error(Floats(row_of_got, row_of_got + kOut), exact), 1e-5);
    }
  }
}

// Random blocks of a type without an encoder, drawn again until their values are finite and below 8
// in magnitude. Returns them dequantized.
Floats add_random_blocks(TestWeights& weights, DType dtype) {
  const quant::Codec& codec = quant::reference_codecs()[static_cast<std::size_t>(dtype)];
  const auto block_bytes = static_cast<std::size_t>(info(dtype).block_bytes);
  auto buffer = std::make_shared<Buffer>(bytes_of(dtype, kOut * kIn));
  Floats values(static_cast<std::size_t>(info(dtype).block_elems));
  Random random;
  for (std::size_t at = 0; at < buffer->size(); at += block_bytes) {
    do {
      for (std::size_t i = 0; i < block_bytes; ++i)
        buffer->data()[at + i] = static_cast<std::byte>(random.below(256));
      codec.decode(buffer->data() + at, values.data(), values.size());
    } while (!std::ranges::all_of(values, [](float value) { return std::abs(value) < 8; }));
  }
  Weight weight = {.name = "l.weight", .dtype = dtype, .shape = {kOut, kIn}};
  weight.data = buffer->data();
  weight.owned = std::move(buffer);
  weights.add(weight);
  return weight.decode();
}

// Activations are quantized to int8 (steps of 1/127 of the max of 32 values) or rounded to bf16.
TEST(LinearCpu, RepackedWeightsAreWithinQuantizationError) {
  Rig rig;
  constexpr std::int64_t kRows = 103;  // more than the max rows of one kernel call
  int num_packed = 0;
  for (const DTypeInfo& row : kDTypes) {
    if (!packing::has_packed_layout(row.type)) continue;
    ++num_packed;
    SCOPED_TRACE(row.name);
    Random random;
    TestModel model;
    const bool has_encoder =
        kernels::cpu::kernels().codecs[static_cast<std::size_t>(row.type)].encode != nullptr;
    const Floats decoded = has_encoder ? model.weights.add("l.weight", {kOut, kIn},
                                                           random.floats(kOut * kIn), row.type)
                                       : add_random_blocks(model.weights, row.type);
    const LinearParams params = {.in_features = kIn, .out_features = kOut};
    Floats x = random.floats(kRows * kIn);
    Floats got(kRows * kOut);
    model.add<Linear>("cpu.linear", "l", params)
        .forward(view(x, kRows, kIn), view(got, kRows, kOut), rig.pass);
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto from = x.begin() + static_cast<std::ptrdiff_t>(r) * kIn;
      const Doubles exact = times(decoded, Doubles(from, from + kIn));
      const auto row_of_got = got.begin() + static_cast<std::ptrdiff_t>(r) * kOut;
      EXPECT_LT(relative_error(Floats(row_of_got, row_of_got + kOut), exact), 0.02);
    }
  }
  EXPECT_EQ(num_packed, 26);
}

TEST(LinearCpu, ScalesFp8TilesAndAddsTheBias) {
  Rig rig;
  Random random;
  TestModel model;
  constexpr std::int64_t kTile = 32;
  constexpr std::int64_t kColTiles = kIn / kTile;
  const Floats unscaled =
      model.weights.add("l.weight", {kOut, kIn}, random.floats(kOut * kIn), DType::F8_E4M3);
  const Floats bias = model.weights.add("l.bias", {kOut}, random.floats(kOut));
  Weight weight = model.weights.get("l.weight");
  auto scale = std::make_shared<WeightScale>();
  scale->values = random.floats(3 * kColTiles, 0.5F, 1.0F);
  scale->layout =
      quant::ScaleLayout::fit(weight.shape, std::vector<std::int64_t>{3, kColTiles}, kTile, kTile);
  weight.scale = scale;
  model.weights.add(weight);
  auto& linear = model.add<Linear>(
      "cpu.linear", "l", LinearParams{.in_features = kIn, .out_features = kOut, .bias = true});
  Floats x = random.floats(kIn);
  Floats got(kOut);
  linear.forward(view(x, 1, kIn), view(got, 1, kOut), rig.pass);
  Doubles want(kOut);
  for (std::int64_t r = 0; r < kOut; ++r) {
    for (std::int64_t c = 0; c < kIn; ++c) {
      const double factor =
          scale->values[static_cast<std::size_t>(r / kTile * kColTiles + c / kTile)];
      want[static_cast<std::size_t>(r)] +=
          factor * unscaled[static_cast<std::size_t>(r * kIn + c)] * x[static_cast<std::size_t>(c)];
    }
    want[static_cast<std::size_t>(r)] += bias[static_cast<std::size_t>(r)];
  }
  EXPECT_LT(relative_error(got, want), 1e-5);
}

// Several layers in one group, packed or not, with bias or without, of any number of outputs.
TEST(LinearCpu, GroupedLayersMatchSingleLayersBitForBit) {
  Rig rig;
  Random random;
  TestModel model;
  struct Layer {
    std::string module;
    std::int64_t out = 0;
    DType type = DType::F32;
    bool bias = false;
  };
  const std::array layers = {Layer{"a", 700, DType::Q4_K, true}, Layer{"b", 75, DType::Q6_K},
                             Layer{"c", 16, DType::Q4_K}, Layer{"d", 33, DType::F32, true}};
  std::vector<Linear*> linears;
  for (const Layer& layer : layers) {
    model.weights.add(layer.module + ".weight", {layer.out, kIn}, random.floats(layer.out * kIn),
                      layer.type);
    if (layer.bias)
      model.weights.add(layer.module + ".bias", {layer.out}, random.floats(layer.out));
    linears.push_back(&model.add<Linear>(
        "cpu.linear", layer.module,
        LinearParams{.in_features = kIn, .out_features = layer.out, .bias = layer.bias}));
  }
  for (const std::int64_t rows : {0, 1, 7, 203}) {
    Floats x = random.floats(rows * kIn);
    std::vector<Floats> want;
    std::vector<Floats> got;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      want.emplace_back(rows * layers[i].out);
      got.emplace_back(rows * layers[i].out);
      linears[i]->forward(view(x, rows, kIn), view(want[i], rows, layers[i].out), rig.pass);
    }
    const auto call = [&](std::size_t i) {
      return LinearCall{{.op = linears[i], .is_native = true}, view(got[i], rows, layers[i].out)};
    };
    const auto grouped = [&](std::vector<LinearCall> calls) {
      make_primitives()->linear_group(view(x, rows, kIn), calls, rig.pass);
    };
    grouped({call(0), call(1), call(2)});
    grouped({call(3)});
    EXPECT_EQ(got, want) << rows << " rows";
    std::ranges::for_each(got, [](Floats& y) { std::ranges::fill(y, 0.0F); });
    grouped({call(3), call(1), call(0)});
    grouped({call(2)});
    EXPECT_EQ(got, want) << rows << " rows";
  }
}

struct Scales {
  std::vector<std::int64_t> shape;  // empty: none
  std::int64_t tile = 128;
};

void add_scales(TestModel& model, const Scales& scales, Random& random) {
  if (scales.shape.empty()) return;
  Weight weight = model.weights.get("l.weight");
  auto scale = std::make_shared<WeightScale>();
  scale->layout = quant::ScaleLayout::fit(weight.shape, scales.shape, scales.tile, scales.tile);
  scale->values = random.floats(scale->layout.num_scales(), 0.5F, 1.0F);
  weight.scale = scale;
  model.weights.add(weight);
}

// Chunks of x must give the bits of the whole.
void expect_same_bits_in_pieces(Linear& linear, Random& random) {
  Rig rig;
  constexpr std::int64_t kRows = 60;
  Floats x = random.floats(kRows * kIn);
  Floats want(kRows * kOut);
  linear.forward(view(x, kRows, kIn), view(want, kRows, kOut), rig.pass);
  for (const std::int64_t count : {1, 4, 5, 6, 10, 12, 20}) {
    Floats got(want.size());
    for (std::int64_t row = 0; row < kRows; row += count) {
      linear.forward(view(x, kRows, kIn).slice(row, count),
                     view(got, kRows, kOut).slice(row, count), rig.pass);
    }
    EXPECT_EQ(got, want) << count << " rows";
  }
}

// Unpacked FP8: few rows use the fused kernel, many rows dequantize first; scale tiles of 20
// columns always dequantize first.
TEST(LinearCpu, Fp8IsBatchInvariant) {
  for (const DType type : {DType::F8_E4M3, DType::F8_E5M2}) {
    for (const Scales& scales : {Scales{},
                                 {.shape = {1}},
                                 {.shape = {kOut, 1}},
                                 {.shape = {1, kIn / 128}},
                                 {.shape = {(kOut + 31) / 32, kIn / 32}, .tile = 32},
                                 {.shape = {(kOut + 19) / 20, (kIn + 19) / 20}, .tile = 20}}) {
      SCOPED_TRACE(str(name(type), ", tiles of ", scales.tile));
      Random random;
      TestModel model;
      model.weights.add("l.weight", {kOut, kIn}, random.floats(kOut * kIn), type);
      add_scales(model, scales, random);
      expect_same_bits_in_pieces(
          model.add<Linear>("cpu.linear", "l",
                            LinearParams{.in_features = kIn, .out_features = kOut}),
          random);
    }
  }
}

TEST(LinearCpu, RejectsAWeightOfAnotherShape) {
  TestModel model;
  model.weights.add("l.weight", {4, 8}, Floats(32));
  EXPECT_THROW(
      model.add<Linear>("cpu.linear", "l", LinearParams{.in_features = 4, .out_features = 8}),
      Error);
}

TEST(EmbeddingCpu, DecodesTheRowsOfItsTokens) {
  Rig rig;
  Random random;
  TestModel model;
  const Floats table = model.weights.add("e.weight", {10, 64}, random.floats(640), DType::Q8_0);
  auto& embedding = model.add<Embedding>("cpu.embedding", "e",
                                         EmbeddingParams{.vocab_size = 10, .hidden_size = 64});
  const std::vector<std::int32_t> ids = {3, 9, 3, 0};
  Floats y(256);
  embedding.forward(ids, view(y, 4, 64), rig.pass);
  for (std::size_t t = 0; t < ids.size(); ++t) {
    for (std::size_t c = 0; c < 64; ++c)
      EXPECT_EQ(y[t * 64 + c], table[static_cast<std::size_t>(ids[t]) * 64 + c]);
  }
}

TEST(RmsNormCpu, MatchesTheFormulaInPlaceToo) {
  Rig rig;
  Random random;
  TestModel model;
  for (const std::int64_t size : {7, 64, 130}) {
    const std::string module = str("norm", size);
    const Floats weight = model.add_norm(module, size, random);
    auto& op = model.add<Norm>("cpu.rms_norm", module, NormParams{.size = size, .eps = 1e-6});
    Floats x = random.floats(size);
    Floats y(x.size());
    op.forward(view(x, 1, size), view(y, 1, size), rig.pass);
    EXPECT_LT(relative_error(y, norm(weight, widen(x))), 1e-6);
    op.forward(view(x, 1, size), view(x, 1, size), rig.pass);
    EXPECT_EQ(x, y);
  }
}

// Gate and up are fused when both are native packed layers, and composed otherwise.
TEST(MlpCpu, FusedAndComposedGiveTheSameBits) {
  Rig rig;
  Random random;
  constexpr std::int64_t kHidden = 256;
  constexpr std::int64_t kInner = 768;
  constexpr std::int64_t kRows = 100;
  TestModel model;
  for (const auto& [module, out, in] : {std::tuple{"mlp.gate_proj", kInner, kHidden},
                                        {"mlp.up_proj", kInner, kHidden},
                                        {"mlp.down_proj", kHidden, kInner}}) {
    model.weights.add(str(module, ".weight"), {out, in}, random.floats(out * in), DType::Q4_K);
    model.add<Linear>("cpu.linear", module, LinearParams{.in_features = in, .out_features = out});
  }
  Floats x = random.floats(kRows * kHidden);
  const auto run = [&](bool is_native) {
    model.children_are_native = is_native;
    auto& mlp = model.add<Mlp>("cpu.mlp", "mlp",
                               MlpParams{.hidden_size = kHidden, .intermediate_size = kInner});
    Floats y(x.size());
    mlp.forward(view(x, kRows, kHidden), view(y, kRows, kHidden), rig.pass);
    return y;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(MlpCpu, MatchesTheFormula) {
  Rig rig;
  Random random;
  TestModel model;
  const Floats gate = model.add_linear("mlp.gate_proj", 70, 48, random);
  const Floats up = model.add_linear("mlp.up_proj", 70, 48, random);
  const Floats down = model.add_linear("mlp.down_proj", 48, 70, random);
  auto& mlp =
      model.add<Mlp>("cpu.mlp", "mlp", MlpParams{.hidden_size = 48, .intermediate_size = 70});
  Floats x = random.floats(48);
  Floats y(48);
  mlp.forward(view(x, 1, 48), view(y, 1, 48), rig.pass);
  EXPECT_LT(relative_error(y, gated_mlp(gate, up, down, widen(x))), 1e-5);
}

}  // namespace
}  // namespace graft::ops::cpu
