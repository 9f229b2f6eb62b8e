#pragma once
// The end of a library that came in by dlopen. Its static objects are younger than those of the program that made its
// first handle, so they end first. A handle that an older object destroys afterwards may crash the process.

#include <cstdio>
#include <cstdlib>

namespace emulator {

/// One for each emulated library.
template <class Library>
class LibraryEnd {
 public:
  /// At the first handle.
  static void begin() { static_cast<void>(at_exit()); }
  /// Ends the process if the library is gone.
  static void require(const char* call) {
    if (!gone()) return;
    std::fprintf(stderr, "emulator: %s by a static object, after the library's own have ended\n", call);
    std::abort();
  }

 private:
  static bool& gone() {
    static bool is_gone = false;
    return is_gone;
  }
  static int at_exit() {
    static const int registered = std::atexit([] { gone() = true; });
    return registered;
  }
};

}  // namespace emulator
