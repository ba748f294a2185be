// graft convert and graft quantize: write a checkpoint as a GGUF file with other tensor types.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/parallel.h"
#include "graft/base/progress.h"
#include "graft/base/text/json.h"
#include "graft/base/text/units.h"
#include "graft/cli/commands.h"
#include "graft/cli/counted.h"
#include "graft/convert/job.h"
#include "graft/convert/merge_lora.h"
#include "graft/convert/plan_mmproj.h"
#include "graft/models/lora/adapter.h"
#include "graft/models/weights/checkpoint.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;

struct ConvertOptions {
  std::string in;
  std::string out;
  std::string type = "auto";
  std::string lora;  // NAME=PATH[:SCALE]; empty: none
  std::size_t threads = 0;
  bool json = false;
};

// Overwriting an input file would destroy it while it is read.
void check_not_input(const formats::WeightSource& source, const fs::path& out) {
  for (const fs::path& file : source.files()) {
    std::error_code error;
    if (fs::equivalent(file, out, error))
      fail(out.string(), ": output and input are the same file");
  }
}

struct TypeTally {
  int tensors = 0;
  std::uint64_t bytes = 0;
};

std::map<DType, TypeTally> tally_types(const convert::Job& job) {
  std::map<DType, TypeTally> types;
  for (const convert::Recipe& recipe : job.recipes) {
    TypeTally& tally = types[recipe.dtype];
    ++tally.tensors;
    tally.bytes += bytes_of(recipe.dtype, recipe.num_rows() * recipe.row_elems());
  }
  return types;
}

void print_types(const convert::Job& job) {
  for (const auto& [type, tally] : tally_types(job)) {
    fmt::print("  {:8} {:5} {:7}  {:>10}\n", name(type), tally.tensors,
               tally.tensors == 1 ? "tensor" : "tensors", bytes_text(tally.bytes));
  }
}

// {"file", "bytes", "seconds", "types": {"Q4_K": {"tensors", "bytes"}}}
void print_json_result(const convert::Job& job, const std::string& out, double seconds) {
  Json types = Json::object();
  for (const auto& [type, tally] : tally_types(job))
    types[std::string(name(type))] = {{"tensors", tally.tensors}, {"bytes", tally.bytes}};
  const Json json = {
      {"file", out}, {"bytes", fs::file_size(out)}, {"seconds", seconds}, {"types", types}};
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

// The vision tower of a LLaVA folder becomes a file of its own beside the model.
void convert_mmproj(const models::Checkpoint& source,
                    const ConvertOptions& options,
                    ThreadPool& pool) {
  const auto job = convert::plan_mmproj(source, options.type);
  if (!job) return;
  const fs::path out = convert::mmproj_path(options.out);
  check_not_input(source, out);
  Progress progress("convert vision tower", job->input_bytes(), stderr);
  convert::run(*job, out, pool, progress);
  progress.finish();
  if (!options.json)
    fmt::print("{}: {}, the vision tower\n", out.string(), bytes_text(fs::file_size(out)));
}

void convert_file(const ConvertOptions& options, const char* label) {
  const std::unique_ptr<models::Checkpoint> source = models::open_checkpoint(options.in);
  check_not_input(*source, options.out);
  convert::Job job = convert::plan_job(*source, options.type);
  if (!options.lora.empty()) convert::merge_lora(job, models::parse_adapter_source(options.lora));
  ThreadPool pool(options.threads);
  Progress progress(label, job.input_bytes(), stderr);
  for (const std::string& warning : source->warnings())
    progress.note(warning);
  for (const std::string& note : job.notes)
    progress.note(note);
  const auto start = std::chrono::steady_clock::now();
  convert::run(job, options.out, pool, progress);
  progress.finish();
  convert_mmproj(*source, options, pool);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.json) return print_json_result(job, options.out, seconds);
  print_types(job);
  fmt::print(
      "{}: {} in {}, {}/s read, {}\n", options.out, bytes_text(fs::file_size(options.out)),
      duration_text(seconds),
      bytes_text(static_cast<std::uint64_t>(static_cast<double>(job.input_bytes()) / seconds)),
      counted(static_cast<std::int64_t>(pool.num_threads()), "thread"));
}

void add_common_options(Command& command, const std::shared_ptr<ConvertOptions>& options) {
  command.add_option("-t,--threads", options->threads, "Number of threads (default: one per core)")
      ->check(Range(1, 4096));
  command
      .add_option("--merge-lora", options->lora,
                  "LoRA adapter to merge into the weights: PEFT for a folder, GGUF for a GGUF file")
      ->option_text("NAME=PATH[:SCALE]");
  command.add_flag("--json", options->json, "Print the results as JSON");
}

std::string known_types() {
  std::string text = "Types:\n";
  for (const convert::Mix& mix : convert::mixes())
    text += fmt::format("  {:8} {}\n", mix.name, mix.summary);
  return text;
}

}  // namespace

void add_convert(Command& app) {
  auto options = std::make_shared<ConvertOptions>();
  Command* command = app.add_subcommand("convert", "Convert a Hugging Face folder to a GGUF file");
  command->add_option("HF_FOLDER", options->in, "Folder with config.json and *.safetensors")
      ->required();
  command->add_option("OUT", options->out, "GGUF file to write")->required();
  command->add_option("--type", options->type,
                      "Quantization type (default: the type of the checkpoint)");
  add_common_options(*command, options);
  command->footer(known_types());
  command->callback([options] { convert_file(*options, "convert"); });
}

void add_quantize(Command& app) {
  auto options = std::make_shared<ConvertOptions>();
  Command* command = app.add_subcommand("quantize", "Quantize a checkpoint to a GGUF file");
  command->add_option("IN", options->in, "GGUF file or Hugging Face folder")->required();
  command->add_option("OUT", options->out, "GGUF file to write")->required();
  command->add_option("TYPE", options->type, "Quantization type")->required();
  add_common_options(*command, options);
  command->footer(known_types() +
                  "\nExample:\n  graft quantize model-bf16.gguf model-q4.gguf Q4_K_M");
  command->callback([options] { convert_file(*options, "quantize"); });
}

}  // namespace graft::cli
