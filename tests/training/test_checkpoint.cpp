// docs/numerics.md, contract 4, and re-sharding. State that is written and then read on other ranks, strategies and
// wraps is the same to the bit. A run that was stopped and resumed has the bits of one that was not.
#include <catch2/catch.hpp>

#include "checkpoint_case.hpp"
#include "sanitized.hpp"
#include "tessera/checkpoint/reader.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

const std::vector<Shape> kShapes{
    {Strategy::ddp, 4, 4, 0, Wrap::block, 4},       {Strategy::zero1, 4, 2, 0, Wrap::block, 4},
    {Strategy::zero2, 2, 2, 0, Wrap::block, 4},     {Strategy::zero3, 4, 4, 0, Wrap::block, 8},
    {Strategy::hsdp, 4, 2, 2, Wrap::model, 4},      {Strategy::hsdp_zero2, 4, 4, 2, Wrap::block, 4},
    {Strategy::zero3, 1, 1, 0, Wrap::model, 4},     {Strategy::zero3, 3, 3, 0, Wrap::block, 3},
    {Strategy::hsdp_zero1, 4, 2, 2, Wrap::block, 4}};

/// Runs every shape in every mode.
template <class Modes>
auto pairs_of(const std::vector<Shape>& shapes, const Modes& modes) {
  std::vector<std::pair<Shape, std::decay_t<decltype(modes[0])>>> pairs;
  for (const Shape& shape : shapes) {
    for (const auto& mode : modes) pairs.emplace_back(shape, mode);
  }
  return pairs;
}

}  // namespace

TEST_CASE("20 steps are 10, a restart, and 10 more, to the bit, under every strategy") {
  Options options = base_options();
  options.train.steps = 20;
  // With async the state has moved on when it is written, in whatever order queues are played.
  const std::tuple<bool, QueueMode, OptimizerName, StateType, LinearPrecision> modes[] = {
      {false, QueueMode::serial, OptimizerName::muon, StateType::bf16, LinearPrecision::compute},
      {true, QueueMode::serial, OptimizerName::adamw, StateType::fp32, LinearPrecision::fp8},
      {true, QueueMode::chaos, OptimizerName::muon, StateType::fp32, LinearPrecision::compute},
      {true, QueueMode::chaos, OptimizerName::adamw, StateType::bf16, LinearPrecision::compute}};
  for (const auto& [shape, mode] : pairs_of(kShapes, modes)) {
    std::tie(options.checkpoint.async, options.run.queues, options.optim.name, options.optim.moments,
             options.precision.linear) = mode;
    options.precision.fp8_smallest = options.precision.linear == LinearPrecision::fp8 ? 0 : kAutomaticCount;
    if (kSanitized && options.run.queues == QueueMode::serial) continue;
    INFO(name_of(options.optim.name) << " " << shape.text() << (options.checkpoint.async ? " async " : " ")
                                     << name_of(options.run.queues));
    const RunPlace place;
    const Outcome whole = run(options, shape, place.path(), 20, 10);
    const Outcome rest = run(resumed(options), shape, place.path(), 20, 0);
    REQUIRE(rest.first_step == 11);
    REQUIRE(rest.losses.size() == 10);
    for (const auto& [step, loss] : rest.losses) REQUIRE(loss == whole.losses.at(step));
    require_same_state(whole, rest);
  }
}

