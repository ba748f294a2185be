// Paths of test data: the folder `tests` of the repository, and for large files (vocabularies,
// Sprout in BF16) the folder `shared` beside the repository. Without it the tests that need it are
// skipped; with CI=true they fail.

#pragma once

#include <cstdlib>
#include <filesystem>
#include <string_view>

// The build defines it for every test program; the header must compile without it too.
#ifndef GRAFT_SOURCE_DIR
#define GRAFT_SOURCE_DIR "."
#endif

namespace graft {

// test_data("configs/DeepSeek-V3") is <repository>/tests/configs/DeepSeek-V3.
inline std::filesystem::path test_data(std::string_view relative) {
  return std::filesystem::path(GRAFT_SOURCE_DIR) / "tests" / relative;
}

// The model that graft ships: Sprout in Q6_K.
inline std::filesystem::path bundled_sprout() {
  return std::filesystem::path(GRAFT_SOURCE_DIR) / "models/sprout/sprout-Q6_K.gguf";
}

// shared_data("tokenizers") is <repository>/../shared/tokenizers, whether it exists or not.
inline std::filesystem::path shared_data(std::string_view relative) {
  return std::filesystem::path(GRAFT_SOURCE_DIR).parent_path() / "shared" / relative;
}

inline bool shared_data_is_required() {
  const char* value = std::getenv("CI");
  return value != nullptr && std::string_view(value) == "true";
}

// Sanitizers are about ten times slower: tests with many random cases then run fewer. g++ defines
// macros, clang has __has_feature.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kUnderSanitizers = true;
#elif defined(__has_feature)
inline constexpr bool kUnderSanitizers =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kUnderSanitizers = false;
#endif

}  // namespace graft

// At the top of a TEST that reads `path`; needs <gtest/gtest.h>.
#define GRAFT_REQUIRE_SHARED(path)                                    \
  do {                                                                \
    if (!std::filesystem::exists(path)) {                             \
      if (::graft::shared_data_is_required()) {                       \
        FAIL() << (path) << " is missing, and required with CI=true"; \
      }                                                               \
      GTEST_SKIP() << (path) << " is not on this machine";            \
    }                                                                 \
  } while (false)

// At the top of a TEST that takes minutes under sanitizers and whose code other tests cover.
#define GRAFT_SKIP_UNDER_SANITIZERS()                                           \
  do {                                                                          \
    if (::graft::kUnderSanitizers) GTEST_SKIP() << "too slow under sanitizers"; \
  } while (false)
