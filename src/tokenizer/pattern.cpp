#include "tokenizer/pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/base/unique_handle.hpp"
#include "tokenizer/bpe_description.hpp"

namespace tessera {

namespace {

constexpr std::size_t kFirstStack = std::size_t{32} << 10, kLargestStack = std::size_t{8} << 20;  // bytes
constexpr std::uint32_t kInterpreterHeap = 1u << 20;                                              // KiB

template <class Pointer, auto kFree>
struct Free {
  static Pointer none() { return nullptr; }
  void operator()(Pointer pointer) const { kFree(pointer); }
};
using CodeHandle = UniqueHandle<pcre2_code*, Free<pcre2_code*, pcre2_code_free>>;
using DataHandle = UniqueHandle<pcre2_match_data*, Free<pcre2_match_data*, pcre2_match_data_free>>;
using ContextHandle = UniqueHandle<pcre2_match_context*, Free<pcre2_match_context*, pcre2_match_context_free>>;
using StackHandle = UniqueHandle<pcre2_jit_stack*, Free<pcre2_jit_stack*, pcre2_jit_stack_free>>;

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PatternFamily family_of(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return PatternFamily::gpt2;
  if (pattern == kQwen2Pattern) return PatternFamily::qwen2;
  if (pattern == kLlama3Pattern) return PatternFamily::llama3;
  return PatternFamily::other;
}

template <class Handle>
Handle allocated(Handle handle) {
  if (!handle) throw std::bad_alloc();
  return handle;
}

}  // namespace

struct Pattern::Code {
  CodeHandle handle;
};

Pattern::Pattern(const std::string& pattern) : pattern_(pattern), family_(family_of(pattern)) {
  const std::string translated = pcre2_syntax(pattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  // A family's pattern matches at every position: the search would only look further after a defect.
  const std::uint32_t options = PCRE2_UTF | PCRE2_UCP | (family_ == PatternFamily::other ? 0 : PCRE2_ANCHORED);
  CodeHandle code(pcre2_compile(units(translated), translated.size(), options, &error, &at, nullptr));
  if (!code) throw refusal("the pattern {} cannot be read: {}", shown(pattern), message_of(error));
  std::uint32_t matches_empty = 0;
  pcre2_pattern_info(code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) throw refusal("the pattern {} may match no character, but words have some", shown(pattern));
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where that is refused, patterns are interpreted
  code_ = std::make_shared<const Code>(Code{std::move(code)});
}

struct Pattern::Finder::Matching {
  DataHandle data;
  StackHandle stack;
  ContextHandle context;
};

Pattern::Finder::Finder(const Pattern& pattern) : pattern_(pattern) {
  matching_ = std::make_unique<Matching>();
  matching_->data = allocated(DataHandle(pcre2_match_data_create_from_pattern(pattern.code_->handle.get(), nullptr)));
  matching_->stack = allocated(StackHandle(pcre2_jit_stack_create(kFirstStack, kLargestStack, nullptr)));
  matching_->context = allocated(ContextHandle(pcre2_match_context_create(nullptr)));
  pcre2_match_context* context = matching_->context.get();
  pcre2_jit_stack_assign(context, nullptr, matching_->stack.get());
  // A run of 10 MB of spaces steps back as often, so the heap is the limit instead.
  pcre2_set_match_limit(context, std::numeric_limits<std::uint32_t>::max());
  pcre2_set_depth_limit(context, std::numeric_limits<std::uint32_t>::max());
  pcre2_set_heap_limit(context, kInterpreterHeap);
}

Pattern::Finder::~Finder() = default;

Pattern::Found Pattern::Finder::next(std::string_view text, std::size_t at) {
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(pattern_.code_->handle.get(), units(text), text.size(), at, PCRE2_NO_UTF_CHECK | options,
                       matching_->data.get(), matching_->context.get());
  };
  int found = match(0);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
  if (found == PCRE2_ERROR_NOMATCH) return {text.size(), text.size()};
  if (found < 0)
    throw refusal("the pattern {} fails on a text of {} bytes: {}", shown(pattern_.pattern_), text.size(),
                  message_of(found));
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(matching_->data.get());
  return {ends[0], ends[1]};
}

}  // namespace tessera
