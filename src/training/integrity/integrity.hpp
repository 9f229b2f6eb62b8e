#pragma once
// What a training session does against wrong bits: it checks its state (run.check_every), has another rank repeat its
// first micro-step (run.replay_every), and finds where numbers stop being finite (run.locate_nan).

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "training/integrity/replay.hpp"
#include "training/integrity/state_check.hpp"
#include "training/step_samples.hpp"

namespace tessera {

class Integrity {
 public:
  /// Trusts the state as it is in memory, after `step`. Collective. All must outlive this.
  Integrity(const RunOptions& options, const StepSchedule& schedule, Resources& resources, Player& player,
            StepSamples& samples, std::int64_t step);

  /// Whether a step checks the state before its update, and whether its first micro-step is replayed.
  bool checks(std::int64_t step) const { return check_ && step % options_.check_every == 0; }
  bool replays(std::int64_t step) const { return replay_ && step % options_.replay_every == 0; }

  /// As TrainingSession::check_state, when `done` steps are done.
  void check_state(std::int64_t done);
  /// Plays the first micro-step of `step` after another rank's, and throws CorruptionError if two ranks make different
  /// bits. `own` feeds it. Collective.
  void play_twice(std::int64_t step, const TokenFeed& own);
  /// As TrainingSession::locate_nan, of the last step.
  std::string locate_nan(std::int64_t step);

  /// See TrainingSession::trusted_step.
  std::int64_t trusted_step() const { return trusted_; }

 private:
  /// Returns a feed that reads what a rank gets, or got, in a micro-step of a step.
  TokenFeed feed_of(std::int64_t step, std::int64_t micro_step, std::int64_t rank);

  const RunOptions& options_;
  const StepSchedule& schedule_;
  Resources& resources_;
  Player& player_;
  StepSamples& samples_;
  std::optional<StateCheck> check_;
  std::optional<Replay> replay_;
  std::int64_t checked_;   ///< the state after this step had passed a check
  std::int64_t replayed_;  ///< the step of the last replay, which found nothing
  std::int64_t trusted_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace tessera
