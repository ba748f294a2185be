#include "graft/api/llm.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "graft/api/open_options.h"
#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/engine/engine.h"
#include "graft/models/expert_stats.h"
#include "graft/models/families/family.h"
#include "graft/models/open_model.h"
#include "graft/models/vision_encoder.h"
#include "graft/vision/decode.h"

namespace graft::api {
namespace {

std::optional<tokenizer::Tokenizer> tokenizer_of(const models::Checkpoint& source) {
  if (source.tokenizer().empty()) return std::nullopt;
  return tokenizer::Tokenizer(source.tokenizer(), models::pre_tokenizer_names());
}

double seconds_between(engine::Clock::time_point start, engine::Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

// Of a list "a, a, b".
std::string without_repeats(const std::string& list) {
  constexpr std::string_view kComma = ", ";
  std::set<std::string> seen;
  std::string out;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(kComma, at), list.size());
    const std::string item = list.substr(at, end - at);
    if (seen.insert(item).second) out += (out.empty() ? "" : std::string(kComma)) + item;
    at = end + kComma.size();
  }
  return out;
}

}  // namespace

// Only `thread` uses the engine; other threads post jobs to its inbox.
struct LLM::State {
  using Job = std::function<void(engine::Engine&)>;

  State(const std::filesystem::path& path, const LlmConfig& config)
      : expert_stats(config.expert_stats),
        open(path, open_options(config)),
        tokenizer(tokenizer_of(open.source())),
        engine(open, tokenizer ? &*tokenizer : nullptr, config.engine),
        on_step(config.on_step),
        default_adapter(config.default_adapter),
        stats(engine.stats()),
        memory_use(open.memory_use()),
        thread([this] { run(); }) {
    if (config.profile) post_and_wait([this](engine::Engine&) { open.model().start_profiling(); });
    if (!expert_stats.empty() && open.model().expert_usage().empty() && config.on_warning) {
      config.on_warning(str(expert_stats.string(),
                            ": no statistics of experts are read or written, because no layer has "
                            "experts in host memory that a GPU computes too"));
    }
  }

  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    thread.join();
    save_expert_stats();
  }

  // The counts of this run and half of those before. A failure costs speed at the next start only.
  void save_expert_stats() noexcept {
    const std::map<std::string, ops::ExpertUsage> usage = open.model().expert_usage();
    if (expert_stats.empty() || usage.empty()) return;
    try {
      const std::string& model = open.blueprint().model_name;
      const models::ExpertPairs before = models::read_expert_stats(expert_stats)[model];
      models::write_expert_stats(model, models::merge_pairs(before, usage), expert_stats);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    }
  }

  void post(Job job) {
    {
      const std::lock_guard lock(mutex);
      inbox.push_back(std::move(job));
    }
    wake.notify_all();
  }

  // Runs the job on the engine's thread, waits for it and rethrows its exception.
  void post_and_wait(const Job& job) {
    std::promise<void> done;
    post([&](engine::Engine& at) {
      try {
        job(at);
        done.set_value();
      } catch (...) {
        done.set_exception(std::current_exception());
      }
    });
    done.get_future().get();
  }

  void run() {
    while (run_jobs()) {
      const engine::Clock::time_point start = engine::Clock::now();
      const std::vector<Update> updates = engine.step();
      record_step(seconds_between(start, engine::Clock::now()));
      deliver(updates);
    }
    for (const RequestId request : open_requests())
      engine.abort(request);
    deliver(engine.step());
  }

  void record_step(double seconds) {
    const EngineStats now = engine.stats();
    const EngineStats& before = stats;  // written by this thread only
    if (on_step && now.num_computed_tokens != before.num_computed_tokens) {
      on_step({.num_tokens = now.num_computed_tokens - before.num_computed_tokens,
               .num_output = now.num_output_tokens - before.num_output_tokens,
               .num_preemptions = now.num_preemptions - before.num_preemptions,
               .num_running = now.num_running,
               .num_waiting = now.num_waiting,
               .seconds = seconds});
    }
    DeviceMemory used = open.memory_use();
    std::optional<std::string> damage = open.damage();
    const std::lock_guard lock(stats_mutex);
    stats = now;
    memory_use.swap(used);
    if (damage) failure = *std::move(damage);
  }

  // Waits for work and runs the jobs of the inbox. False when the thread must stop.
  bool run_jobs() {
    std::deque<Job> jobs;
    bool is_last = false;
    {
      std::unique_lock lock(mutex);
      const auto is_ready = [&] { return stopping || !inbox.empty() || engine.has_work(); };
      const double idle_seconds = engine.config().idle_release_seconds;
      if (idle_seconds >= 0 && has_run && !is_ready()) {
        if (!wake.wait_for(lock, std::chrono::duration<double>(idle_seconds), is_ready)) {
          engine.release_idle_memory();
          has_run = false;
        }
      }
      wake.wait(lock, is_ready);
      is_last = stopping;
      jobs.swap(inbox);
    }
    has_run = true;
    for (const Job& job : jobs)
      job(engine);
    return !is_last;
  }

  void deliver(const std::vector<Update>& updates) {
    for (const Update& update : updates) {
      const auto found = callbacks.find(update.id.request);
      if (found == callbacks.end()) continue;
      try {
        if (found->second.call) found->second.call(update);
      } catch (...) {
        // There is no caller to report to: abort this request, keep the others running.
        found->second.call = nullptr;
        engine.abort(update.id.request);
      }
      if (update.finish && --found->second.num_left == 0) callbacks.erase(found);
    }
  }

  std::vector<TokenId> tokens_of(const Prompt& prompt) const {
    const auto* text = std::get_if<std::string>(&prompt);
    if (text == nullptr) return std::get<std::vector<TokenId>>(prompt);
    if (!tokenizer) fail("the model has no tokenizer: pass the prompt as token ids");
    return tokenizer->encode(*text);
  }

  engine::AdapterRef adapter_of(const SubmitOptions& options) const {
    const std::string& name = options.adapter.empty() ? default_adapter : options.adapter;
    if (name.empty()) return nullptr;
    engine::AdapterRef adapter = engine.adapters().find(name);
    if (adapter == nullptr) fail("adapter '", name, "' is not loaded");
    return adapter;
  }

  RequestId submit(engine::Request request, Callback callback) {
    request.id = next_request++;
    engine.check(request);
    const RequestId id = request.id;
    post([this, request = std::move(request), callback = std::move(callback)](engine::Engine& at) {
      callbacks[request.id] = {.call = callback, .num_left = request.params.n};
      at.add(request);
    });
    return id;
  }

  std::vector<RequestId> open_requests() const {
    std::vector<RequestId> requests;
    for (const auto& [request, callback] : callbacks)
      requests.push_back(request);
    return requests;
  }

  struct Listener {
    Callback call;
    std::int64_t num_left = 1;  // samples that have not finished
  };

  std::filesystem::path expert_stats;  // empty: not saved
  models::OpenModel open;
  std::optional<tokenizer::Tokenizer> tokenizer;
  engine::Engine engine;
  std::map<RequestId, Listener> callbacks;  // used only by `thread`
  bool has_run = false;                     // since idle memory was released; only by `thread`
  const std::function<void(const StepInfo& step)> on_step;
  const std::string default_adapter;

  mutable std::mutex mutex;
  std::condition_variable wake;
  std::deque<Job> inbox;
  bool stopping = false;
  mutable std::mutex stats_mutex;  // its own: `mutex` is held while idle memory is freed
  EngineStats stats;
  DeviceMemory memory_use;
  std::string failure;
  const std::string cache_form = without_repeats(open.model().cache_form());
  std::atomic<RequestId> next_request = 1;
  std::thread thread;  // declared last: it uses everything above
};

