// Fuzzes files of limits and of API keys: reading either returns values within their bounds or
// throws Error. Input: keys, a line of "---", limits; without that line only limits.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/server/access/api_keys.h"
#include "graft/server/clients/client_limits.h"

namespace {

namespace server = graft::server;

void check_limit(const std::optional<std::int64_t>& limit) {
  GRAFT_CHECK(!limit || (*limit >= 1 && *limit <= 1'000'000'000'000), "limit ", *limit);
}

void check_limits(const server::ClientLimits& limits) {
  check_limit(limits.requests_per_minute);
  check_limit(limits.tokens_per_minute);
  check_limit(limits.concurrent_answers);
  check_limit(limits.queued_tokens);
}

void read_limits(const std::string& text, const server::ApiKeys& keys) {
  const server::LimitTable table = server::LimitTable::parse(text, "fuzz.yaml", {}, keys);
  check_limits(table.of(0));
  for (const server::ApiKey& key : keys.list())
    check_limits(table.of(key.id()));
}

server::ApiKeys named_keys() {
  server::ApiKeys keys;
  keys.add_lines("secret name=alice admin\nother name=bob\n", "keys");
  return keys;
}

}  // namespace

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const server::ApiKeys kNamed = named_keys();
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string mark = "\n---\n";
  const std::size_t end = text.find(mark);
  try {
    if (end == std::string::npos) {
      read_limits(text, kNamed);
      return 0;
    }
    server::ApiKeys keys;
    keys.add_lines(text.substr(0, end + 1), "keys");
    read_limits(text.substr(end + mark.size()), keys);
  } catch (const graft::Error&) {
    // A valid outcome.
  }
  return 0;
}
