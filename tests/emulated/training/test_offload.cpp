// State on the host of a GPU's machine: pinned memory, copies on streams of their own, AdamW on cores.

#include <catch2/catch.hpp>

#include "gpu_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

bool same_run(const RunOutcome& a, const RunOutcome& b) {
  return a.losses == b.losses && a.norms == b.norms && a.weights == b.weights && a.evaluations == b.evaluations;
}

}  // namespace

TEST_CASE("a GPU whose state rests on the host has the bits of one that keeps it, in graphs and late copies") {
  Options options = gpu_options();
  const Architecture architecture = tiny_gpt2();
  MachineShape poisoned;
  poisoned.poison = true;
  for (const DType compute : {DType::fp32, DType::bf16}) {
    options.precision.compute = compute;
    options.shard.offload = Offload::none;
    const RunOutcome plain = train_locally(options, architecture, 1, 1);
    for (const Offload offload : {Offload::optimizer, Offload::params}) {
      options.shard.offload = offload;
      INFO(name_of(compute) << " " << name_of(offload));
      emulator::set_chaos(5);
      CHECK(same_run(plain, train_locally(options, architecture, 1, 1, poisoned, {}, 256)));
      emulator::set_chaos(1);
    }
  }
}

TEST_CASE("several GPUs that offload have the bits of one that does not", "[long]") {
  const GpuCount gpus(2);
  Options options = gpu_options();
  options.train.micro_batch = 1;
  const Architecture architecture = tiny_gpt2();
  options.train.accumulation = 2;
  const RunOutcome plain = train_locally(options, architecture, 1, 1);
  options.train.accumulation = 1;
  for (const Strategy strategy : {Strategy::zero1, Strategy::zero3}) {
    options.shard.strategy = strategy;
    options.shard.offload = Offload::optimizer;
    options.shard.offload_fraction.value = strategy == Strategy::zero1 ? 0.5 : 1;
    INFO(name_of(strategy));
    CHECK(same_run(plain, train_locally(options, architecture, 2, 2, {}, {}, 512)));
  }
}