LLM::LLM(const std::filesystem::path& model, const LlmConfig& config)
    : state_(std::make_unique<State>(model, config)) {}

LLM::~LLM() = default;

RequestId LLM::submit(const Prompt& prompt,
                      const SamplingParams& params,
                      Callback callback,
                      const SubmitOptions& options) {
  return state_->submit({.prompt = state_->tokens_of(prompt),
                         .params = params,
                         .client = options.client,
                         .priority = options.priority,
                         .cache_salt = options.cache_salt,
                         .adapter = state_->adapter_of(options),
                         .images = options.images},
                        std::move(callback));
}

RequestId LLM::submit_embedding(const Prompt& prompt,
                                Pooling pooling,
                                Callback callback,
                                const SubmitOptions& options) {
  return state_->submit({.prompt = state_->tokens_of(prompt),
                         .client = options.client,
                         .priority = options.priority,
                         .cache_salt = options.cache_salt,
                         .pooling = pooling,
                         .adapter = state_->adapter_of(options),
                         .images = options.images},
                        std::move(callback));
}

void LLM::abort(RequestId request) {
  state_->post([request](engine::Engine& engine) { engine.abort(request); });
}

AdapterInfo LLM::load_adapter(const AdapterSource& source) {
  models::check_adapter_name(source.name);
  if (state_->engine.adapters().find(source.name) != nullptr)
    fail("adapter '", source.name, "' is already loaded");
  const models::Adapter adapter(source, state_->open.source(), state_->open.blueprint());
  state_->post_and_wait([&](engine::Engine& engine) { engine.add_adapter(adapter); });
  return adapter.info();
}

