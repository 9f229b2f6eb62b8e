#pragma once
// One rank's training session: from resolved options to steps. Builds and proves the schedule, plans memory, binds it,
// and plays steps and evaluations. What is shown, logged and written around it is the training loop's (app).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "tessera/backend/cores.hpp"
#include "tessera/checkpoint/records.hpp"
#include "tessera/config/options.hpp"
#include "tessera/data/dataset.hpp"
#include "tessera/data/reader.hpp"
#include "tessera/engine/optimizer.hpp"
#include "tessera/engine/player.hpp"
#include "tessera/engine/state.hpp"
#include "tessera/schedule/planned_run.hpp"

namespace tessera {

/// How a session runs on this machine: what options leave to it.
struct MachineShape {
  int machine_ranks = 1;                ///< ranks on this machine (grid.ranks_per_node does not change that)
  int machine_cores = allowed_cores();  ///< cores that any of them may run on; each may be bound to some of these
  bool force_pairwise = false;          ///< messages even inside a node (tests, measurements)
  std::uint64_t chaos_seed = 1;
  bool poison = false;           ///< fill released storages with NaN (tests)
  std::int64_t timed_steps = 0;  ///< of the run's steps at least so many are timed, whatever metrics.time_every says
  bool measure = false;          ///< make measured_bytes() possible on a GPU
  std::string kept_products;     ///< rank 0, GPU: Compute::gemm_algorithms() of the run's earlier part
};

/// train.steps, or the steps that train.epochs make. UsageError where other options do not fit the number of steps.
std::int64_t steps_of_run(const Options& options, const PlannedRun& planned, const Dataset& data);

/// Compute threads of a rank: run.threads, or the machine's cores / its ranks, as far as this rank may use so many; at
/// least 1.
int threads_of(const Options& options, const MachineShape& machine);
/// Threads that compete for this rank's cores: all of the machine's where they are more than its cores, else only its
/// own.
int threads_on_cores(int threads, const MachineShape& machine);
/// Steps between steps that are timed: metrics.time_every, or what suits the device (a GPU's steps are slower when they
/// are timed, because they are not replayed as graphs), but so that of `steps` at least `wanted` are.
std::int64_t steps_between_timed(const Options& options, DeviceKind device, std::int64_t steps, std::int64_t wanted);
/// run.lanes; auto means parallel where a core is left for communication or collectives are slowed on purpose.
LaneMode lanes_of(const Options& options, int threads, const MachineShape& machine);

/// Where a session goes on.
struct StartPoint {
  std::int64_t step = 0;         ///< steps done
  std::int64_t next_sample = 0;  ///< samples of the run so far
  OptimizerRecord optimizer;
};

/// Fills masters and moments of this rank's slices from a checkpoint and says where it stands; nothing: there is none,
/// and the session starts afresh. Collective.
using StateLoader = std::function<std::optional<StartPoint>(const StepSchedule& schedule, Resources& resources)>;

class TrainingSession {
 public:
  /// Collective. `planned` and `data` must outlive the session. The state is what `load` fills in; without it weights
  /// come from `weights`, or are initialised from run.seed.
  TrainingSession(RankContext& context, const Options& options, const PlannedRun& planned, const Dataset& data,
                  const MachineShape& machine = {}, const TensorSource& weights = {}, const StateLoader& load = {});
  ~TrainingSession();

  std::int64_t steps() const { return steps_; }                ///< of the whole run
  std::int64_t step() const { return step_; }                  ///< done so far
  std::int64_t first_step() const { return start_.step + 1; }  ///< the first that this session does
  /// Where the run stands in its data, after step().
  DataPosition data_position() const;
  std::int64_t global_tokens() const { return optimizer_->settings().global_tokens; }

  /// What this rank asks of all ranks (engine/stop.hpp): travels with the sums of the coming steps.
  void request(std::int32_t requests) { optimizer_->scalars().stop_requested = requests; }

  /// One optimizer step. `before_update` is called when all gradients are final, before weights change (dumps).
  StepResult train_step(const std::function<void()>& before_update = {});

  /// Copies this rank's share of the state to the host, where snapshot_slice() finds it until the next one; returns
  /// when it is there. Only with checkpoint.async.
  void take_snapshot();

  /// Mean loss over `micro_batches` of the validation part (0, or more than there are: all of it, to the last window);
  /// the same number on every rank and world.
  double evaluate(std::int64_t micro_batches);

  const StepSchedule& schedule() const { return planned_.schedule; }
  Resources& resources() { return *resources_; }
  const Resources& resources() const { return *resources_; }
  Optimizer& optimizer() { return *optimizer_; }
  Player& player() { return *player_; }

 private:
  std::int64_t first_sample(std::int64_t request) const;
  void compare_plans(RankContext& context) const;
  /// The sum of the losses of `count` groups of `together` windows from window `first` on, a group a micro-batch, in
  /// which it is repeated until that is full.
  double evaluate_groups(std::int64_t first, std::int64_t together, std::int64_t count);

  const Options& options_;
  const PlannedRun& planned_;
  const Dataset& data_;
  RankContext& context_;
  std::int64_t steps_ = 0, step_ = 0;
  StartPoint start_;
  std::unique_ptr<Resources> resources_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Player> player_;
  std::unique_ptr<BatchReader> reader_;
  std::vector<std::int32_t> row_;  ///< scratch of evaluation's batches
};

}  // namespace tessera
