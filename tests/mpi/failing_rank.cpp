// A job with failures: failing_rank HOW COLLECTIVE RANKS_PER_NODE. Started by tests that check its end.

#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/comm/make_communicator.hpp"
#include "tessera/comm/world.hpp"

using namespace tessera;

namespace {

/// Waits forever in a collective unless all ranks come.
void enter(const std::string& collective, World& world, Communicator& group, SharedRegion& region) {
  const auto stream = make_serial_stream("main");
  std::vector<std::int64_t> values(1000);
  if (collective == "all_gather") group.all_gather(*stream, region.data(), 1000, DType::fp32);
  if (collective == "reduce_scatter") {
    group.reduce_scatter(*stream, region.data(), DType::fp32, values.data(), DType::fp32, 1000);
  }
  if (collective == "all_reduce") group.all_reduce(*stream, values.data(), 1000, Reduction::sum);
  if (collective == "broadcast") group.broadcast(*stream, values.data(), 8000, 1);
  if (collective == "barrier") group.barrier(*stream);
  if (collective == "control") world.control().barrier();
}

/// Only MPI_Abort ends this.
[[noreturn]] void hear_nothing() {
  while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
}

int play(World& world, const std::string& how, const std::string& collective, std::int64_t ranks_per_node) {
  world.set_ranks_per_node(ranks_per_node);
  if (how == "everywhere") throw UsageError("the option is wrong");
  const ProcessGrid grid(world.size(), ranks_per_node, world.size());
  SharedRegion region(world, 64 * 1024);
  CommunicatorOptions options;
  options.timeout_seconds = how == "timeout" ? 0.5 : 0;
  const auto group = make_communicator(world, grid, Group::world, region, "test", options);
  for (int i = 0; i < 10; ++i) enter(collective, world, *group, region);
  if (how == "early") {
    if (world.rank() == 0) std::puts("rank 0 stops early");
    return 75;
  }
  if (how == "stopped") {  // as by a debugger, or a machine that went away
    world.control().waits().seconds = 0.5;
    if (world.rank() == 1) std::raise(SIGSTOP);
  }
  if (how == "late") {  // the others are at their end already
    if (world.rank() != 2) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    throw IoError("the disk is full");
  }
  if (world.rank() == 1 && how == "timeout") {
    while (true) {
      world.notice().check();
      std::this_thread::yield();
    }
  }
  const bool tells_early = how == "raised" || how == "hangs";  // as a player does, before its queues have come back
  if (world.rank() == 1 && tells_early) world.notice().raise({1, ExitCode::usage, "the option is wrong"});
  if (world.rank() == 1 && how == "hangs") hear_nothing();
  if (world.rank() == 1) throw UsageError("the option is wrong");
  if (world.rank() == 2 && (how == "stuck" || how == "raised")) hear_nothing();
  enter(collective, world, *group, region);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  World world(&argc, &argv);
  const std::string how = argv[1];
  const bool aborts = how == "stuck" || how == "raised" || how == "hangs" || how == "stopped";
  return world.run([&] { return play(world, how, argv[2], std::stoll(argv[3])); }, aborts ? 0.5 : 20);
}
