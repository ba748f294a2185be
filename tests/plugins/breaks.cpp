// A plugin whose norm fails, as a GPU might, while the file named by the kwarg `while` exists.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "graft/plugin.h"

namespace {

namespace plugin = graft::plugin;

class BreakingNorm final : public plugin::Norm {
 public:
  BreakingNorm(std::unique_ptr<plugin::Norm> norm, std::string file)
      : norm_(std::move(norm)), file_(std::move(file)) {}

  void load(plugin::Weights& weights) override { norm_->load(weights); }
  void unload() override { norm_->unload(); }
  void forward(plugin::ConstRows x, plugin::Rows y, plugin::Pass& pass) override {
    if (std::filesystem::exists(file_)) throw graft::Error("the device is broken for a test");
    norm_->forward(x, y, pass);
  }

 private:
  std::unique_ptr<plugin::Norm> norm_;
  std::string file_;
};

void add_operators(plugin::Registry& registry) {
  registry.add(
      {.name = "breaks.norm",
       .role = plugin::Role::Norm,
       .kwargs = {"while"},
       .make = [](const plugin::BuildContext& context) -> std::unique_ptr<plugin::Operator> {
         return std::make_unique<BreakingNorm>(context.make<plugin::Norm>("cpu.rms_norm"),
                                               context.text_kwarg("while", ""));
       }});
}

}  // namespace

const graft::plugin::Plugin graft_plugin = {.add_operators = add_operators};
