#include "graft/engine/tiers/tier_entry.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>

#include <xxhash.h>

#include "graft/base/text/str.h"

namespace graft::engine {
namespace {

constexpr std::string_view kMagic = "GRAFTKVB";
constexpr std::size_t kHashAt = kEntryHeaderBytes - sizeof(std::uint64_t);

struct Header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t num_tokens;
  BlockKey key;
  BlockKey parent;
  std::uint64_t payload_bytes;
  std::uint64_t checksum;
};
static_assert(sizeof(Header) == kEntryHeaderBytes && offsetof(Header, checksum) == kHashAt);

// Chained, so that no part is copied.
std::uint64_t checksum_of(std::span<const std::byte> header,
                          std::span<const TokenId> tokens,
                          std::span<const std::byte> payload) {
  std::uint64_t hash = XXH3_64bits(header.data(), kHashAt);
  hash = XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), hash);
  return XXH3_64bits_withSeed(payload.data(), payload.size(), hash);
}

}  // namespace

bool matches(const TierEntry& entry, const TierQuery& query) {
  return entry.key == query.key && entry.parent == query.parent &&
         entry.bytes.size() == query.num_bytes && std::ranges::equal(entry.tokens, query.tokens);
}

std::vector<std::byte> entry_header(const TierEntry& entry) {
  Header header = {.magic = {},
                   .version = kEntryVersion,
                   .num_tokens = static_cast<std::uint32_t>(entry.tokens.size()),
                   .key = entry.key,
                   .parent = entry.parent,
                   .payload_bytes = entry.bytes.size(),
                   .checksum = 0};
  std::ranges::copy(kMagic, header.magic.begin());
  header.checksum =
      checksum_of(std::as_bytes(std::span(&header, 1)), entry.tokens, entry.bytes.bytes());
  std::vector<std::byte> bytes(kEntryHeaderBytes + entry.tokens.size() * sizeof(TokenId));
  std::memcpy(bytes.data(), &header, sizeof(header));
  if (!entry.tokens.empty()) {
    std::memcpy(bytes.data() + kEntryHeaderBytes, entry.tokens.data(),
                entry.tokens.size() * sizeof(TokenId));
  }
  return bytes;
}

std::string parse_entry(std::span<const std::byte> file, TierEntry& entry, BlockMemory* memory) {
  if (file.size() < kEntryHeaderBytes)
    return str("truncated: ", file.size(), " bytes, the header has ", kEntryHeaderBytes);
  Header header = {};
  std::memcpy(&header, file.data(), sizeof(header));
  if (!std::ranges::equal(header.magic, kMagic)) return "not a KV cache block";
  if (header.version != kEntryVersion)
    return str("version ", header.version, ", this graft reads version ", kEntryVersion);
  const std::size_t rest = file.size() - kEntryHeaderBytes;
  const std::size_t token_bytes = std::size_t{header.num_tokens} * sizeof(TokenId);
  if (token_bytes > rest || header.payload_bytes != rest - token_bytes) {
    return str("damaged: ", file.size(), " bytes, the header states ", header.num_tokens,
               " tokens and a payload of ", header.payload_bytes, " bytes");
  }
  std::vector<TokenId> tokens(header.num_tokens);
  if (!tokens.empty()) std::memcpy(tokens.data(), file.data() + kEntryHeaderBytes, token_bytes);
  const auto payload = file.subspan(kEntryHeaderBytes + token_bytes);
  if (checksum_of(file, tokens, payload) != header.checksum)
    return str("damaged: checksum mismatch over ", file.size(), " bytes");
  entry.key = header.key;
  entry.parent = header.parent;
  entry.tokens = std::move(tokens);
  entry.bytes = memory == nullptr ? EntryBytes(payload.size()) : memory->allocate(payload.size());
  if (!payload.empty()) std::memcpy(entry.bytes.data(), payload.data(), payload.size());
  return {};
}

}  // namespace graft::engine
