#include "graft/base/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include <pcre2.h>

#include "graft/base/check.h"
#include "graft/base/error.h"

namespace graft {
namespace {

// Longer than any hand-written pattern; bounds the compile time.
constexpr std::size_t kMaxPatternBytes = std::size_t{64} << 10U;
// Module names have under 100 characters: ordinary patterns need a few hundred steps, nested
// quantifiers that fail need 2^n. A search that reaches this limit has run for about a millisecond.
constexpr std::uint32_t kMaxSteps = 100'000;
constexpr std::uint32_t kMaxHeapKib = 16 * 1024;

// Limits for find() on prompts: a repeated group takes one step and about 32 bytes of stack per
// character, and prompts contain runs of a million characters. Simple repeats take neither.
constexpr std::uint32_t kMaxFindSteps = 10'000'000;
constexpr std::uint32_t kMaxFindHeapKib = 256 * 1024;
constexpr std::size_t kFindStackBytes = std::size_t{32} << 10U;     // initial
constexpr std::size_t kMaxFindStackBytes = std::size_t{64} << 20U;  // reserved, committed on use

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR units(std::string_view text) {
  // PCRE2 rejects a null pointer even with length 0.
  return reinterpret_cast<PCRE2_SPTR>(text.empty() ? "" : text.data());
}

using CompileContext =
    std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)>;
using MatchContext = std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>;
using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;
using JitStack = std::unique_ptr<pcre2_jit_stack, decltype(&pcre2_jit_stack_free)>;

}  // namespace

struct RegexScratch::State {
  MatchContext context{pcre2_match_context_create(nullptr), pcre2_match_context_free};
  MatchData data{pcre2_match_data_create(1, nullptr), pcre2_match_data_free};
  JitStack stack{pcre2_jit_stack_create(kFindStackBytes, kMaxFindStackBytes, nullptr),
                 pcre2_jit_stack_free};
};

RegexScratch::RegexScratch() : state_(std::make_unique<State>()) {
  GRAFT_CHECK(state_->context && state_->data, "out of memory");
  pcre2_match_context* context = state_->context.get();
  pcre2_set_match_limit(context, kMaxFindSteps);
  pcre2_set_depth_limit(context, kMaxFindSteps);
  pcre2_set_heap_limit(context, kMaxFindHeapKib);
  if (state_->stack) pcre2_jit_stack_assign(context, nullptr, state_->stack.get());
}

RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;
RegexScratch& RegexScratch::operator=(RegexScratch&&) noexcept = default;
RegexScratch::~RegexScratch() = default;

Regex::Regex(std::string_view pattern) {
  const CompileContext context(pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  pcre2_set_max_pattern_length(context.get(), kMaxPatternBytes);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // UCP: \w and \d match all of Unicode, as in Python.
  pcre2_code* code =
      pcre2_compile(units(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                    &error, &offset, context.get());
  if (code == nullptr) fail("at ", offset, ": ", message_of(error));
  code_ = std::shared_ptr<const void>(
      code, [](const void* p) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p))); });
  // Optional: without the JIT pcre2_match interprets.
  has_jit_ = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
}

bool Regex::search(std::string_view subject) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const MatchContext context(pcre2_match_context_create(nullptr), pcre2_match_context_free);
  pcre2_set_match_limit(context.get(), kMaxSteps);
  pcre2_set_depth_limit(context.get(), kMaxSteps);
  pcre2_set_heap_limit(context.get(), kMaxHeapKib);
  const MatchData data(pcre2_match_data_create_from_pattern(code, nullptr), pcre2_match_data_free);
  GRAFT_CHECK(context && data, "out of memory");
  int result = pcre2_match(code, units(subject), subject.size(), 0, 0, data.get(), context.get());
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = pcre2_match(code, units(subject), subject.size(), 0, PCRE2_NO_JIT, data.get(),
                         context.get());
  }
  if (result >= 0) return true;
  if (result == PCRE2_ERROR_NOMATCH) return false;
  fail("search in \"", subject, "\" failed: ", message_of(result));
}

std::optional<Regex::Match> Regex::find(std::string_view subject,
                                        std::size_t from,
                                        RegexScratch& scratch) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  pcre2_match_data* data = scratch.state_->data.get();
  pcre2_match_context* context = scratch.state_->context.get();
  // pcre2_jit_match skips the argument checks; the contract of find() covers them.
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (has_jit_) {
    result = pcre2_jit_match(code, units(subject), subject.size(), from, 0, data, context);
  }
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = pcre2_match(code, units(subject), subject.size(), from,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, context);
  }
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) fail("search in ", subject.size(), " bytes failed: ", message_of(result));
  // \K in a lookahead can move the begin past the end: treat the match as empty.
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data);
  return Match{std::min(offsets[0], offsets[1]), offsets[1]};
}

}  // namespace graft
