// A plugin whose norm fails, as a GPU might, while the file named by the kwarg `while` exists.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "graft/base/error.h"
#include "graft/ops/plugin.h"

namespace {

namespace ops = graft::ops;

class BreakingNorm final : public ops::Norm {
 public:
  BreakingNorm(std::unique_ptr<ops::Operator> norm, std::string file)
      : owned_(std::move(norm)), norm_(dynamic_cast<ops::Norm&>(*owned_)), file_(std::move(file)) {}

  void load(ops::WeightProvider& weights) override { owned_->load(weights); }
  void unload() override { owned_->unload(); }
  void forward(graft::TensorView x, graft::TensorView y, ops::Pass& pass) override {
    if (std::filesystem::exists(file_)) graft::fail("the device is broken for a test");
    norm_.forward(x, y, pass);
  }

 private:
  std::unique_ptr<ops::Operator> owned_;
  ops::Norm& norm_;
  std::string file_;
};

void add_operators(ops::Registry& registry) {
  const auto make = registry.find("cpu.rms_norm")->make;
  registry.add({.name = "breaks.norm",
                .role = ops::Role::Norm,
                .kwargs = {"while"},
                .make = [make](const ops::BuildContext& context) -> std::unique_ptr<ops::Operator> {
                  return std::make_unique<BreakingNorm>(make(context),
                                                        context.text_kwarg("while", ""));
                }});
}

}  // namespace

const graft::ops::Plugin graft_plugin = {.add_operators = add_operators};
