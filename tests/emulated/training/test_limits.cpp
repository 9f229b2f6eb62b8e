// Options that a GPU cannot serve are refused before anything is computed.
#include <catch2/catch.hpp>

#include "gpu_case.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("heads whose tiles do not fit a block's shared memory are refused at the start") {
  using Catch::Contains;
  Options options = gpu_options();
  options.train.steps = 1;
  options.optim.warmup_steps = 0;
  Architecture architecture = tiny_gpt2();
  architecture.layers = 1;
  architecture.heads = architecture.kv_heads = 1;
  architecture.width = 144;
  const auto said = [&] {
    try {
      train_locally(options, architecture, 1, 1);
      return std::string();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
  };
  emulator::set_shared_memory(99 * 1024);
  const std::string small = said();
  CHECK_THAT(small, Contains("heads of 144 in fp32") && Contains("140") && Contains("this GPU has 101") &&
                        Contains("up to 128"));
  architecture.width = 128;
  CHECK(said().empty());
  emulator::set_shared_memory(163 * 1024);
  architecture.width = 144;
  CHECK(said().empty());
}
