#include "graft/testing/parity/parity.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "graft/testing/bf16_rounding.h"
#include "graft/testing/parity/cases.h"
#include "graft/testing/parity/weights.h"

namespace graft::ops::testing {
namespace {

using Results = std::vector<ParityResult>;

constexpr std::size_t kNumThreads = 2;

std::vector<ParityCase> cases_of(Role role) {
  switch (role) {
    case Role::Embedding:
      return embedding_cases();
    case Role::Norm:
      return norm_cases();
    case Role::Linear:
      return linear_cases();
    case Role::Rope:
      return rope_cases();
    case Role::KvCache:
      return kv_cache_cases();
    case Role::StateCache:
      return state_cache_cases();
    case Role::Attention: {
      std::vector<ParityCase> cases = attention_cases();
      std::ranges::move(delta_net_cases(), std::back_inserter(cases));
      std::ranges::move(mla_cases(), std::back_inserter(cases));
      std::ranges::move(sparse_mla_cases(), std::back_inserter(cases));
      std::ranges::move(compressed_attention_cases(), std::back_inserter(cases));
      return cases;
    }
    case Role::Indexer: {
      std::vector<ParityCase> cases = indexer_cases();
      std::ranges::move(compressed_indexer_cases(), std::back_inserter(cases));
      return cases;
    }
    case Role::Compressor:
      return compressor_cases();
    case Role::HyperConnection:
      return hyper_connection_cases();
    case Role::Mlp:
      return mlp_cases();
    case Role::Moe:
      return moe_cases();
    case Role::Router:
      return router_cases();
    case Role::Experts:
      return experts_cases();
    case Role::Model:
    case Role::Layer:
    case Role::VisionTower:  // whole images: tests/gpu/vision_test.cpp
    case Role::Projector:
      return {};
  }
  return {};
}

// One dtype per kind of arithmetic.
bool is_one_of_few(DType type) {
  return type == DType::F32 || type == DType::BF16 || type == DType::Q8_0 || type == DType::Q4_K;
}

std::vector<DType> types_of(const ParityCase& of) {
  std::vector<DType> types;
  for (const DType type : weight_types()) {
    const bool is_wanted =
        of.types == ParityCase::Types::Every ||
        (of.types == ParityCase::Types::Few ? is_one_of_few(type) : type == DType::F32);
    if (is_wanted && of.block % info(type).block_elems == 0) types.push_back(type);
  }
  return types;
}

struct Allowed {
  const char* arithmetic;
  double error;
};

Allowed allowed(const Tolerance& tolerance, const ParitySetting& setting) {
  if (setting.is_precise) return {"precise", tolerance.precise};
  if (setting.weights == DType::F32) return {"f32", tolerance.f32};
  if (is_quantized(setting.weights)) return {"quantized", tolerance.quantized};
  return {"half", (rounds_to_bf16() ? 2 : 1) * tolerance.half};
}

bool supports(const OperatorInfo& info, const Kwargs& kwargs) {
  return std::ranges::all_of(
      kwargs, [&](const auto& kwarg) { return info.find_kwarg(kwarg.first) != nullptr; });
}

// Max difference of the rows without padding, relative to the max value of the row.
double row_error(const ParityResult& got, const ParityResult& want, std::int64_t num_rows) {
  if (got.values.size() != want.values.size()) return HUGE_VAL;
  double worst = 0;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const auto first = static_cast<std::size_t>(row * want.cols);
    const auto cols = static_cast<std::size_t>(want.cols);
    const std::span got_row = std::span(got.values).subspan(first, cols);
    const std::span want_row = std::span(want.values).subspan(first, cols);
    double largest = 1e-30;
    double error = 0;
    for (std::size_t i = 0; i < cols; ++i) {
      if (!std::isfinite(got_row[i])) return HUGE_VAL;
      largest = std::max(largest, std::abs(static_cast<double>(want_row[i])));
      error = std::max(error, std::abs(double{got_row[i]} - double{want_row[i]}));
    }
    worst = std::max(worst, error / largest);
  }
  return worst;
}

Results run_batch(OperatorBench& bench, const Exercise& exercise, const ParityBatch& batch) {
  // Two more slots than the batches use, for the cases that move slots.
  if (exercise.states != nullptr) exercise.states->allocate(2 * kParitySequences + 2);
  // Two more blocks than the batches use, for the cases that move blocks.
  std::vector<KvCache*> caches = exercise.caches;
  caches.insert(caches.end(), {exercise.cache, exercise.index_cache});
  std::erase(caches, nullptr);
  for (KvCache* cache : caches)
    cache->allocate(kParityBlocks + 2, kParityBlockTokens);
  if (!caches.empty() || exercise.states != nullptr) {
    if (batch.history.num_tokens() > 0) {
      DeviceRun history(bench, batch.history, Phase::Prefill);
      exercise.forward(history);
    }
  }
  DeviceRun run(bench, batch.batch, batch.phase);
  return exercise.forward(run);
}

// Compares operators of one role.
class Check {
 public:
  Check(const Registry& registry, std::vector<const OperatorInfo*> operators)
      : registry_(registry), devices_(registry), operators_(std::move(operators)) {}

