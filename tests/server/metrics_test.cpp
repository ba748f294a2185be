// /metrics of graft serve, and the dashboard that shows them.

#include <cstddef>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"
#include "graft/server/metrics/gpu_monitor.h"

#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

std::string fake_nvml() {
  return GRAFT_TEST_PLUGINS "/fake_nvml.so";
}

// Names of TYPE lines.
std::set<std::string> metric_names(const std::string& text) {
  std::set<std::string> names;
  const std::string type = "# TYPE ";
  for (std::size_t at = text.find(type); at != std::string::npos; at = text.find(type, at + 1)) {
    const std::size_t begin = at + type.size();
    names.insert(text.substr(begin, text.find(' ', begin) - begin));
  }
  return names;
}

// A sample without its labels; -1 when it is missing.
double sample(const std::string& text, const std::string& start) {
  const std::size_t at = ("\n" + text).find("\n" + start);
  if (at == std::string::npos) return -1;
  const std::string line = text.substr(at, text.find('\n', at) - at);
  return std::stod(line.substr(line.rfind(' ') + 1));
}

TEST(ServerMetrics, TheDashboardUsesMetricsThatExist) {
  const ServerProcess server;
  ASSERT_EQ(post(server, kChat, chat_body()).status, 200);
  std::set<std::string> names = metric_names(get(server, "/metrics").body);
  for (const std::string& name :
       metric_names(server::GpuMonitor(fake_nvml().c_str()).metrics_text()))
    names.insert(name);
  const Json dashboard = read_json_file(std::string(GRAFT_SOURCE_DIR) + "/docs/grafana.json");
  std::set<std::string> shown;
  const std::regex name_form("((?:vllm|graft):[a-z0-9_]+|process_[a-z_]+)");
  for (const Json& panel : dashboard["panels"]) {
    for (const Json& target : panel["targets"]) {
      const std::string expr = target["expr"];
      for (std::sregex_iterator match(expr.begin(), expr.end(), name_form), end; match != end;
           ++match)
        shown.insert((*match)[1]);
    }
  }
  for (const std::string& name : shown) {
    const std::string histogram = name.substr(0, name.rfind("_bucket"));
    EXPECT_TRUE(names.contains(name) || names.contains(histogram)) << name << " is not exported";
  }
  for (const std::string& name : names)
    EXPECT_TRUE(shown.contains(name) || shown.contains(name + "_bucket"))
        << name << " is on no panel";
}

TEST(ServerMetrics, CountsRequestsConnectionsAndEmbeddings) {
  const ServerProcess server;
  EXPECT_EQ(post(server, kChat, chat_body()).status, 200);
  EXPECT_EQ(post(server, "/v1/embeddings", {{"input", {"a", "b"}}}).status, 200);
  EXPECT_EQ(get(server, "/a/path/of/a/client").status, 404);
  const std::string text = get(server, "/metrics").body;
  const auto value = [&](const std::string& start) { return sample(text, start); };
  EXPECT_EQ(value(R"(graft:http_requests_total{path="/v1/chat/completions",status="200"})"), 1);
  EXPECT_EQ(value(R"(graft:http_requests_total{path="other",status="404"})"), 1);
  EXPECT_EQ(text.find("/a/path"), std::string::npos);
  EXPECT_GE(value("graft:connections "), 1);
  EXPECT_GE(value("graft:connections_total "), 4);
  EXPECT_EQ(value("graft:embeddings_total{"), 2);
  EXPECT_GT(value("graft:embedding_tokens_total{"), 0);
  EXPECT_EQ(value("graft:model_loads_total{"), 1);
  EXPECT_GT(value("graft:model_load_seconds{"), 0);
  EXPECT_GT(value("graft:steps_total{"), 0);
  EXPECT_EQ(value("graft:graph_replays_total{"), 0);
  EXPECT_GT(value("graft:kv_cache_tokens{"), 0);
  EXPECT_EQ(value("graft:build_info{"), 1);
  EXPECT_GT(value("process_resident_memory_bytes "), 1e6);
  EXPECT_GT(value("process_cpu_seconds_total "), 0);
  EXPECT_GT(value("process_start_time_seconds "), 1.7e9);
  EXPECT_GE(value("process_num_threads "), 2);
  EXPECT_GE(value("process_open_fds "), 3);
  const std::string memory =
      R"(graft:device_memory_bytes{model_name="sprout",engine="0",device="cpu",kind=)";
  for (const char* kind : {R"("weights"})", R"("kv_cache"})", R"("workspace"})"})
    EXPECT_GT(value(memory + kind), 0) << kind;
}

TEST(ServerMetrics, CountersSurviveUnloading) {
  const ServerProcess server;
  EXPECT_EQ(post(server, kChat, chat_body()).status, 200);
  const double steps = sample(get(server, "/metrics").body, "graft:steps_total{");
  ASSERT_GT(steps, 0);
  EXPECT_EQ(post(server, "/api/chat", {{"model", "sprout"}, {"keep_alive", 0}}).status, 200);
  EXPECT_TRUE(eventually([&] {
    return sample(
               get(server, "/metrics").body,
               R"(graft:model_unloads_total{model_name="sprout",engine="0",reason="requested"})") ==
           1;
  }));
  EXPECT_EQ(sample(get(server, "/metrics").body, "graft:steps_total{"), steps);
  EXPECT_EQ(post(server, kChat, chat_body()).status, 200);
  EXPECT_GT(sample(get(server, "/metrics").body, "graft:steps_total{"), steps);
}

TEST(GpuMonitor, ReportsWhatNvmlReports) {
  const server::GpuMonitor monitor(fake_nvml().c_str());
  const std::string text = monitor.metrics_text();
  const std::string labels = R"({gpu="0",uuid="GPU-test"} )";
  for (const std::string& line : {"graft:gpu_utilization_ratio" + labels + "0.25\n",
                                  "graft:gpu_temperature_celsius" + labels + "61\n",
                                  "graft:gpu_memory_used_bytes" + labels + "600\n",
                                  "graft:gpu_memory_total_bytes" + labels + "1000\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(text.find("graft:gpu_power_watts{"), std::string::npos) << "not supported";
  EXPECT_EQ(text.find("gpu=\"1\""), std::string::npos);
  EXPECT_EQ(server::GpuMonitor("libnothing.so.1").metrics_text(), "");
  EXPECT_EQ(server::GpuMonitor("libm.so.6").metrics_text(), "") << "not NVML";
}

}  // namespace
}  // namespace graft::tests
