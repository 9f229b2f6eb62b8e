// Facts that ranks find out about their machine and each other before a run.

#include <sched.h>

#include <algorithm>

#include "mpi_world.hpp"
#include "tessera/base/error.hpp"
#include "tessera/resolve/machine.hpp"

using namespace tessera;
using test::world;

namespace {

/// Binds this thread to one core during its lifetime, as a launcher binds ranks.
class Bound {
 public:
  explicit Bound(int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(core), &one);
    sched_getaffinity(0, sizeof before_, &before_);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~Bound() { sched_setaffinity(0, sizeof before_, &before_); }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace

TEST_CASE("ranks that are bound to different cores have the union of them") {
  const std::vector<int> cores = allowed_core_numbers();
  const Options options;
  const auto count = static_cast<std::int64_t>(cores.size());
  REQUIRE_ALL(resolve_grid(world(), options).machine_cores == count);
  {
    const Bound bound(cores[static_cast<std::size_t>(world().rank() % count)]);
    const MachineShape machine = resolve_grid(world(), options);
    REQUIRE_ALL(machine.machine_cores == std::min(count, world().size()));
    REQUIRE_ALL(threads_of(options, machine) == 1);
    // Waits may spin where every rank has its own core.
    REQUIRE_ALL((threads_on_cores(1, machine) == 1) == (world().size() <= count));
  }
  const Bound bound(cores[0]);
  const MachineShape machine = resolve_grid(world(), options);
  REQUIRE_ALL(machine.machine_cores == 1);
  REQUIRE_ALL(threads_on_cores(1, machine) == world().size());
}

TEST_CASE("smaller nodes leave the machine its ranks") {
  const std::int64_t before = world().ranks_per_node();
  Options options;
  options.grid.ranks_per_node = 1;
  const MachineShape machine = resolve_grid(world(), options);
  REQUIRE_ALL(world().ranks_per_node() == 1);
  REQUIRE_ALL(machine.machine_ranks == static_cast<std::int64_t>(world().machine_members().size()));
  REQUIRE_ALL(resolve_grid(world(), options).machine_ranks == machine.machine_ranks);
  world().set_ranks_per_node(before);
}

TEST_CASE("ranks with different options find out before they wait for each other") {
  if (world().size() == 1) return;
  Options options;
  if (world().rank() == world().size() - 1) options.grid.ranks_per_node = 1;  // only this rank would make new nodes
  std::string message;
  try {
    resolve_grid(world(), options);
  } catch (const UsageError& error) {
    message = error.what();
  }
  INFO(message);
  REQUIRE_ALL(message.find(fmt::format("rank {} differs from rank 0", world().size() - 1)) != std::string::npos);
  REQUIRE_ALL(message.find("'ranks_per_node = 1' instead of 'ranks_per_node = 0'") != std::string::npos);
}
