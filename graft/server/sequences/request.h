// The requests of /v1/sequences. Pure.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graft/base/text/json.h"

namespace graft::server::sequences {

// "/v1/sequences/ID/save" and "/v1/sequences/ID/restore".
struct SequencePath {
  std::string id = {};
  bool is_save = false;
};
SequencePath read_path(std::string_view path);  // throws ApiError 404

struct SaveRequest {
  std::string filename = {};  // empty: the id
  std::int64_t prompt = 0;
  std::int64_t sample = 0;
};
SaveRequest read_save(const OrderedJson& body);

struct RestoreRequest {
  std::string model = {};
  std::string filename = {};  // empty: the id
  bool echo = false;
  bool is_stream = false;
  bool include_usage = false;
};
RestoreRequest read_restore(const OrderedJson& body);

// The name of a file in the folder of snapshots. Throws ApiError 400 for a name that might leave
// it.
void check_filename(const std::string& name);

}  // namespace graft::server::sequences
