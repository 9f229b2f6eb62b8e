#pragma once
// A rank that computes wrongly: a bit of what an operation makes is flipped as soon as it is made.

#include <catch2/catch.hpp>

#include "tessera/schedule/made_values.hpp"
#include "tessera/schedule/print.hpp"
#include "training/draw.hpp"

namespace tessera::testing {

/// A planted fault, as a replay should name it.
struct WrongResult {
  std::int64_t rank = 0, step = 0;  ///< done before it
  int play = 0;  ///< of those of the first micro-step: 0 the next rank's micro-batch, 1 its own; -1: each
  std::string where, text;
};

/// Flips bits in what an operation makes on a rank.
class Flipper {
 public:
  Flipper(TrainingSession& session, std::uint64_t seed, WrongResult& fault) : session_(session), fault_(fault) {
    const StepSchedule& schedule = session.schedule();
    Draw d(seed);
    const SegmentId first = schedule.step.front().segment;
    const std::vector<MadeValue> made = made_values(schedule, first);
    const auto i = static_cast<std::size_t>(d.below(std::ssize(made)));
    targets_ = {made[i], schedule.fresh ? made_values(schedule, schedule.fresh)[i] : made[i]};
    const Value& value = schedule.value(made[i].value);
    const std::int64_t bytes = numbers_of(schedule, value) * size_of(value.dtype());
    byte_ = d.below(4) == 0 ? bytes - 1 : d.below(bytes);  // the last one may be in half a word
    bit_ = static_cast<int>(d.below(8));
    fault_.where = fmt::format("{} makes other bits in {}", describe_operation(schedule, made[i].operation),
                               name_of_value(schedule, made[i].value));
    fault_.text =
        fmt::format("bit {} of byte {}, play {} on rank {} of {}", bit_, byte_, fault_.play, fault_.rank, fault_.where);
  }

  void seen(OperationId id) {
    for (std::size_t i = 0; i < (targets_[0].operation == targets_[1].operation ? 1 : 2); ++i) {
      if (targets_[i].operation != id) continue;
      const int play = plays_++;
      if (fault_.play >= 0 && play != fault_.play) continue;
      std::byte* const at = session_.resources().address(session_.schedule().value(targets_[i].value).storage) + byte_;
      std::byte held{};
      session_.resources().device->copy(&held, at, 1);
      held ^= std::byte{1} << bit_;
      session_.resources().device->copy(at, &held, 1);
    }
  }

 private:
  TrainingSession& session_;
  WrongResult& fault_;
  std::array<MadeValue, 2> targets_;
  std::int64_t byte_ = 0;
  int bit_ = 0, plays_ = 0;
};

/// Trains; unless `seed` is 0 a rank computes wrongly, in any step or in one that is replayed. Returns the message that
/// each rank ends with; empty if nothing is found.
inline std::vector<std::string> train_with_wrong_result(const Drawn& drawn, std::uint64_t seed, WrongResult& fault,
                                                        const Architecture* small = nullptr, bool in_any_step = false) {
  const Architecture architecture = small != nullptr ? *small : small_model(drawn.family);
  RunShape shape = run_shape(drawn.options, {architecture, drawn.world, drawn.ranks_per_node});
  shape.policy.offload_bucket = drawn.bucket;
  const PlannedRun planned = plan_shape(shape);
  require_verified(planned.schedule, planned.plan);
  const std::int64_t every = drawn.options.run.replay_every;
  if (seed > 0) {
    Draw d(seed + 2000);
    fault.rank = d.below(drawn.world);
    fault.step = every * (1 + d.below(drawn.options.train.steps / every)) - 1;
    if (in_any_step) fault.step = d.below(drawn.options.train.steps);
    fault.play = static_cast<int>(d.below(drawn.world > 1 ? 3 : 2)) - (drawn.world > 1 ? 1 : 0);
  }
  std::vector<std::string> said(static_cast<std::size_t>(drawn.world));
  with_sessions(drawn.options, planned, drawn.machine, [&](RankContext& context, TrainingSession& session) {
    const bool is_wrong = seed > 0 && context.rank() == fault.rank;
    const auto flipper = is_wrong ? std::make_unique<Flipper>(session, seed, fault) : nullptr;
    try {
      while (session.step() < session.steps()) {
        if (is_wrong && session.step() == fault.step)
          session.player().watch([&](OperationId id) { flipper->seen(id); });
        session.train_step();
        session.player().watch({});
      }
    } catch (const CorruptionError& error) {
      said[static_cast<std::size_t>(context.rank())] = error.what();
      CHECK(session.step() == fault.step);
      CHECK(session.trusted_step() == fault.step / every * every);
    }
  });
  return said;
}

/// Requires that a wrong result is found on all ranks alike, in the step in which it is made, and located.
inline void require_wrong_result_found(const Drawn& drawn, std::uint64_t seed, const Architecture* small = nullptr) {
  WrongResult fault;
  const std::vector<std::string> said = train_with_wrong_result(drawn, seed, fault, small);
  INFO(drawn.text << ": fault " << seed << ", " << fault.text << ": " << said[0]);
  for (const std::string& one : said) REQUIRE(one == said[0]);
  const std::int64_t world = drawn.world, owner = fault.play == 0 ? (fault.rank + 1) % world : fault.rank;
  REQUIRE_THAT(said[0], Catch::Contains(fmt::format("step {}: ", fault.step + 1)));
  REQUIRE_THAT(said[0], Catch::Contains(fmt::format("{}, of the micro-batch of rank {}, ", fault.where, owner)));
  // Of two ranks one may be known: the other's micro-batch was then played a third time, by its own rank.
  const bool is_known = world > 2 || (world == 2 && fault.play == 1);
  if (world == 1) REQUIRE_THAT(said[0], Catch::Contains("each time on rank 0 ("));
  if (is_known) REQUIRE_THAT(said[0], Catch::Contains(fmt::format("of rank {}, on rank {} (", owner, fault.rank)));
  if (world == 2 && !is_known) REQUIRE_THAT(said[0], Catch::Contains("of which one is wrong"));
}

}  // namespace tessera::testing
