#pragma once
// Captures what a test's code prints.

#include <unistd.h>

#include <cstdio>
#include <string>

namespace tessera::test {

/// Returns what `action` writes to a descriptor: 1 for stdout, 2 for stderr.
template <class F>
std::string printed_to(int descriptor, F&& action) {
  struct Redirected {
    explicit Redirected(int to) : number(to), before(::dup(to)), file(std::tmpfile()) {
      std::fflush(nullptr);
      ::dup2(::fileno(file), number);
    }
    ~Redirected() {
      end();
      std::fclose(file);
    }
    void end() {
      if (before < 0) return;
      std::fflush(nullptr);
      ::dup2(before, number);
      ::close(before);
      before = -1;
    }
    int number, before;
    std::FILE* file;
  } redirected(descriptor);
  action();
  redirected.end();
  std::string text;
  std::rewind(redirected.file);
  for (int c = std::fgetc(redirected.file); c != EOF; c = std::fgetc(redirected.file)) text += static_cast<char>(c);
  return text;
}

}  // namespace tessera::test
