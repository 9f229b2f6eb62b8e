#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tessera/backend/cores.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
namespace fs = std::filesystem;

namespace {

/// A folder that looks like /proc and /sys/fs/cgroup, gone at the end of the test.
struct FakeMachine {
  fs::path root = fs::temp_directory_path() / ("tessera_cores_" + std::to_string(getpid()));
  FakeMachine() { fs::create_directories(root); }
  ~FakeMachine() { fs::remove_all(root); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  std::int64_t memory() const { return usable_memory(root / "proc", root / "cgroup"); }
};

/// Returns what is usable of bytes that are free.
std::int64_t usable_of(std::int64_t bytes) { return bytes - bytes / 32; }

}  // namespace

TEST_CASE("allowed cores follow the affinity mask") {
  std::thread([] {  // the mask belongs to the thread, so the test's own stays as it is
    REQUIRE(allowed_cores() >= 1);
    cpu_set_t all, one;
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &all)) continue;
      CPU_SET(core, &one);
      break;
    }
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    REQUIRE(allowed_cores() == 1);
    const std::vector<int> cores = allowed_core_numbers();
    REQUIRE(cores.size() == 1);
    REQUIRE(CPU_ISSET(cores[0], &one));
  })
      .join();
}

TEST_CASE("usable memory is the least of the machine's and the control groups'") {
  const FakeMachine machine;
  REQUIRE_THROWS_AS(machine.memory(), IoError);
  machine.write("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable:    900 kB\n");
  REQUIRE(machine.memory() == usable_of(900 * 1024));

  machine.write("proc/self/cgroup", "0::/job/step\n");
  machine.write("cgroup/job/step/memory.max", "max\n");
  machine.write("cgroup/job/step/memory.current", "5\n");
  REQUIRE(machine.memory() == usable_of(900 * 1024));
  machine.write("cgroup/job/memory.max", "100000\n");
  machine.write("cgroup/job/memory.current", "40000\n");
  REQUIRE(machine.memory() == usable_of(60000));

  machine.write("proc/self/cgroup", "3:cpu,cpuacct:/job\n2:memory:/old\n");
  REQUIRE(machine.memory() == usable_of(900 * 1024));
  machine.write("cgroup/memory/old/memory.limit_in_bytes", "500\n");
  machine.write("cgroup/memory/old/memory.usage_in_bytes", "700\n");
  REQUIRE(machine.memory() == usable_of(0));
}

TEST_CASE("cached files of a control group do not count as used") {
  const FakeMachine machine;
  machine.write("proc/meminfo", "MemAvailable: 900 kB\n");
  machine.write("proc/self/cgroup", "0::/job\n");
  machine.write("cgroup/job/memory.max", "100000\n");
  machine.write("cgroup/job/memory.current", "99000\n");
  machine.write("cgroup/job/memory.stat",
                "anon 4000\nfile 95000\ninactive_file 50000\nactive_file 40000\nshmem 5000\n");
  REQUIRE(machine.memory() == usable_of(100000 - (99000 - 90000)));  // shared memory stays used

  machine.write("proc/self/cgroup", "2:memory:/old\n");
  machine.write("cgroup/memory/old/memory.limit_in_bytes", "100000\n");
  machine.write("cgroup/memory/old/memory.usage_in_bytes", "99000\n");
  machine.write("cgroup/memory/old/memory.stat",
                "cache 1\nactive_file 1\ninactive_file 1\ntotal_inactive_file 30000\ntotal_active_file 20000\n");
  REQUIRE(machine.memory() == usable_of(100000 - (99000 - 50000)));
}

TEST_CASE("the least quota of time of the control groups bounds the cores") {
  const FakeMachine machine;
  const auto quota = [&] { return cpu_quota(machine.root / "proc", machine.root / "cgroup"); };
  CHECK_FALSE(quota());

  machine.write("proc/self/cgroup", "0::/pod/step\n");
  machine.write("cgroup/pod/step/cpu.max", "max 100000\n");
  CHECK_FALSE(quota());
  machine.write("cgroup/pod/cpu.max", "150000 100000\n");
  CHECK(quota() == 1.5);
  machine.write("cgroup/cpu.max", "60000 50000\n");  // a container sees its own group as the root
  CHECK(quota() == 1.2);

  machine.write("proc/self/cgroup", "4:memory:/m\n3:cpu,cpuacct:/docker/42\n2:cpuset:/\n");
  machine.write("cgroup/cpu/docker/42/cpu.cfs_quota_us", "-1\n");
  machine.write("cgroup/cpu/docker/42/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(quota());
  machine.write("cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  machine.write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(quota() == 0.5);
}

TEST_CASE("this machine has memory") { REQUIRE(usable_memory() > 0); }

TEST_CASE("The limit of locked memory is the process's, or there is none") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_MEMLOCK, &before) == 0);
  rlimit less = before;
  less.rlim_cur = 65536;
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &less) == 0);
  CHECK(lockable_memory() == 65536);
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &before) == 0);
  CHECK(lockable_memory().has_value() == (before.rlim_cur != RLIM_INFINITY));
}
