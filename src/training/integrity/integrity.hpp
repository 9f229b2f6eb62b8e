#pragma once
// What a training session does against wrong bits: it checks its state (run.check_every), has another rank repeat its
// first micro-step (run.replay_every), and finds where numbers stop being finite (run.locate_nan).

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "tessera/data/dataset.hpp"
#include "tessera/schedule/planned_run.hpp"
#include "training/integrity/replay.hpp"
#include "training/integrity/state_check.hpp"

namespace tessera {

/// Returns a feed that reads what a rank gets, or got, in a micro-step of a step.
using FeedOf = std::function<TokenFeed(std::int64_t step, std::int64_t micro_step, std::int64_t rank)>;

/// UsageError, on every rank, if a rank would compute something different from rank 0. Collective.
void require_equal_plans(RankContext& context, const Options& options, const PlannedRun& planned, const Dataset& data);

class Integrity {
 public:
  /// Trusts the state as it is in memory, after `step`. Collective. All must outlive this.
  Integrity(const RunOptions& options, const StepSchedule& schedule, Resources& resources, Optimizer& optimizer,
            Player& player, FeedOf feed_of, std::int64_t step);

  /// Whether a step checks the state before its update, and whether its first micro-step is replayed.
  bool checks(std::int64_t step) const { return check_ && step % options_.check_every == 0; }
  bool replays(std::int64_t step) const { return replay_ && step % options_.replay_every == 0; }

  /// As TrainingSession::check_state, when `done` steps are done.
  void check_state(std::int64_t done);
  /// Plays the first micro-step of `step` after another rank's, and throws CorruptionError if two ranks make different
  /// bits. `own` feeds it. Collective.
  void play_twice(std::int64_t step, const TokenFeed& own);
  /// As TrainingSession::locate_nan, of the last step.
  std::string locate_nan(std::int64_t step, std::int64_t first_sample);

  /// See TrainingSession::trusted_step.
  std::int64_t trusted_step() const { return trusted_; }

 private:
  const RunOptions& options_;
  const StepSchedule& schedule_;
  Resources& resources_;
  Optimizer& optimizer_;
  Player& player_;
  FeedOf feed_of_;
  std::optional<StateCheck> check_;
  std::optional<Replay> replay_;
  std::int64_t checked_;   ///< the state after this step had passed a check
  std::int64_t replayed_;  ///< the step of the last replay, which found nothing
  std::int64_t trusted_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace tessera
