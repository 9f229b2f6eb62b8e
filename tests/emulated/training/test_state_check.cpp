// run.check_every on GPUs: the sums that kernels keep, in graphs too, and state of which the host has a part.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "emulated/training/gpu_case.hpp"
#include "training/flip_case.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("on GPUs a flipped bit is found and located, and nothing else is") {
  const GpuCount gpus(2);
  const Architecture small = tiny_gpt2();
  struct Case {
    Strategy strategy;
    DType compute;
    Offload offload;
    OptimizerName optimizer;
    StateType moments;
    bool graph;
  };
  const Case cases[] = {{Strategy::ddp, DType::bf16, Offload::none, OptimizerName::adamw, StateType::bf16, true},
                        {Strategy::zero1, DType::fp16, Offload::none, OptimizerName::adamw, StateType::fp32, false},
                        {Strategy::zero3, DType::bf16, Offload::optimizer, OptimizerName::adamw, StateType::bf16, true},
                        {Strategy::zero2, DType::fp32, Offload::none, OptimizerName::muon, StateType::bf16, true}};
  std::uint64_t seed = 1;
  const int tries = std::getenv("TESSERA_LONG") != nullptr ? 3 : 1;
  for (const Case& one : cases) {
    Drawn drawn;
    drawn.options = gpu_options();
    drawn.options.run.check_every = 1;
    drawn.options.shard.strategy = one.strategy, drawn.options.shard.offload = one.offload;
    drawn.options.shard.offload_fraction.value = 0.5;
    drawn.options.precision.compute = one.compute, drawn.options.optim.name = one.optimizer;
    drawn.options.optim.moments = one.moments;
    drawn.options.run.graph = one.graph;
    drawn.world = drawn.ranks_per_node = 2;
    drawn.text = fmt::format("{} {}", name_of(one.strategy), name_of(one.compute));
    INFO(drawn.text);
    for (const std::string& said : train_with_flip(drawn, 0, nullptr, &small)) REQUIRE(said == "");
    for (int i = 0; i < tries; ++i) require_found(drawn, seed++, &small);
  }
}
