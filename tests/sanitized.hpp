#pragma once

namespace tessera::testing {

/// True in builds with AddressSanitizer or ThreadSanitizer. They look for wrong accesses, not for wrong values, and are
/// five to twenty times as slow. So tests over many drawn cases try fewer there, and do not compute long references.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace tessera::testing
