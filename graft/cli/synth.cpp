// graft synth: writes a GGUF file with random weights in the shape of a published model.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graft/base/parallel.h"
#include "graft/base/progress.h"
#include "graft/base/text/json.h"
#include "graft/base/text/units.h"
#include "graft/cli/commands.h"
#include "graft/cli/counted.h"
#include "graft/convert/job.h"
#include "graft/formats/synthetic.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/build/shapes.h"
#include "graft/models/families/tensor_names.h"

namespace graft::cli {
namespace {

struct SynthOptions {
  std::string shape;
  std::string out;
  std::string type = "Q4_K_M";
  std::int64_t layers = 0;
  double expert_skew = 0;
  std::size_t threads = 0;
  bool json = false;
};

// The name under which checkpoints of the family store a weight, alone or inside a larger tensor.
std::string stored_name(const models::ModelConfig& config, const std::string& weight) {
  if (!models::to_gguf(config, weight).empty()) return weight;
  const std::vector<models::FusedName> fused = models::fused_names(*config.family, weight);
  return fused.empty() ? weight : fused.front().stored;
}

std::vector<formats::SyntheticTensor> tensors_of(const models::ModelConfig& config,
                                                 double expert_skew) {
  std::vector<formats::SyntheticTensor> tensors;
  std::set<std::string> weights;              // tied weights are visited twice
  std::map<std::string, std::size_t> places;  // of stored tensors in `tensors`
  models::make_blueprint(config).visit([&](const plan::ModuleSpec& module) {
    for (const plan::WeightSpec& weight : module.weights) {
      if (!weights.insert(weight.name).second) continue;
      const bool is_router = module.role == ops::Role::Router && weight.shape.size() == 2;
      const std::string name = stored_name(config, weight.name);
      const auto [place, is_new] = places.emplace(name, tensors.size());
      if (weight.dtype == DType::I64) {
        tensors.push_back({.name = name, .shape = weight.shape, .num_ids = config.moe.num_experts});
      } else if (is_new) {
        tensors.push_back(
            {.name = name, .shape = weight.shape, .row_skew = is_router ? expert_skew : 0.0});
      } else {
        tensors[place->second].shape[0] += weight.shape[0];  // fused by rows
      }
    }
  });
  return tensors;
}

void synthesize(const SynthOptions& options) {
  models::ModelConfig config = models::shape_config(options.shape);
  if (options.layers > 0) config.num_hidden_layers = options.layers;
  config.num_nextn_predict_layers = 0;
  config.quantization = {};
  auto weights = formats::make_synthetic(config.name, config.vocab_size,
                                         tensors_of(config, options.expert_skew));
  const models::Checkpoint source(std::move(weights), config);
  const convert::Job job = convert::plan_job(source, options.type);
  ThreadPool pool(options.threads);
  Progress progress("synth", job.input_bytes(), stderr);
  for (const std::string& note : job.notes)
    progress.note(note);
  convert::run(job, options.out, pool, progress);
  progress.finish();
  if (options.json) {
    const Json json = {{"file", options.out},
                       {"shape", options.shape},
                       {"layers", config.num_hidden_layers},
                       {"bytes", std::filesystem::file_size(options.out)}};
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("{}: {} with {}, {}\n", options.out, options.shape,
             counted(config.num_hidden_layers, "layer"), bytes_text(job.output_bytes()));
}

std::string shapes_text() {
  std::string text = "Shapes:\n";
  for (const models::Shape& shape : models::shapes())
    text += fmt::format("  {:12} {}\n", shape.name, shape.summary);
  return text;
}

}  // namespace

void add_synth(Command& app) {
  auto options = std::make_shared<SynthOptions>();
  Command* command = app.add_subcommand(
      "synth", "Write a GGUF file with random weights in the shape of a published model");
  command->add_option("SHAPE", options->shape, "Shape name (see below) or path of a config.json")
      ->required();
  command->add_option("OUT", options->out, "GGUF file to write")->required();
  command->add_option("--type", options->type, "Quantization type (default: Q4_K_M)");
  command->add_option("--layers", options->layers, "Number of layers (default: the model's)")
      ->check(Range(1, 1000));
  command
      ->add_option("--expert-skew", options->expert_skew,
                   "Make routers prefer some experts: the row of the expert of rank r is scaled by "
                   "r^-SKEW (default: 0, all alike)")
      ->check(Range(0.0, 10.0))
      ->option_text("SKEW");
  command->add_option("-t,--threads", options->threads, "Number of threads (default: one per core)")
      ->check(Range(1, 4096));
  command->add_flag("--json", options->json, "Print the results as JSON");
  command->footer(shapes_text());
  command->callback([options] { synthesize(*options); });
}

}  // namespace graft::cli
