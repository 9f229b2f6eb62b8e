#include <catch2/catch.hpp>

#include "config/check.hpp"
#include "tessera/config/validate.hpp"

using namespace tessera;
using Catch::Contains;

TEST_CASE("run.deterministic = auto, the default, is true on CPUs and false on GPUs") {
  const auto resolved = [](const std::vector<std::string>& words) {
    return is_deterministic(parse_arguments(words).run);
  };
  CHECK(parse_arguments({}).run.deterministic == Tristate::automatic);
  CHECK(resolved({"--run.device=cpu"}));
  CHECK_FALSE(resolved({"--run.device=cuda"}));
  CHECK(resolved({"--run.device=cuda", "--run.deterministic=true"}));
  CHECK_FALSE(resolved({"--run.device=cpu", "--run.deterministic=false"}));
}

TEST_CASE("Contradictions are errors") {
  CHECK_THAT(error_of({"--train.steps=5", "--train.epochs=1"}),
             Contains("train.steps") && Contains("train.epochs already decides"));
  CHECK(error_of({"--train.epochs=1.5"}).empty());
  for (const char* other : {"--train.steps=5", "--train.epochs=1"})
    CHECK_THAT(error_of({other, "--train.tokens=10e9"}), Contains("train.tokens already decides how long the run is"));
  CHECK(error_of({"--train.tokens=10e9", "--optim.warmup_steps=2000"}).empty());
  CHECK_THAT(error_of({"--model.preset=nano", "--model.from=x"}), Contains("model.preset"));
  CHECK_THAT(error_of({"--model.from=x", "--model.layers=2"}), Contains("model.layers"));
  CHECK_THAT(error_of({"--model.family=gpt2", "--model.layers=2"}), Contains("model.heads is missing"));
  CHECK(error_of({"--model.family=gpt2", "--model.layers=2", "--model.heads=2", "--model.width=8", "--model.vocab=9",
                  "--model.context=7"})
            .empty());
  CHECK_THAT(error_of({"--optim.lr=1e-5", "--optim.min_lr=1e-4"}), Contains("0 to 1e-05"));
  CHECK_THAT(error_of({"--plan.format=json", "--plan.view=units"}), Contains("plan.view = 'units' has no effect"));
  CHECK_THAT(error_of({"--train.steps=5", "--optim.warmup_steps=6"}), Contains("0 to 5"));
  CHECK_THAT(error_of({"--train.steps=5", "--run.trace=2:6"}), Contains("run.trace = 2:6 ends after the last step"));
  CHECK(error_of({"--train.steps=5", "--run.trace=2:5"}).empty());
  CHECK_THAT(error_of({"--optim.decay_fraction=0.5"}), Contains("wsd"));
  const std::vector<std::string> wsd = {"--optim.schedule=wsd", "--optim.decay_fraction=0.5", "--train.steps=10"};
  CHECK_THAT(error_of({wsd[0], wsd[1], wsd[2], "--optim.warmup_steps=8"}),
             Contains("optim.warmup_steps = 8 reaches into the decay, which takes optim.decay_fraction = 0.5 of 10 "
                      "steps. Use 0 to 5."));
  CHECK(error_of({wsd[0], wsd[1], wsd[2], "--optim.warmup_steps=5"}).empty());
  CHECK(error_of({"--optim.schedule=wsd", "--optim.decay_fraction=0", "--train.steps=10", "--optim.warmup_steps=10"})
            .empty());
  CHECK_THAT(error_of({"--data.source="}), Contains("data.source"));
}

