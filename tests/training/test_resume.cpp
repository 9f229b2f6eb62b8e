#include <catch2/catch.hpp>
#include <fstream>

#include "checkpoint/checkpoint_case.hpp"
#include "checkpoint_case.hpp"
#include "plan_run.hpp"
#include "tessera/text/corpus.hpp"

using namespace tessera;
using namespace tessera::testing;

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

TEST_CASE("checkpoint.resume names a checkpoint, the newest of another run, or all of this one") {
  const RunPlace place;
  const auto mine = place / "mine", other = place / "other";
  const CheckpointFolder of_mine(mine / "checkpoints"), of_other(other / "checkpoints");
  CHECK(resume_candidates("auto", mine).empty());
  test::write_checkpoint(of_mine, 3, 1);
  test::write_checkpoint(of_mine, 12, 1);
  test::write_checkpoint(of_other, 7, 1);
  test::write_checkpoint(of_other, 8, 1);
  using Paths = std::vector<std::filesystem::path>;
  CHECK(resume_candidates("auto", mine) == Paths{of_mine.of_step(12), of_mine.of_step(3)});
  CHECK(resume_candidates(other.string(), mine) == Paths{of_other.of_step(8)});
  CHECK(resume_candidates(of_other.of_step(7).string(), mine) == Paths{of_other.of_step(7)});
  // One that has lost its manifest is named as it is: reading it says what is wrong.
  std::filesystem::remove(of_other.of_step(7) / "manifest.json");
  CHECK(resume_candidates(of_other.of_step(7).string(), mine) == Paths{of_other.of_step(7)});
  for (const auto& none : {place.path(), place / "missing"}) {
    CHECK_THAT(test::message_of<UsageError>([&] { resume_candidates(none.string(), mine); }),
               Catch::Contains(none.string()) && Catch::Contains("nor a run with checkpoints"));
  }
}

TEST_CASE("weights alone are refused by name, and auto does not see them") {
  const RunPlace place;
  const CheckpointFolder folder(place.path() / "checkpoints");
  test::write_checkpoint(folder, 4, 1, 1, StateContent::weights);
  std::filesystem::rename(folder.of_step(4), folder.weights_of(4));
  test::write_checkpoint(folder, 5, 1);
  CHECK(resume_candidates("auto", place.path()) == std::vector{folder.of_step(5)});
  const std::string path = folder.weights_of(4).string();
  CHECK_THAT(test::message_of<UsageError>([&] { run(resumed(base_options(), path), {}, place / "new", 6, 0); }),
             Catch::Contains("checkpoint.resume = " + path + " holds weights only") &&
                 Catch::Contains("model.from = " + path));
  // Neither is one that somebody gave a checkpoint's name.
  std::filesystem::rename(folder.weights_of(4), folder.of_step(6));
  CHECK_THAT(test::message_of<UsageError>([&] { run(resumed(base_options()), {}, place.path(), 6, 0); }),
             Catch::Contains("step-00000006 holds weights only"));
}

TEST_CASE("what does not fit is known before a run's folder is touched, and damage is left to the loader") {
  Options options = base_options();
  options.checkpoint.keep = 0;
  const Shape shape;
  const RunPlace place;
  run_saving(options, shape, place.path(), 2, {1, 2});
  const auto check = [&](const Options& changed) {
    const PlannedRun planned = plan_run(shaped(changed, shape), small_gpt2(), shape.world, shape.ranks_per_node);
    const Dataset data = open_dataset(changed, small_gpt2().vocab, planned.schedule.model.sequence);
    require_fitting({changed, planned, data, place.path(), 1, {}});
  };
  Options other = options;
  other.data.order = SampleOrder::sequential;
  CHECK_NOTHROW(check(other));  // checkpoint.resume = none
  CHECK_NOTHROW(check(resumed(options)));
  CHECK_THAT(test::message_of<UsageError>([&] { check(resumed(other)); }),
             Catch::Contains("step-00000002") && Catch::Contains("checkpoint.allow = order"));
  test::write_file(place.path() / "checkpoints/step-00000002/manifest.json", "{");
  CHECK_THAT(test::message_of<UsageError>([&] { check(resumed(other)); }), Catch::Contains("step-00000001"));
  test::write_file(place.path() / "checkpoints/step-00000001/manifest.json", "{");
  CHECK_NOTHROW(check(resumed(other)));
}