bool LLM::unload_adapter(const std::string& name) {
  bool is_removed = false;
  state_->post_and_wait([&](engine::Engine& engine) { is_removed = engine.remove_adapter(name); });
  return is_removed;
}

std::vector<AdapterInfo> LLM::adapters() const {
  return state_->engine.adapters().list();
}

void LLM::pause(RequestId request) {
  state_->post([request](engine::Engine& engine) { engine.pause(request); });
}

void LLM::resume(RequestId request) {
  state_->post([request](engine::Engine& engine) { engine.resume(request); });
}

void LLM::save(SequenceId id, const std::filesystem::path& path) {
  state_->post_and_wait([&](engine::Engine& engine) { engine.save(id, path); });
}

RequestId LLM::restore(const std::filesystem::path& path, Callback callback) {
  // Read on this thread: running sequences do not wait for the file.
  return restore(engine::read_snapshot(path), path.string(), std::move(callback));
}

RequestId LLM::restore(engine::Snapshot snapshot,
                       const std::string& where,
                       Callback callback,
                       std::uint64_t client) {
  const RequestId id = state_->next_request++;
  state_->post_and_wait([&](engine::Engine& engine) {
    engine.restore(std::move(snapshot), where, id, client);
    state_->callbacks[id] = {.call = std::move(callback), .num_left = 1};
  });
  return id;
}

std::vector<float> LLM::embed(const Prompt& text, Pooling pooling) {
  std::promise<Update> done;
  submit_embedding(text, pooling, [&done](const Update& update) { done.set_value(update); });
  Update update = done.get_future().get();
  if (update.finish->reason == FinishReason::Stop) return std::move(update.embedding);
  if (update.finish->reason == FinishReason::Abort) fail("the embedding was aborted");
  throw Failure(update.finish->message);
}

namespace {

// Collects the updates of many requests and waits until all have finished.
class OutputCollector {
 public:
  explicit OutputCollector(std::size_t num_requests) : outputs_(num_requests) {}

  void expect(std::size_t request, std::int64_t num_samples) {
    const std::lock_guard lock(mutex_);
    outputs_[request].samples.resize(static_cast<std::size_t>(num_samples));
    num_left_ += num_samples;
  }

