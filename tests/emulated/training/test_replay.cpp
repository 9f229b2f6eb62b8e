// run.replay_every on GPUs: two of them make the same bits, and a wrong result is found; other steps are graphs.
#include <cstdlib>

#include "emulated/training/gpu_case.hpp"
#include "training/replay_case.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("on GPUs a wrong result is found and located, and nothing else is") {
  const GpuCount gpus(3);
  const Architecture small = tiny_gpt2();
  std::uint64_t seed = 1;
  const int tries = std::getenv("TESSERA_LONG") != nullptr ? 3 : 1;
  for (const auto& [strategy, compute, offload] :
       {std::tuple{Strategy::ddp, DType::bf16, Offload::none}, {Strategy::zero3, DType::fp16, Offload::optimizer}}) {
    Drawn drawn;
    drawn.options = gpu_options();
    drawn.options.run.check_every = drawn.options.run.replay_every = 2;
    drawn.options.shard.strategy = strategy, drawn.options.shard.offload = offload;
    drawn.options.precision.compute = compute;
    drawn.world = drawn.ranks_per_node = 3;
    drawn.text = fmt::format("{} {}", name_of(strategy), name_of(compute));
    INFO(drawn.text);
    WrongResult none;
    for (const std::string& said : train_with_wrong_result(drawn, 0, none, &small)) REQUIRE(said == "");
    for (int i = 0; i < tries; ++i) require_wrong_result_found(drawn, seed++, &small);
  }
}
