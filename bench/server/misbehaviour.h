// Clients that misbehave: each way once per call. None waits longer than a few seconds.

#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace graft::bench {

struct Misbehaviour {
  const char* name;
  // `number` differs in every call.
  void (*run)(std::uint16_t port, const std::string& api_key, std::uint64_t number);
};

std::span<const Misbehaviour> misbehaviours();

}  // namespace graft::bench
