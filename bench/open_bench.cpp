// Time to open and list a 10 GB GGUF file: headers only, so milliseconds.

#include <filesystem>

#include <benchmark/benchmark.h>

#include "graft/formats/weight_source.h"

#include "bench/model_file.h"

namespace graft::bench {
namespace {

void open_and_list(benchmark::State& state) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / "graft_open_bench.gguf";
  // 9 B parameters, 128k tokens and as many merges.
  const ModelShape shape = {.hidden_size = 4096,
                            .intermediate_size = 14336,
                            .num_layers = 37,
                            .num_heads = 32,
                            .num_key_value_heads = 8,
                            .vocab_size = 128256,
                            .dtype = DType::Q8_0};
  write_model(path, shape);
  std::uint64_t bytes = 0;
  for (auto _ : state) {
    const auto source = formats::open_weights(path);
    bytes = 0;
    for (const formats::TensorInfo& tensor : source->tensors())
      bytes += tensor.data.size();
    benchmark::DoNotOptimize(bytes);
  }
  state.counters["file_GB"] = static_cast<double>(bytes) / 1e9;
  std::filesystem::remove(path);
}
BENCHMARK(open_and_list)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace graft::bench
