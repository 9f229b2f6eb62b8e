// How many threads a rank takes of its machine, and how its queues run.

#include <catch2/catch.hpp>

#include "tessera/training/session.hpp"

using namespace tessera;

namespace {

MachineShape machine_of(int ranks, int cores) {
  MachineShape machine;
  machine.machine_ranks = ranks, machine.machine_cores = cores;
  return machine;
}

}  // namespace

TEST_CASE("without a word about it, a rank's cores are the machine's") {
  CHECK(MachineShape{}.machine_cores == allowed_cores());
}

TEST_CASE("threads: the machine's cores dealt to its ranks, within what a rank may use") {
  Options options;
  const int own = allowed_cores();
  CHECK(threads_of(options, machine_of(1, own)) == own);
  CHECK(threads_of(options, machine_of(own, own)) == 1);
  CHECK(threads_of(options, machine_of(2 * own, own)) == 1);
  CHECK(threads_of(options, machine_of(3, 3 * own)) == own);  // three ranks, each bound to its own cores
  CHECK(threads_of(options, machine_of(2, 100 * own)) == own);
  options.run.threads = 7;
  CHECK(threads_of(options, machine_of(2, 4)) == 7);
}

TEST_CASE("the queue mode and spinning look at the whole machine") {
  Options options;
  CHECK(queue_mode_of(options, 1, machine_of(2, 2)) == QueueMode::serial);
  CHECK(queue_mode_of(options, 1, machine_of(2, 3)) == QueueMode::parallel);
  CHECK(queue_mode_of(options, 2, machine_of(2, 4)) == QueueMode::serial);
  CHECK(threads_on_cores(2, machine_of(2, 4)) == 2);
  CHECK(threads_on_cores(2, machine_of(2, 3)) == 4);
  options.comm.emulate.latency = 1e-3;
  CHECK(queue_mode_of(options, 2, machine_of(2, 4)) == QueueMode::parallel);
}
