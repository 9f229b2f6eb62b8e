#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>

#include "tessera/backend/stream.hpp"
#include "tessera/backend/thread_pool.hpp"
#include "tessera/kernels/kernels.hpp"
#include "tessera/optimizer/optimizer.hpp"

using namespace tessera;

namespace {

/// The host's and the kernels' side of one optimizer, on the CPU.
struct Steps {
  explicit Steps(bool scales_loss) : optimizer({OptimOptions{}, 10, scales_loss}, 1) { sums.clear(); }
  void clip() { kernels->run(*stream, optimizer.clip_arguments(&sums, &optimizer.scalars())); }
  ThreadPool pool{1};
  std::unique_ptr<Kernels> kernels = make_cpu_kernels(pool);
  std::unique_ptr<Stream> stream = make_serial_stream("test");
  Optimizer optimizer;
  ReducedScalars sums;
};

}  // namespace

TEST_CASE("the optimizer halves the loss scale on overflow, skips the update, and recovers") {
  Steps steps(true);
  Optimizer& optimizer = steps.optimizer;
  ReducedScalars& sums = steps.sums;
  sums.loss.add(20.0);
  sums.square_norm.add(std::numeric_limits<double>::infinity());
  optimizer.begin_step(1, {0, 1, 10}, 10);
  const float scale = optimizer.scalars().loss_scale;
  CHECK(optimizer.scalars().gradient_scale == scale / 10);
  steps.clip();
  CHECK(optimizer.result().skipped);
  CHECK(optimizer.result().finite);
  CHECK(optimizer.result().loss == Approx(2.0));
  CHECK(optimizer.result().loss_scale == scale);
  CHECK(optimizer.scalars().skip == 1);
  CHECK(optimizer.scalars().adam_step == 0);
  optimizer.begin_step(2, {1, 2, 10}, 10);
  REQUIRE(optimizer.scalars().loss_scale == scale / 2);
  CHECK(optimizer.scalars().gradient_scale == scale / 2 / 10);
  sums.square_norm.clear();
  sums.square_norm.add(9.0 * (scale / 2) * (scale / 2));
  steps.clip();
  CHECK_FALSE(optimizer.result().skipped);
  CHECK(optimizer.result().grad_norm == Approx(3.0));
  CHECK(optimizer.scalars().skip == 0);
  CHECK(optimizer.scalars().adam_step == 1);
  CHECK(optimizer.skipped_steps() == 1);
  for (int i = 2; i <= 2000; ++i) steps.clip();
  CHECK(optimizer.scalars().loss_scale == scale);  // after 2000 good steps
}

TEST_CASE("a restored loss scale is that of the next gradients") {
  const OptimizerRecord record{9, 7, 2, 1024.0};
  Steps steps(true);
  steps.optimizer.restore(record);
  REQUIRE(steps.optimizer.record() == record);
  REQUIRE(steps.optimizer.scalars().gradient_scale == 1024.0F / 10);
  Steps wide(false);
  wide.optimizer.restore(record);
  REQUIRE(wide.optimizer.scalars().loss_scale == 1);
  REQUIRE(wide.optimizer.scalars().adam_step == 9);
}

TEST_CASE("a loss that is not finite is no overflow") {
  Steps steps(false);
  steps.sums.loss.add(std::nan(""));
  steps.sums.square_norm.add(1.0);
  steps.optimizer.begin_step(1, {0, 1, 10}, 10);
  steps.clip();
  REQUIRE_FALSE(steps.optimizer.result().finite);
  REQUIRE(steps.optimizer.scalars().skip == 1);
}

TEST_CASE("the loss is the mean over counted tokens, and 0 without any") {
  Steps steps(false);
  steps.sums.loss.add(20.0);
  steps.sums.square_norm.add(4.0);
  steps.optimizer.begin_step(1, {0, 1, 10}, 4);
  CHECK(steps.optimizer.scalars().gradient_scale == 0.25F);
  steps.clip();
  CHECK(steps.optimizer.result().loss == 5.0);
  steps.sums.clear();
  steps.optimizer.begin_step(2, {1, 2, 10}, 0);
  CHECK(steps.optimizer.scalars().gradient_scale == 0.0F);
  steps.clip();
  CHECK(steps.optimizer.result().loss == 0.0);
  CHECK(steps.optimizer.result().finite);
  CHECK(steps.optimizer.scalars().adam_step == 2);
}

TEST_CASE("the account of a step starts with its first micro-batch and knows which losses count") {
  Steps steps(false);
  StepScalars& scalars = steps.optimizer.scalars();
  const auto account = [&](double loss, bool starts) {
    scalars.micro_loss = loss;
    steps.kernels->run(*steps.stream, AddLoss{&scalars, &steps.sums, starts, {}});
  };
  steps.sums.loss.add(1e9);
  steps.sums.square_norm.add(3.0);
  steps.sums.stop_requested = 7;
  account(2.5, true);
  account(4.0, false);
  scalars.counts_loss = 0;
  account(8.0, false);
  CHECK(steps.sums.loss.value() == 6.5);
  CHECK(steps.sums.square_norm.value() == 0);
  CHECK(steps.sums.stop_requested == 0);
}
