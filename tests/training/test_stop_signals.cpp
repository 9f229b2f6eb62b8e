#include <dnnl.h>
#include <fcntl.h>
#include <pthread.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/block_file.hpp"
#include "checkpoint/block_pipeline.hpp"
#include "temporary_folder.hpp"
#include "tessera/backend/stream.hpp"
#include "tessera/backend/thread_pool.hpp"
#include "tessera/data/reader.hpp"
#include "tessera/files/io_thread.hpp"
#include "tessera/training/stop.hpp"

using namespace tessera;
using tessera::testing::TemporaryFolder;

namespace {

/// The signals that each thread of this process blocks, by the thread's number: one bit a signal.
std::map<std::string, std::uint64_t> blocked_signals() {
  std::map<std::string, std::uint64_t> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      if (word == "SigBlk:") status >> std::hex >> threads[task.path().filename().string()];
    }
  }
  return threads;
}

/// All signals that a process can be sent, except those for its own faults.
constexpr std::uint64_t kOthers = [] {
  std::uint64_t all = 0;
  for (int number = 1; number < 32; ++number) all |= std::uint64_t{1} << (number - 1);
  for (const int number : {SIGKILL, SIGSTOP, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP})
    all &= ~(std::uint64_t{1} << (number - 1));
  return all;
}();

}  // namespace

TEST_CASE("threads receive no signals") {
  const auto before = blocked_signals();
  const TemporaryFolder folder;
  ThreadPool pool(3);
  const auto stream = make_host_stream("queue", 4);
  IoThread files;
  const auto source = tokens_in_memory(std::vector<std::int32_t>(10), 10);
  const Sampler sampler({0, 10}, 1, SampleOrder::sequential, 1);
  const BatchReader reader(
      *source, sampler, 10, 1, [](std::int64_t q) { return q; }, 1);
  const auto path = folder.path() / "blocks";
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT, 0600));
  FileRecord record;
  record.bytes = record.block_bytes = 4096;
  const BlockPipeline pipeline(file, path, record);
  std::atomic<bool> all_seen{false};
  on_threads(3, 3, [&](std::int64_t, int) {
    while (!all_seen) {
      std::size_t started = 0;
      for (const auto& [thread, blocked] : blocked_signals()) {
        if (before.count(thread) != 0) continue;
        // (Of a thread that ends, because it has seen all, Linux says that it blocks none.)
        if ((blocked & kOthers) != kOthers && !all_seen)
          throw InternalError("thread {} blocks only {:x}", thread, blocked);
        ++started;
      }
      if (started == 2 + 1 + 1 + 1 + 2 + 2) all_seen = true;
    }
  });
}

// A handler's frame on the stack of a matmul would lie in the matmul's own buffers, and end the program sooner or
// later.
TEST_CASE("signals leave matmuls alone") {
  constexpr std::int64_t n = 96, wide = 160;
  const std::vector<float> a(n * wide, 1.0f), b(n * wide, 2.0f);
  std::vector<float> c(n * n);
  for (int round = 0; round < 10; ++round) {
    const StopSignals signals;
    REQUIRE(signals.received().empty());
    std::atomic<bool> over{false};
    // Well under the half second after which a second signal ends the program.
    std::thread sender([&, computing = pthread_self()] {
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
      while (std::chrono::steady_clock::now() < end) {
        pthread_kill(computing, SIGUSR1);
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      over = true;
    });
    while (!over) {
      REQUIRE(dnnl_sgemm('N', 'T', n, n, wide, 1.0f, a.data(), wide, b.data(), wide, 0.0f, c.data(), n) ==
              dnnl_success);
    }
    sender.join();
    REQUIRE(c.front() == 2.0f * wide);
    REQUIRE(c.back() == 2.0f * wide);
    REQUIRE(signals.received() == "SIGUSR1");
  }
}

TEST_CASE("a first signal does not end a process that is ending") {
  { const StopSignals signals; }
  REQUIRE(std::raise(SIGUSR1) == 0);
}
