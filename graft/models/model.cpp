#include "graft/models/model.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "graft/base/check.h"
#include "graft/models/build/build.h"
#include "graft/models/weights/weights.h"
#include "graft/packing/packed_cache.h"
#include "graft/packing/packer.h"
#include "graft/plan/experts/deferral.h"
#include "graft/plan/report.h"

namespace graft::models {
namespace {

std::size_t as_size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

}  // namespace

Model::Model(const plan::Plan& plan,
             const Checkpoint& checkpoint,
             ThreadPool& pool,
             LoadOptions options)
    : blueprint_(plan.blueprint),
      checkpoint_(&checkpoint),
      pool_(&pool),
      options_(std::move(options)),
      weight_bytes_(plan::weight_bytes(plan)),
      operators_(plan),
      lora_(plan, operators_),
      prefill_(plan, operators_, ops::Phase::Prefill),
      decode_(plan, operators_, ops::Phase::Decode),
      vision_(VisionEncoder::make(plan, operators_)),
      devices_(*plan.registry),
      num_deferred_(plan::deferred_experts(plan)) {
  const plan::ModuleSpec* embedding = blueprint_->find("model.embed_tokens");
  hidden_size_ = std::get<ops::EmbeddingParams>(embedding->params).hidden_size;
  blueprint_->visit([&](const plan::ModuleSpec& module) {
    if (ops::is_cache(module.role)) add_cache(module.name);
  });
  GRAFT_CHECK(!caches_.empty(), "the model has no KV cache");
  for (const plan::Placement& placement : plan.placements) {
    if (placement.host_op == nullptr) continue;
    const std::string& name = placement.module->name;
    hybrid_experts_[name] = dynamic_cast<ops::Experts*>(operators_.at(name).prefill);
  }
  load();
}

Model::~Model() = default;

void Model::add_cache(const std::string& name) {
  ops::Operator* op = operators_.at(name).decode;
  const Device device = operators_.device_of(name, ops::Phase::Decode);
  if (auto* cache = dynamic_cast<ops::KvCache*>(op)) {
    caches_.push_back(cache);
    cache_devices_.push_back(device);
    return;
  }
  auto* states = dynamic_cast<ops::StateCache*>(op);
  GRAFT_CHECK(states != nullptr, name, " has no operator");
  states_.push_back({.cache = states, .device = device});
}

std::map<std::string, ops::ExpertUsage> Model::expert_usage() const {
  std::map<std::string, ops::ExpertUsage> usage;
  for (const auto& [name, experts] : hybrid_experts_)
    usage[name] = experts->usage();
  return usage;
}

void Model::load() {
  std::optional<packing::PackedCache> cache;
  if (options_.repack && options_.repack_cache) {
    cache.emplace(*checkpoint_, pool_, options_.on_warning,
                  packing::PackedCache::Options{.from_disk = options_.from_disk,
                                                .read_ahead = options_.read_ahead});
  }
  packing::Packer packer(pool_, cache ? &*cache : nullptr);
  CheckpointWeights weights(*checkpoint_, options_.repack ? &packer : nullptr);
  weights.check(*blueprint_);
  weights.warn_with(options_.on_warning);
  if (options_.on_progress) {
    // Modules with separate operators for prefill and decode load their weights twice.
    weights.report_to([&](std::uint64_t done) {
      options_.on_progress(std::min(done, weight_bytes_), weight_bytes_);
    });
    options_.on_progress(0, weight_bytes_);
  }
  for (const auto& [name, pairs] : options_.expert_stats[blueprint_->model_name]) {
    const auto found = hybrid_experts_.find(name);
    if (found != hybrid_experts_.end()) found->second->expect_pairs(pairs);
  }
  for (const auto& op : operators_.all()) {
    op->load(weights);
    weights.finish_operator();
  }
  if (!cache) return;
  cache->save();
  reader_ = LayerReadAhead(*blueprint_, cache->disk_panels());
  const LayerReadAhead* reader = reader_.empty() ? nullptr : &reader_;
  prefill_.read_ahead_with(reader);
  decode_.read_ahead_with(reader);
}

void Model::unload() {
  graphs_.clear();
  block_transfer_.reset();
  prefill_.read_ahead_with(nullptr);
  decode_.read_ahead_with(nullptr);
  reader_ = {};
  for (const auto& op : operators_.all())
    op->unload();
}

void Model::forward(const ops::Batch& batch,
                    ops::Phase phase,
                    TensorView logits,
                    const HiddenObserver& observer) {
  const auto num_rows = static_cast<std::int64_t>(batch.logit_rows.size());
  GRAFT_CHECK(logits.rows() >= num_rows && logits.cols() == vocab_size(), "logits [", logits.rows(),
              ", ", logits.cols(), "] for ", num_rows, " rows");
  run(batch, phase, {.logits = logits.slice(0, num_rows)}, observer);
}

void Model::start(const ops::Batch& batch, ops::Phase phase) {
  GRAFT_CHECK(can_sample(phase), "the device of the head does not sample");
  GRAFT_CHECK(batch.sampling.rows.size() == batch.logit_rows.size(), batch.sampling.rows.size(),
              " sampling parameters for ", batch.logit_rows.size(), " rows");
  run(batch, phase, {.is_sampled = true}, {});
  started_.push_back(decoder_of(phase).head_device());
}

void Model::start_unsampled(const ops::Batch& batch, ops::Phase phase) {
  GRAFT_CHECK(can_run_ahead(), "the devices need the host during a pass");
  run(batch, phase, {.is_kept = true}, {});
}

void Model::sample(const ops::BatchSampling& sampling) {
  const Device device = decode_.head_device();  // of both phases: see can_run_ahead()
  ops::DeviceContext& state = devices_.at(device);
  if (!sampling.rows.empty()) state.sample_kept(sampling);
  state.start_tokens_out(static_cast<std::int64_t>(sampling.rows.size()));
  started_.push_back(device);
}

std::span<const std::int32_t> Model::finish() {
  GRAFT_CHECK(!started_.empty(), "no pass was started");
  const Device device = started_.front();
  started_.pop_front();
  return devices_.at(device).finish_tokens_out();
}

void Model::discard_started() {
  started_.clear();
  for (const Decoder* decoder : {&prefill_, &decode_})
    devices_.at(decoder->head_device()).discard_tokens();
}

std::vector<float> Model::encode_image(const vision::PreparedImage& image) {
  GRAFT_CHECK(vision_, "the model has no vision tower");
  std::vector<float> features =
      vision_->encode(image, *pool_, devices_, profiler_ ? &*profiler_ : nullptr);
  if (profiler_) profiler_->finish_pass();
  return features;
}

bool Model::can_sample(ops::Phase phase) {
  return devices_.at(decoder_of(phase).head_device()).can_sample();
}

bool Model::can_run_ahead() {
  return prefill_.is_on_one_device() && decode_.is_on_one_device() &&
         prefill_.head_device() == decode_.head_device() && can_sample(ops::Phase::Decode) &&
         !profiler_;
}

void Model::run(const ops::Batch& batch,
                ops::Phase phase,
                const PassOutput& out,
                const HiddenObserver& observer) {
  GRAFT_CHECK(batch.positions.size() == batch.token_ids.size(), batch.positions.size(),
              " positions");
  ops::Pass pass{.batch = batch,
                 .phase = phase,
                 .pool = *pool_,
                 .workspace = devices_.at(kCpu).workspace(),
                 .profiler = profiler_ ? &*profiler_ : nullptr,
                 .devices = &devices_,
                 .deferred = num_deferred_ > 0 ? &deferred_ : nullptr,
                 .lora = lora_.rows_of(batch)};
  deferred_.clear();
  const Decoder& decoder = decoder_of(phase);
  const bool has_graphs = phase == ops::Phase::Decode && decoder.can_be_captured() && !observer &&
                          devices_.at(decoder.first_device()).graph_capture() != nullptr;
  if (has_graphs && DecodeGraphCache::fits(batch)) {
    graphs_.forward(decoder, block_tokens(), out, pass);
  } else {
    decoder.forward(out, observer, pass);
  }
  if (profiler_) profiler_->finish_pass();
}

void Model::set_adapter(std::int32_t index, const Adapter& adapter) {
  GRAFT_CHECK(started_.empty(), "an adapter changes while a pass runs");
  graphs_.clear();
  lora_.set(index, adapter);
}

void Model::clear_adapter(std::int32_t index) {
  GRAFT_CHECK(started_.empty(), "an adapter changes while a pass runs");
  graphs_.clear();
  lora_.clear(index);
}

void Model::start_profiling() {
  profiler_.emplace();
  graphs_.enforce_eager(true);
}

// With the output that serving will use.
void Model::run_once(ops::Batch& batch, ops::Phase phase) {
  if (can_sample(phase)) {
    batch.sampling.rows.resize(batch.logit_rows.size());
    start(batch, phase);
    finish();
    return;
  }
  const auto num_rows = static_cast<std::int64_t>(batch.logit_rows.size());
  std::vector<float> logits(as_size(num_rows * vocab_size()));
  forward(batch, phase, TensorView(logits.data(), DType::F32, {num_rows, vocab_size()}));
}

void Model::warm_up(std::int64_t num_tokens, std::int64_t num_sequences) {
  const std::int64_t num_blocks = (num_tokens + block_tokens() - 1) / block_tokens();
  allocate_cache(num_blocks);
  if (has_states()) allocate_states(num_sequences);
  ops::SequenceSlice prompt = {.first_row = 0,
                               .num_tokens = num_tokens,
                               .context_len = num_tokens,
                               .block_table = std::vector<std::int32_t>(as_size(num_blocks)),
                               .state_slot = has_states() ? 0 : -1};
  std::iota(prompt.block_table.begin(), prompt.block_table.end(), 0);
  ops::Batch batch;
  batch.token_ids.resize(as_size(num_tokens));
  batch.positions.resize(as_size(num_tokens));
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.sequences = {std::move(prompt)};
  batch.logit_rows = {static_cast<std::int32_t>(num_tokens - 1)};
  run_once(batch, ops::Phase::Prefill);
  if (const std::optional<std::int32_t> adapter = lora_.first()) {
    batch.sequences.front().adapter = *adapter;
    run_once(batch, ops::Phase::Prefill);
  }

  batch = {};
  for (std::int64_t i = 0; i < num_sequences; ++i) {
    batch.token_ids.push_back(0);
    batch.positions.push_back(0);
    batch.sequences.push_back({.first_row = i,
                               .num_tokens = 1,
                               .context_len = 1,
                               .block_table = {0},
                               .state_slot = has_states() ? static_cast<std::int32_t>(i) : -1});
    batch.logit_rows.push_back(static_cast<std::int32_t>(i));
  }
  run_once(batch, ops::Phase::Decode);
  if (vision_) vision_->warm_up(*pool_, devices_);
  for (const auto& [name, experts] : hybrid_experts_)
    experts->reset_usage();
  for (ops::KvCache* cache : caches_)
    cache->unload();
  for (const LayerStates& states : states_)
    states.cache->unload();
}

void Model::allocate_cache(std::int64_t num_blocks, std::int64_t block_tokens) {
  block_transfer_.reset();
  graphs_.clear();
  for (ops::KvCache* cache : caches_)
    cache->allocate(num_blocks, block_tokens > 0 ? block_tokens : cache->block_tokens());
}

void Model::allocate_states(std::int64_t num_slots) {
  graphs_.clear();
  for (const LayerStates& states : states_)
    states.cache->allocate(num_slots);
}

std::int64_t Model::num_state_slots() const {
  return states_.empty() ? 0 : states_.front().cache->num_slots();
}

std::size_t Model::state_bytes_per_slot() const {
  std::size_t bytes = 0;
  for (const LayerStates& states : states_)
    bytes += states.cache->bytes_per_slot();
  return bytes;
}

std::map<Device, std::size_t> Model::state_bytes_by_device() const {
  std::map<Device, std::size_t> bytes;
  for (const LayerStates& states : states_)
    bytes[states.device] += states.cache->bytes_per_slot();
  return bytes;
}

void Model::copy_state(std::int64_t from, std::int64_t to) {
  for (const LayerStates& states : states_)
    states.cache->copy_slot(from, to);
}

void Model::save_state(std::int64_t slot, std::span<std::byte> out) const {
  for (const LayerStates& states : states_) {
    states.cache->save_slot(slot, out.first(states.cache->bytes_per_slot()));
    out = out.subspan(states.cache->bytes_per_slot());
  }
}

void Model::load_state(std::int64_t slot, std::span<const std::byte> in) {
  for (const LayerStates& states : states_) {
    states.cache->load_slot(slot, in.first(states.cache->bytes_per_slot()));
    in = in.subspan(states.cache->bytes_per_slot());
  }
}

void Model::release_states(std::int64_t first, std::int64_t count) {
  for (const LayerStates& states : states_)
    states.cache->release_slots(first, count);
}

void Model::copy_block(std::int64_t from, std::int64_t to) {
  for (ops::KvCache* cache : caches_)
    cache->copy_block(from, to);
}

void Model::save_block(std::int64_t block, std::span<std::byte> out) const {
  for (const ops::KvCache* cache : caches_) {
    cache->save_block(block, out.first(cache->bytes_per_block()));
    out = out.subspan(cache->bytes_per_block());
  }
}

void Model::load_block(std::int64_t block, std::span<const std::byte> in) {
  for (ops::KvCache* cache : caches_) {
    cache->load_block(block, in.first(cache->bytes_per_block()));
    in = in.subspan(cache->bytes_per_block());
  }
}

BlockTransfer& Model::block_transfer() {
  if (block_transfer_) return *block_transfer_;
  std::vector<BlockTransfer::Cache> caches;
  for (std::size_t i = 0; i < caches_.size(); ++i)
    caches.push_back({.cache = caches_[i], .device = cache_devices_[i]});
  return block_transfer_.emplace(caches, devices_);
}

void Model::release_blocks(std::int64_t first, std::int64_t count) {
  for (ops::KvCache* cache : caches_)
    cache->release_blocks(first, count);
}

std::string Model::cache_form() const {
  std::string forms;
  for (const ops::KvCache* cache : caches_)
    forms += str(forms.empty() ? "" : ", ", cache->form());
  for (const LayerStates& states : states_)
    forms += str(", state ", states.cache->form());
  // Generated tokens have other keys and values.
  if (num_deferred_ > 0) forms += str(", ", num_deferred_, " deferred experts");
  return forms;
}

std::int64_t Model::num_blocks() const {
  return caches_.front()->num_blocks();
}

std::int64_t Model::block_tokens() const {
  return caches_.front()->block_tokens();
}

std::map<Device, std::size_t> Model::cache_bytes_by_device() const {
  std::map<Device, std::size_t> bytes;
  for (std::size_t i = 0; i < caches_.size(); ++i)
    bytes[cache_devices_[i]] += caches_[i]->bytes_per_block();
  return bytes;
}

std::size_t Model::cache_bytes_per_block() const {
  std::size_t bytes = 0;
  for (const ops::KvCache* cache : caches_)
    bytes += cache->bytes_per_block();
  return bytes;
}

}  // namespace graft::models
