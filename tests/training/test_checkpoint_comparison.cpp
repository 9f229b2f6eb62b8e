#include <catch2/catch.hpp>

#include "checkpoint_case.hpp"
#include "file_support.hpp"
#include "tessera/checkpoint/manifest.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;
using tessera::test::message_of;

TEST_CASE("what would change the samples is refused unless it is allowed") {
  const Options options = base_options();
  const Shape shape;
  const RunPlace place;
  run(options, shape, place.path(), 2, 2);
  const auto refused = [&](const char* name, const std::function<void(Options&)>& change, const Shape& other) {
    Options changed = resumed(options);
    change(changed);
    INFO(name);
    REQUIRE_THAT(message_of<UsageError>([&] { run(changed, other, place.path(), 3, 0); }),
                 Contains(std::string("checkpoint.allow = ") + name));
    changed.checkpoint.allow = "order, data ,seq_len,global_batch,seed,moments";
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
  REQUIRE_THAT(message_of<UsageError>([&] { run(resumed(options), shape, place.path(), 3, 0, wider); }),
               Contains("model.ffn_width = 50 there, 51 here"));
}

TEST_CASE("what changed is said") {
  Options options = base_options();
  const Shape two, one{Strategy::ddp, 1, 1, 0, Wrap::block, 4};
  const RunPlace place;
  options.optim.schedule = LearningRateSchedule::cosine, options.optim.min_lr = 0.001;
  run(options, two, place.path(), 2, 2);
  options.optim.lr = 0.02;
  options.optim.schedule = LearningRateSchedule::constant, options.optim.min_lr = 0;  // which never falls to it
  const Outcome outcome = run(resumed(options), one, place.path(), 3, 0);
  REQUIRE(outcome.said.at(0).find("step 2") != std::string::npos);
  REQUIRE(outcome.said.at(1).find("ranks 2 -> 1") != std::string::npos);
  CHECK(outcome.said.at(1).find("optim.schedule cosine -> constant") != std::string::npos);
  CHECK(outcome.said.at(1).find("optim.min_lr") == std::string::npos);
}

TEST_CASE("an option of earlier versions that a checkpoint's run had is among what changed, but not its default") {
  const RunPlace place;
  run(base_options(), {}, place.path(), 1, 1);
  const auto checkpoint = place.path() / "checkpoints/step-00000001";
  const Manifest made = read_manifest(checkpoint);
  for (const std::string then : {"0", "900"}) {
    Manifest manifest = made;
    manifest.options.emplace_back("shard.persistence_threshold", then);
    test::write_file(checkpoint / std::string(kManifestName), manifest_text(manifest));
    const Outcome outcome = run(resumed(base_options()), {}, place.path(), 2, 0);
    const bool is_said = std::ranges::any_of(outcome.said, [](const std::string& line) {
      return line.find("shard.persistence_threshold 900 -> 0") != std::string::npos;
    });
    CHECK(is_said == (then == "900"));
  }
}

TEST_CASE("a run of epochs that changes its batch ends with its samples, and says how its rate goes on") {
  Options options = base_options();
  options.train.epochs = 0.5, options.optim.schedule = LearningRateSchedule::linear, options.optim.warmup_steps = 0;
  Shape shape;
  const RunPlace place;
  const Outcome whole = run(options, shape, place.path(), 2, 2);
  CHECK(run(resumed(options), shape, place.path(), 2, 0).said.size() == 1);
  shape.micro_batches = 2;
  options.checkpoint.allow = "global_batch";
  const Outcome halved = run(resumed(options), shape, place.path(), 3, 3);
  CHECK(halved.first_step == 3);
  CHECK(std::abs(halved.steps - (2 + 2 * (whole.steps - 2))) <= 1);
  const double all = static_cast<double>(2 * 8 + (halved.steps - 2) * 4) / 8;  // in steps of the first batch
  const auto rate = fmt::format("rate {:.2e} at step 2 of {} -> {:.2e} at step 3 of {}",
                                options.optim.lr * (1 - 1.0 / static_cast<double>(whole.steps)), whole.steps,
                                options.optim.lr * (1 - 2 / all), halved.steps);
  CHECK(halved.said.back().ends_with(rate));
  // The batch of the beginning is remembered.
  shape.micro_batches = 4;
  const Outcome back = run(resumed(options), shape, place.path(), 4, 0);
  CHECK(std::abs(2 * back.steps - (5 + 2 * whole.steps - 4)) <= 2);
  // A run of steps keeps them, and its rate follows the step.
  options.train.epochs = 0;
  options.train.steps = 7;
  CHECK(run(resumed(options), shape, place.path(), 4, 0).steps == 7);
}

TEST_CASE("a run of tokens or epochs that changes its sequence length reads the rest, and says how its rate goes on") {
  Options options = base_options();
  options.optim.schedule = LearningRateSchedule::linear, options.optim.warmup_steps = 0;
  options.train.seq_len = 8;
  if (GENERATE(true, false))
    options.train.tokens = 6 * 8 * 8;  // steps of 8 samples
  else
    options.train.epochs = 0.08;  // of 4800 tokens
  const Shape shape;
  const RunPlace place;
  CHECK(run(options, shape, place.path(), 3, 3).steps == 6);
  options.train.seq_len = 4, options.checkpoint.allow = "seq_len";
  const Outcome halved = run(resumed(options), shape, place.path(), 4, 4);
  CHECK(halved.first_step == 4);
  CHECK(halved.steps == 3 + 6);
  CHECK_THAT(halved.said.back(), Catch::EndsWith("train.seq_len 8 -> 4"));  // the rate goes on where it was
  options.train.seq_len = 8;
  const Outcome back = run(resumed(options), shape, place.path(), 5, 0);
  CHECK(back.steps == 4 + 3);  // two and a half
  CHECK_THAT(back.said.back(), Catch::EndsWith("rate 5.00e-03 at step 4 of 9 -> 4.62e-03 at step 5 of 7"));
}

TEST_CASE("losses of other text are not compared in silence") {
  Options options = base_options();
  options.train.eval_every = 1;
  const RunPlace place;
  run(options, {}, place.path(), 2, 2);
  options.checkpoint.keep_best = 1;
  const auto is_said = [&] {
    const auto said = run(resumed(options), {}, place.path(), 3, 0).said;
    return std::ranges::any_of(said, [](const std::string& line) { return line.find("of other text") < line.size(); });
  };
  CHECK_FALSE(is_said());
  options.data.val_fraction = 0.3, options.checkpoint.allow = "data";
  CHECK(is_said());
  options.checkpoint.keep_best = 0;
  CHECK_FALSE(is_said());
}

TEST_CASE("a checkpoint of another optimizer is refused with a way to go on from its weights") {
  const Shape shape;
  for (const auto& [there, here] :
       {std::pair{OptimizerName::muon, OptimizerName::adamw}, std::pair{OptimizerName::adamw, OptimizerName::muon}}) {
    Options options = base_options();
    options.optim.name = there;
    const RunPlace place;
    run(options, shape, place.path(), 2, 2);
    options.optim.name = here;
    const auto checkpoint = (place.path() / "checkpoints/step-00000002").string();
    CHECK_THAT(message_of<UsageError>([&] { run(resumed(options), shape, place.path(), 3, 0); }),
               Contains(fmt::format("optim.name = {}", name_of(there))) && Contains("model.from = " + checkpoint));
  }
}
