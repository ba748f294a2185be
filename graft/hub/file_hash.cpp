#include "graft/hub/file_hash.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/text/ascii.h"

namespace graft::hub {
namespace {

constexpr std::size_t kReadBytes = std::size_t{4} << 20U;

bool is_hex(std::string_view text, std::size_t size) {
  return text.size() == size && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

class Digest {
 public:
  explicit Digest(const EVP_MD* type) : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    GRAFT_CHECK(context_ && EVP_DigestInit_ex(context_.get(), type, nullptr) == 1, "EVP digest");
  }

  void add(std::string_view bytes) {
    GRAFT_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "EVP digest");
  }

  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes = {};
    unsigned size = 0;
    GRAFT_CHECK(EVP_DigestFinal_ex(context_.get(), bytes.data(), &size) == 1, "EVP digest");
    std::string text;
    for (unsigned i = 0; i < size; ++i)
      text += fmt::format("{:02x}", bytes.at(i));
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

ExpectedHash sha256_or_none(std::string_view hex) {
  if (!is_hex(hex, 64)) return {};
  return {.kind = ExpectedHash::Kind::Sha256, .hex = lower_case(hex)};
}

ExpectedHash git_sha1_or_none(std::string_view hex) {
  if (!is_hex(hex, 40)) return {};
  return {.kind = ExpectedHash::Kind::GitSha1, .hex = lower_case(hex)};
}

std::string sha256_of(std::string_view text) {
  Digest digest(EVP_sha256());
  digest.add(text);
  return digest.hex();
}

std::string hash_file(const std::filesystem::path& path,
                      ExpectedHash::Kind kind,
                      const std::function<void(std::uint64_t bytes)>& on_bytes) {
  GRAFT_CHECK(kind != ExpectedHash::Kind::None, path.string());
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(path.string(), ": cannot be opened");
  Digest digest(kind == ExpectedHash::Kind::Sha256 ? EVP_sha256() : EVP_sha1());
  // Git hashes a header with the size before the content.
  if (kind == ExpectedHash::Kind::GitSha1) {
    digest.add(str("blob ", std::filesystem::file_size(path)));
    digest.add(std::string_view("\0", 1));
  }
  std::vector<char> buffer(kReadBytes);
  while (in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const auto count = static_cast<std::size_t>(in.gcount());
    digest.add({buffer.data(), count});
    if (on_bytes) on_bytes(count);
  }
  if (in.bad()) fail(path.string(), ": cannot be read");
  return digest.hex();
}

}  // namespace graft::hub
