// As on cores: a skipped step and its bad number, eagerly and as graphs.

#include <catch2/catch.hpp>

#include "emulated/training/gpu_case.hpp"
#include "training/bad_step_case.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("on a GPU a bad step is skipped and located, and replayed graphs go on after it") {
  Options options = gpu_options();
  options.run.graph = GENERATE(true, false);
  options.optim.warmup_steps = 0;
  const BadStepOutcome plain = train_around_bad_step(options, 1, "h.1", false);
  const BadStepOutcome located = train_around_bad_step(options, 1, "h.1", true);
  CHECK_FALSE(located.finite);
  CHECK(located.losses == plain.losses);
  CHECK_THAT(located.where, Catch::Contains("h.1") && Catch::Contains("makes nan"));
}