  void append(std::size_t request, const Update& update) {
    const std::lock_guard lock(mutex_);
    Output& output = outputs_[request];
    Sample& sample = output.samples[static_cast<std::size_t>(update.id.sample)];
    sample.text += update.text;
    sample.tokens.insert(sample.tokens.end(), update.tokens.begin(), update.tokens.end());
    sample.logprobs.insert(sample.logprobs.end(), update.logprobs.begin(), update.logprobs.end());
    if (!update.finish) return;
    sample.finish = *update.finish;
    sample.timings.total_seconds = seconds_between(update.arrived, engine::Clock::now());
    if (update.first_token)
      sample.timings.first_token_seconds = seconds_between(update.arrived, *update.first_token);
    output.num_prompt = update.num_prompt;
    output.num_cached = update.num_cached;
    if (update.id.sample == 0) output.prompt_logprobs = update.prompt_logprobs;
    if (--num_left_ == 0) done_.notify_all();
  }

  std::vector<Output> wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return num_left_ == 0; });
    return std::move(outputs_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<Output> outputs_;
  std::int64_t num_left_ = 0;
};

}  // namespace

std::vector<Output> LLM::generate(const std::vector<Prompt>& prompts,
                                  const SamplingParams& params) {
  return generate(prompts, std::vector<SamplingParams>(prompts.size(), params));
}

std::vector<Output> LLM::generate(const std::vector<Prompt>& prompts,
                                  const std::vector<SamplingParams>& params) {
  if (params.size() != prompts.size())
    fail("generate: ", prompts.size(), " prompts but ", params.size(), " sampling parameters");
  const auto collector = std::make_shared<OutputCollector>(prompts.size());
  std::vector<RequestId> submitted;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    collector->expect(i, params[i].n);
    try {
      submitted.push_back(submit(prompts[i], params[i], [collector, i](const Update& update) {
        collector->append(i, update);
      }));
    } catch (const Error& error) {
      for (const RequestId request : submitted)
        abort(request);
      fail("prompt ", i, ": ", error.what());
    }
  }
  return collector->wait();
}

bool LLM::has_vision() const {
  return state_->open.model().vision_tower() != nullptr;
}

std::shared_ptr<const vision::PreparedImage> LLM::prepare_image(
    std::span<const std::byte> file) const {
  const std::optional<models::VisionConfig>& config = state_->open.source().config().vision;
  if (!has_vision() || !config) fail("the model has no vision tower: it does not take images");
  return std::make_shared<const vision::PreparedImage>(
      vision::prepare(vision::decode_image(file), config->processor));
}

std::int64_t LLM::num_image_tokens(const vision::PreparedImage& image) const {
  const ops::VisionTowerParams* tower = state_->open.model().vision_tower();
  return tower == nullptr ? 0 : models::num_image_tokens(*tower, image);
}

const tokenizer::Tokenizer* LLM::tokenizer() const {
  return state_->tokenizer ? &*state_->tokenizer : nullptr;
}

const models::Checkpoint& LLM::source() const {
  return state_->open.source();
}

const plan::Plan& LLM::plan() const {
  return state_->open.plan();
}

const EngineConfig& LLM::config() const {
  return state_->engine.config();
}

std::map<std::string, ops::ExpertUsage> LLM::expert_usage() {
  std::map<std::string, ops::ExpertUsage> usage;
  state_->post_and_wait([&](engine::Engine&) { usage = state_->open.model().expert_usage(); });
  return usage;
}

std::map<std::string, ops::Profiler::Entry> LLM::profile() {
  std::map<std::string, ops::Profiler::Entry> entries;
  state_->post_and_wait([&](engine::Engine&) {
    const ops::Profiler* profiler = state_->open.model().profiler();
    if (profiler != nullptr) entries = profiler->entries();
  });
  return entries;
}

EngineStats LLM::stats() const {
  const std::lock_guard lock(state_->stats_mutex);
  return state_->stats;
}

DeviceMemory LLM::memory_use() const {
  const std::lock_guard lock(state_->stats_mutex);
  return state_->memory_use;
}

std::string LLM::failure() const {
  const std::lock_guard lock(state_->stats_mutex);
  return state_->failure;
}

std::string LLM::cache_form() const {
  return state_->cache_form;
}

}  // namespace graft::api
