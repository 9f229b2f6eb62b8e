// Wishes to stop within a step, on emulated GPUs: eager steps, captured and replayed ones.

#include <catch2/catch.hpp>
#include <cstdlib>

#include "emulated/training/gpu_case.hpp"
#include "tessera/training/stop.hpp"
#include "training/give_up_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr std::int64_t kStop = StepRequests::kStop;

}  // namespace

TEST_CASE("a GPU's step is given up two micro-steps after the wish, with the bits of before") {
  const GpuCount gpus(2);
  Options options = gpu_options();
  options.train.accumulation = 5;
  const bool all = std::getenv("TESSERA_LONG") != nullptr;
  for (const CommBackend backend : {CommBackend::staged, CommBackend::nccl}) {
    options.comm.backend = backend;
    for (const std::int64_t last : {1, 4}) {  // eager; replayed as graphs
      if (!all && (last == 4) != (backend == CommBackend::nccl)) continue;
      Options before = options;
      before.train.steps = last - 1;
      const auto outcome =
          train_with_wishes(options, tiny_gpt2(), 2, [=](std::int64_t rank, std::int64_t step, std::int64_t begun) {
            return StepWish{rank == 1 && step == last && begun >= 1 ? kStop : 0, 1};
          });
      CAPTURE(backend, last);
      CHECK(outcome.given_up);
      CHECK(outcome.steps == last - 1);
      CHECK(outcome.asked == 2);  // micro-step 2 was submitted before the sum of micro-step 1 was read
      if (last == 1) continue;
      const auto none = [](std::int64_t, std::int64_t, std::int64_t) { return StepWish{}; };
      CHECK(outcome.weights == train_with_wishes(before, tiny_gpt2(), 2, none).weights);
    }
  }
}

TEST_CASE("a wish that comes while the host waits for a GPU is in the sum of that step") {
  Options options = gpu_options();
  options.train.accumulation = 1;
  const auto outcome = train_with_wishes(options, tiny_gpt2(), 1, [](std::int64_t, std::int64_t step, std::int64_t) {
    return StepWish{step >= 3 ? kStop : 0, 0};
  });
  CHECK(outcome.requests == std::vector<std::int64_t>{0, 0, kStop, kStop});
}
