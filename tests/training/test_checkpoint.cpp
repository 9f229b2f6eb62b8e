// docs/numerics.md, contract 4, and re-sharding. State that is written and then read on other ranks, strategies and
// wraps is the same to the bit. A run that was stopped and resumed has the bits of one that was not.
#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>

#include "checkpoint_case.hpp"
#include "sanitized.hpp"
#include "tessera/checkpoint/folder.hpp"
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
  const std::tuple<bool, QueueMode> modes[] = {
      {false, QueueMode::serial}, {true, QueueMode::serial}, {true, QueueMode::chaos}};
  for (const auto& [shape, mode] : pairs_of(kShapes, modes)) {
    std::tie(options.checkpoint.async, options.run.lanes) = mode;
    INFO(shape.text() << (options.checkpoint.async ? " async " : " ") << name_of(options.run.lanes));
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

TEST_CASE("auto passes over what is damaged and says so; a path does not") {
  Options options = base_options();
  options.checkpoint.keep = 0;
  const Shape shape;
  const RunPlace place;
  run(options, shape, place.path(), 2, 2);
  const Outcome good = run(resumed(options), shape, place.path(), 4, 4);
  const auto newest = place.path() / "checkpoints/step-00000004";
  {
    std::fstream file(newest / "shard-00001.h5", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-40, std::ios::end);
    file.put('x');
  }
  REQUIRE_THROWS_AS(run(resumed(options, newest.string()), shape, place.path(), 4, 0), IoError);
  const Outcome again = run(resumed(options), shape, place.path(), 4, 0);
  REQUIRE(again.first_step == 3);
  require_same_state(good, again);
  REQUIRE(again.said.at(0).find("step-00000004 is passed over") != std::string::npos);
  REQUIRE(again.said.at(0).find("shard-00001.h5 is damaged") != std::string::npos);
  // The run went on from step 2: newer checkpoints were set aside.
  std::filesystem::rename(newest.string() + ".abandoned-1", newest);
  std::filesystem::remove_all(place.path() / "checkpoints/step-00000002");
  REQUIRE_THROWS_AS(run(resumed(options), shape, place.path(), 4, 0), IoError);
  std::filesystem::remove_all(newest);
  REQUIRE(run(resumed(options), shape, place.path(), 1, 0).first_step == 1);
}

TEST_CASE("what would change the samples is refused unless it is allowed") {
  const Options options = base_options();
  const Shape shape;
  const RunPlace place;
  run(options, shape, place.path(), 2, 2);
  const auto refused = [&](const char* name, const std::function<void(Options&)>& change, const Shape& other) {
    Options changed = resumed(options);
    change(changed);
    try {
      run(changed, other, place.path(), 3, 0);
      FAIL("not refused: " << name);
    } catch (const UsageError& error) {
      INFO(error.what());
      REQUIRE(std::string(error.what()).find(std::string("checkpoint.allow = ") + name) != std::string::npos);
    }
    changed.checkpoint.allow = "order, data ,seq_len,global_batch,seed";
    REQUIRE(run(changed, other, place.path(), 3, 0).first_step == 3);
  };
  refused(
      "data", [](Options& o) { o.data.seed = 5; }, shape);  // synthetic text then differs
  refused(
      "seed", [](Options& o) { o.run.seed = 5; }, shape);
  refused(
      "seed", [](Options& o) { o.data.seed = 5, o.checkpoint.allow = "data"; }, shape);
  refused(
      "data", [](Options& o) { o.data.synthetic_tokens = 5000; }, shape);
  refused(
      "order", [](Options& o) { o.data.order = SampleOrder::sequential; }, shape);
  refused(
      "seq_len", [](Options& o) { o.train.seq_len = 8; }, shape);
  Shape more = shape;
  more.micro_batches = 8;
  refused(
      "global_batch", [](Options&) {}, more);

  Architecture wider = small_gpt2();
  wider.ffn_width += 1;
  try {
    run(resumed(options), shape, place.path(), 3, 0, wider);
    FAIL("another model was not refused");
  } catch (const UsageError& error) {
    REQUIRE(std::string(error.what()).find("model.ffn_width = 50 there, 51 here") != std::string::npos);
  }
}

TEST_CASE("a checkpoint has its name only when it is complete, and the one before stays until then") {
  Options options = base_options();
  options.checkpoint.keep = 1;
  const Shape shape;
  const RunPlace place;
  run(options, shape, place.path(), 1, 1);
  const CheckpointFolder folder(place.path() / "checkpoints");
  std::atomic<int> too_early{0};
  const RunHdf5 last_file_fails = [&](const std::function<void()>& task) {
    if (folder.steps() != std::vector<std::int64_t>{1}) ++too_early;
    if (std::filesystem::exists(folder.beside(2) / "manifest.json")) ++too_early;
    task();
    // Nothing can be moved over a folder that is not empty.
    if (std::filesystem::exists(folder.beside(2) / "tensors.h5"))
      std::filesystem::create_directories(folder.beside(2) / "manifest.json" / "something");
  };
  REQUIRE_THROWS_AS(run_saving(resumed(options), shape, place.path(), 2, {2}, small_gpt2(), last_file_fails), IoError);
  REQUIRE(too_early == 0);
  REQUIRE(folder.steps() == std::vector<std::int64_t>{1});
  REQUIRE(run(resumed(options), shape, place.path(), 3, 3).first_step == 2);
  REQUIRE(folder.steps() == std::vector<std::int64_t>{3});
}

TEST_CASE("what changed is said") {
  Options options = base_options();
  const Shape two, one{Strategy::ddp, 1, 1, 0, Wrap::block, 4};
  const RunPlace place;
  run(options, two, place.path(), 2, 2);
  options.optim.lr = 0.02;
  const Outcome outcome = run(resumed(options), one, place.path(), 3, 0);
  REQUIRE(outcome.said.at(0).find("step 2") != std::string::npos);
  REQUIRE(outcome.said.at(1).find("ranks 2 -> 1") != std::string::npos);
}