TEST_CASE("The best checkpoints need evaluations at the steps of checkpoints") {
  const auto error = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--checkpoint.keep_best=2", "--train.steps=100"});
    return error_of(more);
  };
  CHECK(error({"--checkpoint.every=10", "--train.eval_every=5"}).empty());
  CHECK(error({"--checkpoint.every=20", "--train.eval_every=50"}).empty());  // at step 100
  CHECK_THAT(error({"--checkpoint.every=30", "--train.eval_every=40"}),
             Contains("first meet at step 120, after train.steps = 100"));
  CHECK_THAT(error({"--checkpoint.every_minutes=5"}), Contains("checkpoint.every = 0 makes no checkpoint"));
  CHECK_THAT(error({"--checkpoint.every=10", "--train.eval_every=0"}), Contains("train.eval_every = 0"));
  CHECK_THAT(error({"--checkpoint.every=10", "--data.val_fraction=0"}), Contains("keep_best = '2' has no effect"));
  CHECK_THAT(error({"--checkpoint.every=10", "--checkpoint.keep=0"}), Contains("checkpoint.keep = 0 keeps all"));
  CHECK(common_multiple(4, 6) == 12);
  CHECK(common_multiple(std::int64_t{1} << 40, (std::int64_t{1} << 40) + 1) ==
        std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("A name that no version reads yet is an unknown name, and so is a value") {
  for (const std::string option : {"memory.offload_gradients=false", "plan.links=a"}) {
    CAPTURE(option);
    CHECK_THAT(error_of({"--" + option}), Contains("unknown option '" + option.substr(0, option.find('=')) + "'"));
  }
  for (const std::string option : {"shard.reshard_after_forward=0", "shard.reshard_after_forward=-2",
                                   "memory.checkpoint=some", "plan.view=smallest"}) {
    CAPTURE(option);
    CHECK_THAT(error_of({"--" + option}), Contains("not an allowed value"));
  }
}

TEST_CASE("Group sizes must divide the world") {
  const auto hsdp = [](int group) {
    return parse_arguments({"--shard.strategy=hsdp", "--shard.group_size=" + std::to_string(group)});
  };
  for (std::int64_t world = 1; world <= 24; ++world) {
    for (int group = 1; group <= 26; ++group) {
      const auto message = usage_message([&] { validate_for_world(hsdp(group), world, world); });
      CHECK(message.empty() == (world % group == 0));
    }
  }
  CHECK_THAT(usage_message([&] { validate_for_world(hsdp(5), 12, 12); }),
             Contains("shard.group_size = 5") && Contains("1, 2, 3, 4, 6, 12"));
  CHECK_THAT(usage_message([&] { validate_for_world(parse_arguments({"--shard.strategy=hsdp"}), 6, 4); }),
             Contains("grid.ranks_per_node = 4 does not divide the 6 ranks"));
  CHECK_THAT(usage_message([&] { validate_for_world(parse_arguments({"--grid.ranks_per_node=4"}), 6, 6); }),
             Contains("grid.ranks_per_node"));
  validate_for_world(parse_arguments({}), 7, 7);
}

TEST_CASE("The ranks over which a unit stays after forward divide a shard group and a node, and are no rank alone") {
  const auto error = [](std::vector<std::string> words, std::int64_t world, std::int64_t per_node) {
    return usage_message([&] { validate_for_world(parse_arguments(words), world, per_node); });
  };
  const std::string four = "--shard.reshard_after_forward=4";
  CHECK(error({four}, 16, 8).empty());
  CHECK_THAT(error({four}, 16, 2), Contains("shard.reshard_after_forward = 4 does not divide the 16 ranks of a shard "
                                            "group and the 2 of a node. Use true, false or 2."));
  CHECK_THAT(error({four, "--shard.strategy=hsdp", "--shard.group_size=2"}, 16, 8), Contains("the 2 ranks of a shard"));
  CHECK_THAT(error({four}, 1, 1), Contains("the 1 rank of a shard group and the 1 of a node. Use true or false."));
  CHECK(error({"--shard.reshard_after_forward=3"}, 12, 12).empty());
  CHECK_THAT(error({"--shard.reshard_after_forward=5"}, 12, 12), Contains(". Use true, false, 2, 3, 4, 6 or 12."));
  CHECK_THAT(error_of({"--shard.reshard_after_forward=1"}), Contains("the whole unit. Use false, or a number from 2."));
}

TEST_CASE("shard.reduce follows the strategy unless it is set") {
  CHECK(resolved_reduce(ReduceWhen::by_strategy, Strategy::ddp) == ReduceWhen::step);
  CHECK(resolved_reduce(ReduceWhen::by_strategy, Strategy::zero1) == ReduceWhen::step);
  CHECK(resolved_reduce(ReduceWhen::by_strategy, Strategy::zero2) == ReduceWhen::micro_step);
  CHECK(resolved_reduce(ReduceWhen::by_strategy, Strategy::hsdp) == ReduceWhen::micro_step);
  CHECK(resolved_reduce(ReduceWhen::step, Strategy::zero3) == ReduceWhen::step);
}

TEST_CASE("A global batch decides the accumulation, and must be a multiple of what runs at a time") {
  for (std::int64_t world = 1; world <= 9; ++world) {
    for (std::int64_t micro = 1; micro <= 5; ++micro) {
      for (std::int64_t batch = 1; batch <= 60; ++batch) {
        const auto options = parse_arguments(
            {"--train.global_batch=" + std::to_string(batch), "--train.micro_batch=" + std::to_string(micro)});
        const auto message = usage_message([&] { validate_for_world(options, world, world); });
        CHECK(message.empty() == (batch % (world * micro) == 0));
        if (message.empty()) CHECK(accumulation_of(options.train, world) * world * micro == batch);
      }
    }
  }
  CHECK(accumulation_of(parse_arguments({"--train.accumulation=3"}).train, 4) == 3);
  const auto message = [](const char* batch, std::int64_t world) {
    const auto options = parse_arguments({batch, "--train.micro_batch=2"});
    return usage_message([&] { validate_for_world(options, world, world); });
  };
  CHECK_THAT(message("--train.global_batch=10", 2), Contains("train.global_batch = 10") && Contains("8 or 12"));
  CHECK_THAT(message("--train.global_batch=3", 2), Contains(". Use 4.") && !Contains("0 or"));
  CHECK_THAT(error_of({"--train.global_batch=8", "--train.accumulation=1"}), Contains("train.accumulation"));
}

TEST_CASE("What the user gives stands against what a config.ini repeats") {
  const auto text = [](const std::string& words) { return run_config(parse_arguments({words}), 2); };
  const auto batch = parse_text(text("--train.global_batch=8"), "config.ini", {"--train.accumulation=3"});
  CHECK(batch.train.global_batch == 0);
  CHECK(batch.train.accumulation == 3);
  const auto micro = parse_text(text("--train.accumulation=3"), "config.ini", {"--train.global_batch=8"});
  CHECK(micro.train.global_batch == 8);
  CHECK(micro.train.accumulation == 1);
  const auto epochs = parse_text(text("--train.steps=7"), "config.ini", {"--train.epochs=2"});
  CHECK(epochs.train.epochs == 2);
  CHECK(parse_text(text("--train.epochs=2"), "config.ini", {"--train.steps=7"}).train.epochs == 0);
  for (const char* other : {"--train.steps=7", "--train.epochs=2"}) {
    const auto tokens = parse_text(text(other), "config.ini", {"--train.tokens=500"});
    CHECK((tokens.train.tokens == 500 && tokens.train.epochs == 0));
    CHECK(parse_text(text("--train.tokens=500"), "config.ini", {other}).train.tokens == 0);
  }
  CHECK(parse_text(text("--train.tokens=500"), "config.ini").train.tokens == 500);
  CHECK(parse_text(text("--train.global_batch=8"), "config.ini").train.global_batch == 8);
  CHECK_THAT(usage_message([] { parse_text("[train]\nsteps = 7\n", "own.ini", {"--train.epochs=2"}); }),
             Contains("train.steps"));
}

TEST_CASE("Offloading says what it does not go with") {
  for (const std::string strategy : {"ddp", "zero1", "hsdp-zero1"}) {
    CHECK_THAT(error_of({"--shard.offload=params", "--shard.strategy=" + strategy}),
               Contains("shard.offload = params does not work with shard.strategy = " + strategy) &&
                   Contains(". Use shard.offload = optimizer, or one of zero2, zero3, hsdp, hsdp-zero2"));
    CHECK(error_of({"--shard.offload=optimizer", "--shard.strategy=" + strategy}).empty());
  }
  CHECK_THAT(error_of({"--shard.offload_fraction=0.5"}),
             Contains("shard.offload = none keeps all state on the device"));
  CHECK_THAT(error_of({"--memory.emulate_copies=1ms,1GB/s"}),
             Contains("shard.offload = none and memory.offload_activations = false copy nothing"));
  CHECK(
      error_of({"--memory.emulate_copies=1ms,1GB/s", "--memory.offload_activations=true", "--memory.checkpoint=block"})
          .empty());
  for (const std::string value : {"true", "false"})
    CHECK_THAT(error_of({"--memory.offload_activations=" + value}), Contains("memory.checkpoint = none recomputes"));
  CHECK_THAT(error_of({"--memory.checkpoint=block", "--memory.offload_activations=some"}), Contains("true|false"));
  CHECK_THAT(error_of({"--shard.offload=optimizer", "--memory.emulate_copies=1ms,1GB/s", "--run.device=cuda"}),
             Contains("its copies are real"));
  CHECK(error_of({"--shard.offload=optimizer", "--shard.offload_fraction=fit"}).empty());
  for (const std::string wrong : {"1.5", "-0.1", "most"})
    CHECK_THAT(error_of({"--shard.offload=optimizer", "--shard.offload_fraction=" + wrong}), Contains("or fit"));
  CHECK_THAT(error_of({"--shard.offload=some"}), Contains("none|optimizer|params"));
}
