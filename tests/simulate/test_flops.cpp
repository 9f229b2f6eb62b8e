#include <catch2/catch.hpp>

#include "tessera/simulate/flops.hpp"

using namespace tessera;

TEST_CASE("Published FLOPs count the keys that each layer sees") {
  Architecture a = preset("gemma3-270m");
  a.layers = 7;
  for (const std::int64_t sequence : {256, 512, 2048}) {
    const ModelParts model = declare_parts(a, 1, sequence, DType::bf16);
    const std::int64_t seen = sequence + 6 * std::min<std::int64_t>(sequence, 512);  // the sixth layer sees all
    CHECK(published_flops_per_token(model) ==
          Approx(static_cast<double>(6 * model.parameter_count() + 12 * 1024 * seen)));
  }
}
