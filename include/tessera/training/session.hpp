#pragma once
// One rank's training session: from resolved options to steps. Builds and verifies the schedule, plans memory, binds
// it, and plays steps and evaluations. TrainLoop (training/train_loop.hpp) shows, logs and writes around it.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "tessera/checkpoint/records.hpp"
#include "tessera/config/options.hpp"
#include "tessera/data/dataset.hpp"
#include "tessera/engine/player.hpp"
#include "tessera/engine/state.hpp"
#include "tessera/engine/step_trace.hpp"
#include "tessera/optimizer/optimizer.hpp"
#include "tessera/resolve/resolved_run.hpp"
#include "tessera/schedule/planned_run.hpp"
#include "tessera/training/evaluator.hpp"

namespace tessera {

class Integrity;
class StepSamples;

/// Returns the steps between timed steps: metrics.time_every, or a value that suits the device. A GPU's timed steps are
/// slower, because they are not replayed as graphs. At least `wanted` of `steps` are timed.
std::int64_t steps_between_timed(const Options& options, DeviceKind device, std::int64_t steps, std::int64_t wanted);

/// The point at which a session starts.
struct StartPoint {
  RunPosition position;
  OptimizerRecord optimizer;
};

/// Fills masters and moments of this rank's slices from a checkpoint and returns its position. Returns nothing if there
/// is none, and the session starts afresh. Collective.
using StateLoader = std::function<std::optional<StartPoint>(const StepSchedule& schedule, Resources& resources)>;

class TrainingSession {
 public:
  /// Collective. `planned` and `data` must outlive the session. `load` fills in the state; without it weights come from
  /// `weights`, or are initialised from run.seed. `flight` records what the rank does; may be null.
  TrainingSession(RankContext& context, const Options& options, const PlannedRun& planned, const Dataset& data,
                  const MachineShape& machine = {}, const TensorSource& weights = {}, const StateLoader& load = {},
                  FlightRecorder* flight = nullptr);
  ~TrainingSession();

  const RunLength& length() const { return length_; }         ///< of the whole run
  std::int64_t steps() const { return length_.steps(); }      ///< of the whole run
  std::int64_t step() const { return step_; }                 ///< done so far
  std::int64_t first_step() const { return from_.step + 1; }  ///< the first of this session
  const StepSamples& samples() const { return *samples_; }
  std::int64_t next_sample() const;  ///< of the coming step, the first
  std::int64_t global_tokens() const { return optimizer_->settings().global_tokens; }

  /// Sets the source of this rank's wish to stop (training/stop.hpp). It gets the number of the step's micro-steps that
  /// were begun: fewer than all before a micro-step, and all of them before the step's last sum.
  void ask(std::function<StepWish(std::int64_t begun)> source);

  /// Runs one optimizer step. `before_update` is called when all gradients are final, before weights change (dumps).
  /// The step is given up if ranks wish to stop while one of them expects that its rest takes long. All state is then
  /// as before the step, and nothing but a checkpoint may follow. Updates of state on the host are left to the next
  /// step, or to Player::finish_step. With run.replay_every, CorruptionError on every rank if two ranks make different
  /// bits of the same micro-batch.
  StepResult train_step(const std::function<void()>& before_update = {});

  /// Returns the losses of a mixture's sources in the last step, on rank 0; nothing without a mixture. Collective.
  std::vector<SourceLoss> source_losses();

  /// Plays the last step again, whose numbers are not finite, and returns where the first such number is (NanSearch);
  /// empty if all that it looks at is finite. Only with run.locate_nan. Collective.
  std::string locate_nan();

  /// Compares the state between two steps with its checksums and with that of ranks that hold the same. With
  /// run.check_every, every so many steps do so themselves, before their update. CorruptionError, on every rank, if
  /// bits differ, which names them. Collective; does nothing without that option.
  void check_state();
  /// Returns the last step whose checkpoint may be trusted after a CorruptionError, if it was written after a check.
  std::int64_t trusted_step() const;

  /// Copies this rank's share of the state to the host, where snapshot_slice() finds it until the next call; returns
  /// when the copy is complete. Only with checkpoint.async.
  void take_snapshot();

  /// Evaluates `micro_batches` of every validation set, see Evaluator. Collective.
  std::vector<Evaluation> evaluate(std::int64_t micro_batches);

  const StepSchedule& schedule() const { return planned_.schedule; }
  Resources& resources() { return *resources_; }
  const Resources& resources() const { return *resources_; }
  Optimizer& optimizer() { return *optimizer_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  Player& player() { return *player_; }
  FlightRecorder* flight() const { return flight_; }
  /// Returns the spans of run.trace; null without that option.
  const StepTrace* trace() const { return trace_.get(); }

 private:
  bool is_given_up(const Play& play);

  const Options& options_;
  const PlannedRun& planned_;
  const Dataset& data_;
  RankContext& context_;
  FlightRecorder* flight_;
  RunPosition from_;
  RunLength length_;
  std::int64_t step_ = 0;
  std::int64_t begun_ = 0;             ///< micro-steps of the step that is being played
  std::vector<std::int64_t> counted_;  ///< its targets, by source
  std::unique_ptr<Resources> resources_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<StepTrace> trace_;
  std::unique_ptr<Player> player_;
  std::unique_ptr<StepSamples> samples_;
  std::unique_ptr<Integrity> integrity_;
  std::unique_ptr<Evaluator> evaluator_;  ///< from the first evaluation on
};

/// Opens the session of a run, which must outlive it: allocates, initialises or reads weights, or goes on from the
/// state of `load`. Collective.
std::unique_ptr<TrainingSession> open_session(RankContext& context, const ResolvedRun& run,
                                              const StateLoader& load = {}, FlightRecorder* flight = nullptr);

}  // namespace tessera