  void check(const ParityCase& of) {
    for (const DType weights : types_of(of)) {
      reference_.clear();
      for (const OperatorInfo* op : operators_) {
        if (op->accepts && !op->accepts(weights)) continue;
        if (op->fits && !op->fits(of.params)) continue;
        check(of, *op, weights);
      }
    }
  }

  ParityReport report;

 private:
  // Only the first kwargs run with every dtype, to save time.
  void check(const ParityCase& of, const OperatorInfo& op, DType weights) {
    for (const Kwargs& kwargs : of.kwargs) {
      const bool is_selected = &kwargs == &of.kwargs.front() || is_one_of_few(weights);
      if (!is_selected || !supports(op, kwargs)) continue;
      for (const bool is_precise : {false, true})
        check(of, op, {.weights = weights, .is_precise = is_precise, .kwargs = kwargs});
    }
  }

  void check(const ParityCase& of, const OperatorInfo& op, const ParitySetting& setting) {
    std::string where = str(op.name, ": ", of.name, ", ", name(setting.weights));
    for (const auto& [key, value] : setting.kwargs)
      where += str(", ", key, ": ", value);
    if (setting.is_precise) where += ", precise";
    try {
      OperatorBench bench(registry_, devices_, pool_, &op, setting);
      const std::optional<Exercise> exercise = build(of, bench);
      if (!exercise || (setting.is_precise && !bench.has_precise_kwargs())) return;
      for (std::size_t i = 0; i < parity_batches().size(); ++i) {
        const Results got = run_batch(bench, *exercise, parity_batches()[i]);
        compare(got, reference(of, setting.weights)[i], parity_batches()[i],
                allowed(of.tolerance, setting), {op.name, where});
      }
    } catch (const std::exception& error) {
      report.findings.push_back(str(where, ": throws: ", error.what()));
    }
  }

  // Nullopt when the operator rejects kwargs that it may reject.
  static std::optional<Exercise> build(const ParityCase& of, OperatorBench& bench) {
    try {
      return of.build(bench);
    } catch (const Error&) {
      if (!of.may_reject) throw;
      return std::nullopt;
    }
  }

  // The results of the reference by batch.
  const std::vector<Results>& reference(const ParityCase& of, DType weights) {
    if (!reference_.empty()) return reference_;
    OperatorBench bench(builtin_, builtin_devices_, pool_, nullptr, {.weights = weights});
    const Exercise exercise = of.build(bench);
    for (const ParityBatch& batch : parity_batches())
      reference_.push_back(run_batch(bench, exercise, batch));
    return reference_;
  }

  struct Where {
    const std::string& op;
    const std::string& setting;
  };

  void compare(const Results& got,
               const Results& want,
               const ParityBatch& batch,
               const Allowed& allowed,
               const Where& where) {
    ParityReport::Summary& summary = report.by_operator[where.op];
    ++summary.num_passes;
    for (std::size_t i = 0; i < want.size(); ++i) {
      GRAFT_CHECK(want[i].cols > 0, want[i].name, " has no columns");
      const auto all_rows = static_cast<std::int64_t>(want[i].values.size()) / want[i].cols;
      const bool is_by_token = all_rows == batch.batch.num_tokens();
      const double error = row_error(got[i], want[i], is_by_token ? batch.kept_rows() : all_rows);
      const double limit = want[i].is_exact ? 0 : allowed.error;
      if (!(error <= limit)) {
        report.findings.push_back(str(where.setting, ", ", batch.name, ": ", want[i].name,
                                      ": error ", error, ", allowed ", limit));
      } else if (limit > 0) {
        double& worst = summary.worst[allowed.arithmetic];
        worst = std::max(worst, error / limit);
      }
    }
  }

  const Registry& registry_;
  PassDevices devices_;
  Registry builtin_ = builtin_operators();
  PassDevices builtin_devices_{builtin_};
  ThreadPool pool_{kNumThreads};
  std::vector<const OperatorInfo*> operators_;
  std::vector<Results> reference_;  // of the current case and dtype
};

}  // namespace

std::string ParityReport::text() const {
  std::string lines;
  for (const auto& [op, summary] : by_operator) {
    lines += str(op, ": ", summary.num_passes, " passes");
    for (const auto& [arithmetic, share] : summary.worst)
      lines += str(", ", arithmetic, " at ", std::lround(100 * share), " % of its tolerance");
    lines += "\n";
  }
  return lines;
}

const std::vector<Role>& parity_roles() {
  static const std::vector<Role> roles = [] {
    std::vector<Role> found;
    for (std::size_t i = 0; i < kRoleNames.size(); ++i) {
      if (!cases_of(static_cast<Role>(i)).empty()) found.push_back(static_cast<Role>(i));
    }
    return found;
  }();
  return roles;
}

ParityReport check_role(const Registry& registry, Role role) {
  Check check(registry, registry.of_role(role));
  for (const ParityCase& of : cases_of(role))
    check.check(of);
  return std::move(check.report);
}

ParityReport check_operator(const Registry& registry, const OperatorInfo& op) {
  Check check(registry, {&op});
  for (const ParityCase& of : cases_of(op.role))
    check.check(of);
  return std::move(check.report);
}

}  // namespace graft::ops::testing
