#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <future>

#include "refused_threads.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/threads.hpp"

using namespace tessera;

namespace {

constexpr int kOthers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGCHLD, SIGALRM};
constexpr int kFaults[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};

bool blocks(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

volatile std::sig_atomic_t received = 0;

}  // namespace

TEST_CASE("Blocked signals arrive afterwards, those of faults at once") {
  struct sigaction count {
  }, before{};
  count.sa_handler = [](int) { received = received + 1; };
  ::sigaction(SIGUSR2, &count, &before);
  received = 0;
  {
    const SignalsBlocked blocked;
    for (const int signal : kOthers) CHECK(blocks(signal));
    for (const int signal : kFaults) CHECK_FALSE(blocks(signal));
    pthread_kill(pthread_self(), SIGUSR2);
    CHECK(received == 0);
  }
  CHECK(received == 1);
  ::sigaction(SIGUSR2, &before, nullptr);
}

TEST_CASE("A signal that was blocked before stays blocked") {
  for (const int signal : kOthers) CHECK_FALSE(blocks(signal));
  {
    const SignalsBlocked outer;
    { const SignalsBlocked inner; }
    for (const int signal : kOthers) CHECK(blocks(signal));
  }
  for (const int signal : kOthers) CHECK_FALSE(blocks(signal));
}

TEST_CASE("A thread is started with its name and without signals, which its starter still receives") {
  std::promise<void> end;
  bool is_blocked = true, has_faults = true;
  std::thread thread = start_thread("writes checkpoints", [&] {
    for (const int signal : kOthers) is_blocked = is_blocked && blocks(signal);
    for (const int signal : kFaults) has_faults = has_faults && !blocks(signal);
    end.get_future().wait();
  });
  std::array<char, 16> name{};
  pthread_getname_np(thread.native_handle(), name.data(), name.size());
  for (const int signal : kOthers) CHECK_FALSE(blocks(signal));
  end.set_value();
  thread.join();
  CHECK(std::string(name.data()) == "writes checkpoi");
  CHECK(is_blocked);
  CHECK(has_faults);
}

TEST_CASE("A thread that the system refuses is named with the limits that do so") {
  {
    const test::OnlyThreads none(0);
    CHECK_THROWS_WITH(start_thread("reader", [] {}),
                      Catch::Contains("cannot start the thread 'reader'") && Catch::Contains("ulimit -u"));
    CHECK_THROWS_AS(start_thread("reader", [] {}), IoError);
  }
  for (const int signal : kOthers) CHECK_FALSE(blocks(signal));
}

TEST_CASE("A thread that pauses ends at once when its owner goes, and receives no signals") {
  std::promise<bool> paused, asked, blocked;
  const auto start = std::chrono::steady_clock::now();
  {
    const std::jthread thread = start_thread("watcher", [&](const std::stop_token& end) {
      blocked.set_value(blocks(SIGTERM));
      paused.set_value(ends_within(end, std::chrono::milliseconds(1)));
      asked.set_value(ends_within(end, std::chrono::minutes(10)));
    });
    CHECK_FALSE(paused.get_future().get());
  }
  CHECK(asked.get_future().get());
  CHECK(blocked.get_future().get());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::minutes(1));
}

TEST_CASE("a thread that sleeps on time wakes at once, and others as usual") {
  const auto slice = [] {  // of sched_getattr(2); before Linux 6.12 it tells none
    std::array<std::uint64_t, 6> attributes{sizeof attributes};
    return syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0) == 0 ? attributes[3] : 1;
  };
  const int slack = prctl(PR_GET_TIMERSLACK);
  const std::uint64_t usual = slice();
  start_thread("sleeper", [&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    sleep_until(end);
    CHECK(std::chrono::steady_clock::now() >= end);
    CHECK(prctl(PR_GET_TIMERSLACK) == 1000);
    CHECK(slice() == (usual == 0 ? 0 : 100'000));
  }).join();
  CHECK(prctl(PR_GET_TIMERSLACK) == slack);
  CHECK(slice() == usual);
}
