#pragma once
// A process of its own, for tests that kill one or limit what it may write.

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <utility>

namespace tessera::test {

class Child {
 public:
  /// Runs f(wait_to_be_killed). The process ends with exit code 1 where f returns or throws.
  template <class F>
  explicit Child(F&& f) {
    REQUIRE(::pipe(ends_) == 0);
    process_ = ::fork();
    REQUIRE(process_ >= 0);
    if (process_ > 0) return;
    try {
      f([this] {
        for (char ready = 'r'; ::write(ends_[1], &ready, 1) == 1;) ::pause();
      });
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    ::_exit(1);
  }
  ~Child() {
    if (process_ > 0) end(SIGKILL);
    for (const int end : ends_) ::close(end);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Returns when the process waits to be killed.
  void wait_until_ready() {
    char ready = 0;
    ::close(std::exchange(ends_[1], -1));
    REQUIRE(::read(ends_[0], &ready, 1) == 1);
  }
  /// Waits until the process ends by itself.
  int exit_code() {
    const int status = end(0);
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
  }
  void kill() {
    const int status = end(SIGKILL);
    REQUIRE(WIFSIGNALED(status));
  }

 private:
  /// Sends a signal (0: none), and waits for the end, which it returns.
  int end(int signal) {
    REQUIRE(process_ > 0);
    int status = 0;
    ::kill(process_, signal);
    ::waitpid(std::exchange(process_, -1), &status, 0);
    return status;
  }

  int ends_[2] = {-1, -1};
  pid_t process_ = -1;
};

}  // namespace tessera::test
