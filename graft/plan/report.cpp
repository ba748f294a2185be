#include "graft/plan/report.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/base/text/units.h"
#include "graft/plan/checks/lost_fusions.h"
#include "graft/plan/experts/deferral.h"

namespace graft::plan {
namespace {

// A line of the table. The layer number is cut out of `name`.
struct Row {
  const ModuleSpec* module = nullptr;
  std::string name;
  std::string op;
  std::string devices;
  int line = 0;
  std::size_t bytes = 0;

  bool folds_with(const Row& other) const {
    return name == other.name && op == other.op && devices == other.devices && line == other.line;
  }
};

// The rows of equal consecutive layers, or (first = -1) of the modules outside the layers.
struct Block {
  std::int64_t first = -1;
  std::int64_t last = -1;
  std::vector<Row> rows;

  bool folds_with(const Block& next) const {
    return first >= 0 && next.first == last + 1 && rows.size() == next.rows.size() &&
           std::equal(rows.begin(), rows.end(), next.rows.begin(),
                      [](const Row& a, const Row& b) { return a.folds_with(b); });
  }
};

std::string operator_text(const Placement& placement) {
  const auto* decode = placement.decode.op;
  const auto* prefill = placement.prefill.op;
  // A container, or planned for a machine whose operators this build lacks.
  if (decode == nullptr) return str("(", ops::name(placement.module->role), ")");
  if (gpu_experts(placement) > 0) return str(decode->name, " + ", placement.host_op->name);
  if (prefill == nullptr || prefill == decode) return decode->name;
  return str(decode->name, ", prefill ", prefill->name);
}

std::string_view axis_name(Part::Axis axis) {
  constexpr std::array<std::string_view, 4> kNames = {"", "experts", "rows", "columns"};
  return kNames[static_cast<std::size_t>(axis)];
}

// "experts 0-15", "16 of 128 experts"; empty for the whole module.
std::string part_text(const Part& part) {
  if (part.axis == Part::Axis::Whole) return {};
  if (part.total > 0)
    return str(part.end - part.begin, " of ", part.total, " ", axis_name(part.axis));
  return str(axis_name(part.axis), " ", part.begin, "-", part.end - 1);
}

// "cuda:0 experts 0-15 + cpu experts 16-127"
std::string shares_text(const PhasePlacement& phase) {
  std::string text;
  for (const Share& share : phase.shares) {
    const std::string part = part_text(share.part);
    text += str(text.empty() ? "" : " + ", to_string(share.device), part.empty() ? "" : " ", part);
  }
  return text;
}

std::string devices_text(const Placement& placement) {
  std::string text = shares_text(placement.decode);
  if (placement.prefill.shares != placement.decode.shares)
    text += ", prefill " + shares_text(placement.prefill);
  if (has_auto_gpu_experts(placement)) text += " with gpu_experts auto";
  if (const std::int64_t deferred = deferred_experts(placement); deferred > 0)
    text += str(" with ", deferred, " deferred");
  if (placement.out_device != placement.decode.device()) {
    text += " → " + to_string(placement.out_device);
  }
  return text;
}

Row make_row(const Placement& placement) {
  const ModuleSpec& module = *placement.module;
  return {
      .module = &module,
      .name = module.name.empty() ? "(root)" : module.name_with_layer(""),
      .op = operator_text(placement),
      .devices = devices_text(placement),
      .line = placement.rule == nullptr ? 0 : placement.rule->line,
      .bytes = placement.weight_bytes,
  };
}

// Containers are shown only when a rule placed them.
bool is_shown(const Placement& placement) {
  const ops::Role role = placement.module->role;
  return placement.rule != nullptr || placement.weight_bytes > 0 ||
         (role != ops::Role::Model && role != ops::Role::Layer);
}

std::vector<Block> make_blocks(const Plan& plan) {
  std::vector<Block> layers;
  for (const Placement& placement : plan.placements) {
    if (!is_shown(placement)) continue;
    const std::int64_t layer = placement.module->layer;
    if (layers.empty() || layers.back().first != layer) {
      layers.push_back({.first = layer, .last = layer, .rows = {}});
    }
    layers.back().rows.push_back(make_row(placement));
  }
  std::vector<Block> blocks;
  for (Block& layer : layers) {
    if (blocks.empty() || !blocks.back().folds_with(layer)) {
      blocks.push_back(std::move(layer));
      continue;
    }
    Block& block = blocks.back();
    block.last = layer.last;
    for (std::size_t i = 0; i < block.rows.size(); ++i)
      block.rows[i].bytes += layer.rows[i].bytes;
  }
  return blocks;
}

std::string full_name(const Row& row, const Block& block) {
  if (block.first < 0) return row.name;
  const std::string number =
      block.last > block.first ? str(block.first, "-", block.last) : std::to_string(block.first);
  return row.module->name_with_layer(number);
}

// Code points, not bytes: the arrow has three bytes.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) >> 6U) != 2U;
  }));
}

using Cells = std::array<std::string, 5>;