TEST_CASE("a checkpoint loads on other ranks, strategies, wraps and writers with the same bits of state") {
  Options options = base_options();
  options.train.steps = 4;
  options.train.micro_batch = 1;
  const std::vector<std::pair<Shape, Shape>> pairs{
      {{Strategy::zero3, 2, 2, 0, Wrap::block, 12}, {Strategy::zero3, 4, 4, 0, Wrap::block, 12}},
      {{Strategy::zero3, 4, 4, 0, Wrap::block, 12}, {Strategy::zero3, 1, 1, 0, Wrap::block, 12}},
      {{Strategy::zero3, 4, 2, 0, Wrap::block, 12}, {Strategy::zero3, 3, 3, 0, Wrap::block, 12}},
      {{Strategy::zero3, 3, 3, 0, Wrap::model, 12}, {Strategy::ddp, 4, 4, 0, Wrap::block, 12}},
      {{Strategy::hsdp, 4, 2, 2, Wrap::block, 12}, {Strategy::zero3, 4, 4, 0, Wrap::model, 12}},
      {{Strategy::ddp, 4, 4, 0, Wrap::block, 12}, {Strategy::hsdp_zero2, 4, 2, 2, Wrap::size, 12}},
      {{Strategy::zero1, 2, 1, 0, Wrap::size, 12}, {Strategy::zero2, 6, 3, 0, Wrap::block, 12}}};
  for (const std::int64_t writers : {0, 1, 2}) {
    options.checkpoint.writers_per_node = writers;
    options.checkpoint.async = writers != 2;
    for (std::size_t pair = 0; pair < pairs.size(); ++pair) {
      const auto& [from, to] = pairs[pair];
      if (kSanitized && static_cast<std::int64_t>(pair % 3) != writers) continue;  // each pair once
      options.optim.name =
          (static_cast<std::int64_t>(pair) + writers) % 2 == 0 ? OptimizerName::muon : OptimizerName::adamw;
      options.optim.moments = pair % 2 == 0 ? StateType::bf16 : StateType::fp32;
      INFO(from.text() << " -> " << to.text() << ", writers " << writers);
      const RunPlace place;
      const Outcome before = run(options, from, place.path(), 3, 3);
      Options there = resumed(options);
      there.shard.prefetch_backward = 0;
      const Outcome after = run(there, to, place.path(), 3, 0);
      REQUIRE(after.first_step == 4);
      require_same_state(before, after);
      const auto checkpoint = place.path() / "checkpoints/step-00000003";
      REQUIRE(verify_checkpoint(checkpoint, 2) == std::vector<std::string>{});
      const std::int64_t nodes = from.world / from.ranks_per_node;
      const std::int64_t files = writers == 0 ? from.world : nodes * std::min(writers, from.ranks_per_node);
      REQUIRE(CheckpointReader(checkpoint).manifest().files.size() == static_cast<std::size_t>(files + 1));
    }
  }
}

TEST_CASE("moments of another type are refused, or converted: to bf16 by rounding to nearest, to fp32 exactly") {
  Options options = base_options();
  options.checkpoint.async = GENERATE(false, true);
  const Shape two, four{Strategy::ddp, 4, 4, 0, Wrap::block, 4};
  const auto there_and_back = [&](StateType from, StateType to) {
    const RunPlace place;
    options.optim.moments = from, options.checkpoint.allow.clear();
    const Outcome before = run(options, two, place.path(), 3, 3);
    options.optim.moments = to;
    REQUIRE_THROWS_WITH(
        run(resumed(options), four, place.path(), 3, 0),
        Catch::Contains("type of moments (optim.moments)") && Catch::Contains("checkpoint.allow = moments"));
    options.checkpoint.allow = "moments";
    const Outcome after = run(resumed(options), four, place.path(), 3, 0);
    REQUIRE(after.first_step == 4);
    Outcome wanted = before;
    for (auto& kind : std::span(wanted.state).subspan(1)) {
      for (std::vector<float>& tensor : kind) {
        for (float& value : tensor) value = static_cast<float>(bf16(value));
      }
    }
    require_same_state(wanted, after);
  };
  there_and_back(StateType::fp32, StateType::bf16);
  there_and_back(StateType::bf16, StateType::fp32);
}

TEST_CASE("losses after a restart on another grid stay within 1e-5") {
  Options options = base_options();
  options.train.steps = 60;
  options.train.micro_batch = 1;
  const Shape two{Strategy::zero3, 2, 2, 0, Wrap::block, 12};
  const RunPlace place;
  const Outcome whole = run(options, two, place.path(), 60, 10);
  for (const Shape& other :
       {Shape{Strategy::zero3, 4, 4, 0, Wrap::block, 12}, Shape{Strategy::ddp, 3, 3, 0, Wrap::block, 12}}) {
    INFO(other.text());
    const Outcome rest = run(resumed(options), other, place.path(), 60, 0);
    for (const auto& [step, loss] : rest.losses) REQUIRE(std::abs(loss / whole.losses.at(step) - 1) < 1e-5);
  }
}

TEST_CASE("fp16's loss scale goes on, and another precision may") {
  Options options = base_options();
  options.train.steps = 12;
  options.precision.compute = options.precision.reduce = DType::fp16;
  const Shape shape;
  const RunPlace place;
  const Outcome whole = run(options, shape, place.path(), 12, 6);
  const Outcome rest = run(resumed(options), shape, place.path(), 12, 0);
  for (const auto& [step, loss] : rest.losses) REQUIRE(loss == whole.losses.at(step));
  require_same_state(whole, rest);
  options.precision.compute = options.precision.reduce = DType::fp32;
  const Outcome wide = run(resumed(options), shape, place.path(), 7, 0);
  REQUIRE(wide.losses.at(7) == Approx(whole.losses.at(7)).epsilon(1e-2));
}
