// State on the host of a GPU's machine: pinned memory, copies on separate streams, AdamW on cores.

#include <catch2/catch.hpp>
#include <cstdlib>

#include "gpu_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Checks that two GPUs which offload a part end with the bits of one that offloads nothing.
void check_two_gpus(Strategy strategy, Offload offload, double fraction) {
  const GpuCount gpus(2);
  Options options = gpu_options();
  options.train.micro_batch = 1;
  const Architecture architecture = tiny_gpt2();
  options.train.accumulation = 2;
  const RunOutcome plain = train_locally(options, architecture, 1, 1);
  options.train.accumulation = 1;
  options.shard.strategy = strategy;
  options.shard.offload = offload;
  options.shard.offload_fraction.value = fraction;
  CHECK(same_run(plain, train_locally(options, architecture, 2, 2, {}, {}, 512)));
}

}  // namespace

TEST_CASE("a GPU whose state rests on the host has the bits of one that keeps it, in graphs and late copies") {
  Options options = gpu_options();
  const Architecture architecture = tiny_gpt2();
  MachineShape poisoned;
  poisoned.poison = true;
  for (const DType compute : {DType::fp32, DType::bf16}) {
    options.precision.compute = compute;
    options.optim.moments = compute == DType::bf16 ? StateType::bf16 : StateType::fp32;
    options.shard.offload = Offload::none;
    const RunOutcome plain = train_locally(options, architecture, 1, 1);
    for (const Offload offload : {Offload::optimizer, Offload::params}) {
      options.shard.offload = offload;
      INFO(name_of(compute) << " " << name_of(offload));
      emulator::set_chaos(5);
      for (const QueueMode mode : {QueueMode::parallel, QueueMode::serial}) {
        options.run.queues = mode;
        INFO(name_of(mode) << " queues");
        CHECK(same_run(plain, train_locally(options, architecture, 1, 1, poisoned, {}, 256)));
      }
      emulator::set_chaos(1);
    }
  }
}

TEST_CASE("a GPU's skipped steps leave nothing to be applied to state on the host") {
  Options options = gpu_options();
  options.train.steps = 6;
  options.train.accumulation = 2;
  options.optim.warmup_steps = 0;
  options.precision.compute = options.precision.reduce = DType::fp16;
  const TensorSource weights = with_last_gain(tiny_gpt2(), 30);
  const RunOutcome plain = train_locally(options, tiny_gpt2(), 1, 1, {}, weights);
  CHECK((plain.skipped > 0 && plain.skipped < 6));
  options.shard.offload = Offload::optimizer;
  for (const double fraction : {1.0, 0.5}) {
    options.shard.offload_fraction.value = fraction;
    const RunOutcome other = train_locally(options, tiny_gpt2(), 1, 1, {}, weights, 256);
    CHECK(other.losses == plain.losses);
    CHECK((other.weights == plain.weights));
    CHECK(other.skipped == plain.skipped);
  }
}

TEST_CASE("several GPUs whose shards rest on the host have the bits of one that does not offload") {
  check_two_gpus(Strategy::zero3, Offload::params, 1);
}

TEST_CASE("several GPUs that offload a part of the optimizer have them too", "[long]") {
  check_two_gpus(Strategy::zero1, Offload::optimizer, 0.5);
}

TEST_CASE(
    "a GPU whose blocks' inputs wait on the host has the bits of one that keeps them, in graphs and late copies") {
  Options options = gpu_options();
  Architecture architecture = tiny_gpt2();
  architecture.layers = 4;
  options.memory.checkpoint = ActivationCheckpointing::block;
  options.train.accumulation = 2;
  MachineShape poisoned;
  poisoned.poison = true;
  const RunOutcome plain = train_locally(options, architecture, 1, 1);
  options.memory.offload_activations = true;
  const bool all = std::getenv("TESSERA_LONG") != nullptr;
  emulator::set_chaos(5);
  for (const Offload offload : {Offload::none, Offload::params}) {
    options.shard.offload = offload;
    for (const QueueMode mode : {QueueMode::parallel, QueueMode::serial}) {
      if (!all && (offload == Offload::none) != (mode == QueueMode::serial)) continue;
      options.run.queues = mode;
      INFO(name_of(offload) << ", " << name_of(mode) << " queues");
      CHECK(same_run(plain, train_locally(options, architecture, 1, 1, poisoned, {}, 256)));
    }
  }
  emulator::set_chaos(1);
}