std::string table_text(const std::vector<Cells>& lines) {
  std::array<std::size_t, 5> widths{};
  for (const Cells& cells : lines) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(cells[i]));
    }
  }
  constexpr std::size_t kBytesColumn = 3;  // right-aligned
  std::string text;
  for (const Cells& cells : lines) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string pad(widths[i] - width_of(cells[i]), ' ');
      line += (i == 0 ? "" : "  ") + (i == kBytesColumn ? pad + cells[i] : cells[i] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

// The types of a module's own weights, largest total first: "Q4_K, Q6_K". Null without weights.
Json dtype_json(const ModuleSpec& module) {
  std::vector<std::pair<DType, std::size_t>> types;
  for (const WeightSpec& weight : module.weights) {
    const auto same = std::ranges::find(types, weight.dtype, &std::pair<DType, std::size_t>::first);
    if (same == types.end()) {
      types.emplace_back(weight.dtype, weight.bytes());
    } else {
      same->second += weight.bytes();
    }
  }
  if (types.empty()) return nullptr;
  std::ranges::stable_sort(types, std::ranges::greater(), &std::pair<DType, std::size_t>::second);
  std::string text;
  for (const auto& [type, bytes] : types)
    text += str(text.empty() ? "" : ", ", name(type));
  return text;
}

Json shares_json(const Placement& placement, const PhasePlacement& phase) {
  Json shares = Json::array();
  for (const Share& share : phase.shares) {
    const bool is_whole = share.part.axis == Part::Axis::Whole;
    shares.push_back({{"device", to_string(share.device)},
                      {"part", is_whole ? Json() : Json(part_text(share.part))},
                      {"weight_bytes", placement.bytes_of(share)}});
  }
  return shares;
}

}  // namespace

std::vector<DeviceBytes> weight_bytes_by_device(const Plan& plan) {
  std::map<Device, std::size_t> totals;
  for (const Placement& placement : plan.placements) {
    for (const Share& share : placement.decode.shares)
      totals[share.device] += placement.bytes_of(share);
  }
  std::vector<DeviceBytes> sorted;
  sorted.reserve(totals.size());
  for (const auto& [device, bytes] : totals)
    sorted.push_back({device, bytes});
  return sorted;
}

std::uint64_t weight_bytes_on(const Plan& plan, Device device) {
  std::uint64_t bytes = 0;
  for (const auto& [where, size] : weight_bytes_by_device(plan))
    bytes += where == device ? size : 0;
  return bytes;
}

std::uint64_t weight_bytes(const Plan& plan) {
  std::uint64_t bytes = 0;
  for (const Placement& placement : plan.placements)
    bytes += placement.weight_bytes;
  return bytes;
}

std::string plan_text(const Plan& plan) {
  std::vector<Cells> lines = {{"module", "operator", "device", "weights", "rule"}};
  for (const Block& block : make_blocks(plan)) {
    for (const Row& row : block.rows) {
      lines.push_back({full_name(row, block), row.op, row.devices,
                       row.bytes == 0 ? "" : bytes_text(row.bytes),
                       row.line == 0 ? "default" : str("line ", row.line)});
    }
  }
  std::string text = table_text(lines);
  for (const auto& [layer, device] : plan.transfer_map) {
    text += str("from layer ", layer, " on ", to_string(device), "\n");
  }
  text += lost_fusions_text(plan);
  text += "weights:";
  const char* separator = " ";
  for (const auto& [device, bytes] : weight_bytes_by_device(plan)) {
    text += str(separator, to_string(device), " ", bytes_text(bytes));
    separator = ", ";
  }
  return text + "\n";
}

Json plan_json(const Plan& plan) {
  Json placements = Json::array();
  for (const Placement& placement : plan.placements) {
    const auto op_name = [](const ops::OperatorInfo* op) {
      return op == nullptr ? Json() : Json(op->name);
    };
    placements.push_back({
        {"module", placement.module->name},
        {"class", placement.module->class_name},
        {"role", ops::name(placement.module->role)},
        {"generate_op", op_name(placement.decode.op)},
        {"prefill_op", op_name(placement.prefill.op)},
        {"host_op", op_name(placement.host_op)},
        {"generate_device", to_string(placement.decode.device())},
        {"prefill_device", to_string(placement.prefill.device())},
        {"out_device", to_string(placement.out_device)},
        {"shares",
         {{"generate", shares_json(placement, placement.decode)},
          {"prefill", shares_json(placement, placement.prefill)}}},
        {"kwargs", Json(std::map<std::string, std::string>(placement.kwargs.begin(),
                                                           placement.kwargs.end()))},
        {"line", placement.rule == nullptr ? Json() : Json(placement.rule->line)},
        {"weight_bytes", placement.weight_bytes},
        {"dtype", dtype_json(*placement.module)},
    });
  }
  Json transfer_map = Json::object();
  for (const auto& [layer, device] : plan.transfer_map) {
    transfer_map[std::to_string(layer)] = to_string(device);
  }
  Json bytes = Json::object();
  for (const auto& [device, size] : weight_bytes_by_device(plan))
    bytes[to_string(device)] = size;
  return {{"model", plan.blueprint->model_name},     {"family", plan.blueprint->family},
          {"placements", std::move(placements)},     {"transfer_map", std::move(transfer_map)},
          {"lost_fusions", lost_fusions_json(plan)}, {"weight_bytes", std::move(bytes)}};
}

Json findings_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"kind", finding.kind == Finding::Kind::Error ? "error" : "warning"},
                    {"where", finding.where},
                    {"line", finding.line},
                    {"text", finding.text}});
  }
  return list;
}

}  // namespace graft::plan
