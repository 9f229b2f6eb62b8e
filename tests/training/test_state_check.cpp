// run.check_every: flipped bits are found and located, and nothing else is.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "plan_run.hpp"
#include "sanitized.hpp"
#include "training/checkpoint_case.hpp"
#include "training/flip_case.hpp"
#include "training/integrity/state_check.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;

TEST_CASE("a flipped bit of the state or of a copy is found and located") {
  const char* const given = std::getenv("TESSERA_FLIP_SEED");
  const std::uint64_t first = given != nullptr ? std::stoull(given) : 1;
  std::fprintf(stderr, "flips from TESSERA_FLIP_SEED=%llu\n", static_cast<unsigned long long>(first));
  const std::uint64_t flips = std::getenv("TESSERA_LONG") != nullptr ? 200 : draws(60, 30);
  for (std::uint64_t seed = first; seed < first + flips; ++seed)
    require_found(checked(seed, 1 + static_cast<std::int64_t>(seed % 2 * 2 + seed % 5 % 2)), seed);
}

TEST_CASE("runs without a flip are not interrupted") {
  for (std::uint64_t seed = 1; seed <= draws(40, 10); ++seed) {
    Drawn drawn = checked(seed, 0);
    drawn.options.run.check_every = 1 + static_cast<std::int64_t>(seed % 3);
    INFO(drawn.text);
    for (const std::string& one : train_with_flip(drawn, 0)) REQUIRE(one == "");
  }
}

TEST_CASE("with a check every third step, a flip of the state is found by the next one, whenever it happens") {
  for (std::uint64_t seed = 300; seed < 300 + draws(30, 6); ++seed) {
    Drawn drawn = checked(seed, 1 + static_cast<std::int64_t>(seed % 2));
    drawn.options.run.check_every = 3;
    drawn.options.train.steps = 7;
    Flip planted;
    const std::vector<std::string> said = train_with_flip(drawn, seed, &planted);
    INFO(drawn.text << ": " << planted.text << ": " << said[0]);
    if (planted.is_copy) continue;  // an update has written it anew
    REQUIRE_THAT(said[0], Contains(fmt::format(": {} rank {} (", planted.what, planted.rank)));
    // Step 3 checks the state after step 2, before its update.
    const std::int64_t next = planted.after_step <= 2 ? 3 : planted.after_step <= 5 ? 6 : 8;
    REQUIRE_THAT(said[0], Contains(fmt::format("at the latest in step {}", next)));
  }
}

TEST_CASE("steps that are skipped, and a start from a checkpoint, leave the sums right") {
  Options options = base_options();
  options.run.check_every = 1;
  options.run.on_bad_step = OnError::skip;
  const Shape shape{Strategy::zero2, 2, 2, 0, Wrap::block, 4};
  const RunPlace place;
  const Outcome whole = run(options, shape, place.path(), 6, 3);
  require_same_state(whole, run(resumed(options), shape, place.path(), 6, 0));
  options.run.check_every = 0;
  require_same_state(whole, run(options, shape, RunPlace().path(), 6, 0));
  options.run.check_every = 1;
  Drawn drawn;
  drawn.options = options;
  drawn.world = drawn.ranks_per_node = 2;
  drawn.options.optim.lr = 1e30;  // from the second step on no number is finite
  drawn.options.optim.warmup_steps = 0;
  for (const std::string& one : train_with_flip(drawn, 0)) CHECK(one == "");
  require_found(drawn, 7);
}

TEST_CASE("a bit that flips while it is written leaves no checkpoint behind") {
  Options options = base_options();
  options.run.check_every = 1;
  const PlannedRun planned = plan_run(options, small_gpt2(), 2, 2);
  const RunPlace place;
  Flip planted;
  planted.rank = 1;
  std::atomic<int> told = 0;  // ranks
  with_sessions(options, planned, [&](RankContext& context, TrainingSession& session) {
    CheckpointSettings settings;
    settings.folder = place.path() / "checkpoints";
    if (context.rank() == 1)
      settings.hdf5 = [&, flipped = false](const std::function<void()>& task) mutable {
        if (!std::exchange(flipped, true)) flip(session, 3, planted);
        task();
      };
    CheckpointWriter writer(context, session, settings);
    session.train_step();
    try {
      writer.begin();
    } catch (const CorruptionError&) {
      ++told;
    }
  });
  CHECK(told == 2);
  CHECK(CheckpointFolder(place.path() / "checkpoints").steps().empty());
}

TEST_CASE("among replicas the majority is right, and without one all are named") {
  const UnitId unit = UnitId(1);
  const std::vector<std::string> names{"wte", "h.0", "h.1"};
  const std::string name = names[1];
  std::vector<RankSums> sums(6, RankSums(3));
  for (std::size_t rank = 0; rank < 6; ++rank) {
    for (UnitSums& one : sums[rank]) {
      one.first = static_cast<std::int64_t>(rank % 2) * 64;
      one.kept = one.found.state = {10 + rank % 2, 20, 30};
    }
  }
  const std::vector<std::string> hosts{"a", "a", "b", "b", "c", "c"};
  const auto found = [&] { return differences(names, sums, hosts); };
  CHECK(found().empty());
  sums[3][unit].kept[1] = sums[3][unit].found.state[1] = 7;
  CHECK(found() == std::vector<std::string>{
                       fmt::format("the first moments of {} on rank 3 (b) differ from those on 2 other ranks", name)});
  sums[5][unit].kept[1] = sums[5][unit].found.state[1] = 8;
  CHECK(found() == std::vector<std::string>{fmt::format(
                       "the first moments of {} on ranks 1 (a), 3 (b), 5 (c) differ from each other", name)});
  sums[0][unit].found.state[0] = 5;  // a change in memory is said first, and says more than the difference
  CHECK(found().size() == 2);
  CHECK(found()[0] == fmt::format("the master weights of {} on rank 0 (a) are not what was written there", name));
  sums[4][unit].found.copy = 9;
  CHECK(found()[2] == fmt::format("the full parameters of {} on rank 4 (c) differ from those on 5 other ranks", name));
}
