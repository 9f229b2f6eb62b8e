#pragma once

#include <cstdint>
#include <cstdlib>

namespace tessera::testing {

/// True in builds with AddressSanitizer or ThreadSanitizer. They look for wrong accesses, not for wrong values, and are
/// five to twenty times as slow. So tests over many drawn cases try fewer there, and do not compute long references.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Returns how many cases a test over drawn ones tries: `all` of them, `sanitized` in such a build, and a third in a
/// quick run (TESSERA_QUICK=1, which tests/run.sh sets unless it is given --sanitized).
inline std::uint64_t draws(std::uint64_t all, std::uint64_t sanitized) {
  if (kSanitized) return sanitized;
  return std::getenv("TESSERA_QUICK") != nullptr ? (all + 2) / 3 : all;  // NOLINT(concurrency-mt-unsafe): at start
}

}  // namespace tessera::testing
