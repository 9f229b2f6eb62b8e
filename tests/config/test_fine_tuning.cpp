#include <catch2/catch.hpp>

#include "config/check.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/fine_tuning.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

Options tuned(std::vector<std::string> arguments) {
  arguments.emplace_back("--model.from=folder");
  return with_fine_tuning(parse_arguments(arguments));
}

}  // namespace

TEST_CASE("a run that starts from weights has its own defaults, and one from scratch has not") {
  const Options options = tuned({});
  CHECK(options.optim.lr == 2e-5);
  CHECK(options.optim.schedule == LearningRateSchedule::cosine);
  CHECK(options.train.epochs == 1.0);
  CHECK(options.checkpoint.every_minutes == 30.0);
  CHECK(with_fine_tuning(parse_arguments({})) == parse_arguments({}));
  CHECK(warmup_steps_of(parse_arguments({}), 1000) == 0);
}

TEST_CASE("an option that is given stays, alone") {
  CHECK(tuned({"--optim.lr=0.0006"}).optim.lr == 6e-4);
  CHECK(tuned({"--optim.lr=0.0006"}).train.epochs == 1.0);
  CHECK(tuned({"--train.steps=7"}).train.epochs == 0.0);
  CHECK(tuned({"--train.steps=1000"}).train.epochs == 0.0);  // also where it is what it would have been from scratch
  CHECK(tuned({"--train.epochs=2.5"}).train.epochs == 2.5);
  CHECK(tuned({"--train.tokens=500"}).train.epochs == 0.0);
  CHECK(tuned({"--checkpoint.every=0"}).checkpoint.every_minutes == 0.0);
  CHECK(tuned({"--checkpoint.every_minutes=0"}).checkpoint.every_minutes == 0.0);
  CHECK(warmup_steps_of(tuned({"--optim.warmup_steps=0"}), 1000) == 0);
  CHECK_THROWS_WITH(tuned({"--optim.min_lr=1e-4"}),
                    Contains("optim.min_lr = 0.0001 is above optim.lr = 2e-05, the default with model.from"));
  CHECK(tuned({"--optim.min_lr=1e-4", "--optim.lr=1e-3"}).optim.min_lr == 1e-4);
}

TEST_CASE("3% of the steps warm up, and none of those in which wsd decays") {
  const Options options = tuned({});
  CHECK(warmup_steps_of(options, 1) == 0);
  CHECK(warmup_steps_of(options, 16) == 0);
  CHECK(warmup_steps_of(options, 17) == 1);
  CHECK(warmup_steps_of(options, 1000) == 30);
  CHECK(warmup_steps_of(options, 1049) == 31);
  CHECK(warmup_steps_of(options, std::int64_t{1} << 62) == 138350580552821637);
  CHECK(warmup_steps_of(tuned({"--optim.schedule=wsd", "--optim.decay_fraction=0.99"}), 1000) == 10);
}

TEST_CASE("a run's config.ini repeats its defaults as they were") {
  Options first = tuned({"--run.dir=x"});
  first.optim.warmup_steps = 5;
  first.train.seq_len = 64;
  const std::string ini = run_config(first, 2);
  CHECK_THAT(ini, Contains("lr = 2e-05") && Contains("epochs = 1") && Contains("every_minutes = 30"));
  const Options again = parse_text(ini, "config.ini");
  CHECK(with_fine_tuning(again) == again);
  CHECK(again.optim == first.optim);
  CHECK(warmup_steps_of(again, 1000) == 5);
  CHECK(describe_fine_tuning(again, again, 64, 1000).empty());
  // Where the file repeats epochs, steps that are given win.
  CHECK(with_fine_tuning(parse_text(ini, "config.ini", {"--train.steps=9"})).train.epochs == 0.0);
}

TEST_CASE("each default of a fine-tuning is said, and nothing that was given") {
  const Options asked = parse_arguments({"--model.from=folder"});
  Options used = with_fine_tuning(asked);
  used.optim.warmup_steps = 3;
  used.train.seq_len = 1024;
  CHECK(describe_fine_tuning(asked, used, 32768, 97) ==
        "fine-tune  folder, by default with\n"
        "           optim.lr = 2e-05 (from scratch: 0.0006)\n"
        "           optim.warmup_steps = 3, 3% of 97 steps (from scratch: 0)\n"
        "           train.epochs = 1 (from scratch: train.steps = 1000)\n"
        "           train.seq_len = 1024 (from scratch: the model's context of 32768)\n"
        "           checkpoint.every_minutes = 30, and a checkpoint at the end (from scratch: none)");
  CHECK_THAT(describe_fine_tuning(asked, used, 1024, 97), Contains("train.seq_len = 1024, the model's context\n"));
  const Options given = parse_arguments({"--model.from=folder", "--optim.lr=1e-3", "--optim.warmup_steps=2",
                                         "--train.steps=5", "--train.seq_len=8", "--checkpoint.every=1"});
  CHECK(describe_fine_tuning(given, with_fine_tuning(given), 64, 5).empty());
  const Options scratch = parse_arguments({});
  CHECK(describe_fine_tuning(scratch, scratch, 64, 5).empty());
}

TEST_CASE("a fine-tuning, or a job, must name its data; a model from scratch need not") {
  const auto message = [](const std::vector<std::string>& words, bool is_job) {
    return usage_message([&] { require_named_data(parse_arguments(words), is_job); });
  };
  for (const bool is_job : {false, true}) {
    CHECK_THAT(message({"--model.from=folder"}, is_job),
               Contains("model.from = folder") && Contains("data.source = synthetic"));
    CHECK_THAT(message({"--model.from=folder", "--data.val_fraction=0"}, is_job), Contains("model.from = folder"));
    for (const char* data : {"--data.source=synthetic", "--data.source=texts", "--data.synthetic_tokens=5000"})
      CHECK(message({"--model.from=folder", data}, is_job).empty());
    for (const char* other : {"--model.preset=nano", "--model.layers=2", "--train.steps=5"})
      CHECK(message({other}, is_job).empty() == !is_job);
    CHECK(message({"--model.layers=2", "--data.source=synthetic"}, is_job).empty());
    CHECK(message({"--model.layers=2", "--checkpoint.resume=runs/a"}, is_job).empty());
  }
  CHECK(message({}, false).empty());
  CHECK_THAT(message({}, true), Contains("this job does not name the text to train on"));
  // What a run's config.ini repeats was asked for once.
  const Options again =
      parse_text(run_config(parse_arguments({"--model.from=x", "--data.source=synthetic"}), 1), "config.ini");
  require_named_data(again, true);
}
