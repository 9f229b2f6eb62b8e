#pragma once
// From a user's options to a run: an ordered table of steps (src/resolve/steps.cpp). Each decides something that the
// options left open, or makes something that later steps need.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/comm/world.hpp"
#include "tessera/fit/fit.hpp"
#include "tessera/optimizer/run_length.hpp"
#include "tessera/resolve/machine.hpp"
#include "tessera/resolve/model_weights.hpp"
#include "tessera/text/corpus.hpp"

namespace tessera {

/// What a run's options are resolved for, as bits, so that a step can name several.
enum class Purpose : std::uint8_t {
  train = 1 << 0,
  bench = 1 << 1,
  plan = 1 << 2,
  sweep = 1 << 3,  ///< a row of a sweep, which another process trains
  eval = 1 << 4,
  generate = 1 << 5,
  machine = 1 << 6  ///< ranks and their device, without a model
};
constexpr Purpose operator|(Purpose a, Purpose b) {
  return static_cast<Purpose>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}

/// Returns why the run is to stop; empty to go on.
using StopReason = std::function<std::string()>;

/// Where a run is resolved.
struct ResolveSite {
  /// On the ranks of this process's world, whose nodes are found first.
  ResolveSite(Purpose for_what, World& world) : purpose(for_what), ranks(&world), processes(&world) {}
  /// On ranks for which `of_machine` says how they share the machine.
  ResolveSite(Purpose for_what, RankContext& context, const MachineShape& of_machine)
      : purpose(for_what), ranks(&context), machine(of_machine) {}
  /// Only planned, for so many ranks. The limits are the memory that decides.
  ResolveSite(Purpose for_what, std::int64_t number, FitLimits of_memory)
      : purpose(for_what), planned_ranks(number), limits(std::move(of_memory)) {}

  Purpose purpose;
  RankContext* ranks = nullptr;
  World* processes = nullptr;
  std::int64_t planned_ranks = 1;
  FitLimits limits;
  MemoryPlanOptions effort = {};  ///< of the memory plan
  MachineShape machine;
  bool makes_algorithms = false;  ///< the file of run.algorithms is made if it is not there
  StopReason stop;                ///< may end the preparation of text, and the verification of the schedule
};

/// A value with which a step replaced what the options said.
struct Decision {
  std::string_view step;
  std::string option, value;
};

/// A run, resolved and planned, before its session is opened.
struct ResolvedRun : RunSite {
  /// Goes through the steps of the site's purpose. UsageError if options, model, data or memory do not fit together.
  /// Collective where there are ranks.
  ResolvedRun(const Options& given, const ResolveSite& site);
  ResolvedRun(const ResolvedRun&) = delete;
  ResolvedRun& operator=(const ResolvedRun&) = delete;

  /// With every 0 or auto replaced that was decided for this machine, model and strategy, so that they repeat the run.
  /// Equal on all ranks: threads and queues that differ between machines stay as given.
  /// grid.ranks_per_node stays as given, because it overrides the machine's value.
  Options options;
  Options asked;  ///< before the defaults of fine-tuning
  MachineShape machine;
  std::unique_ptr<ModelWeights> weights;  ///< if there are ranks
  std::unique_ptr<Dataset> data;          ///< of a training run
  RunShape shape;                         ///< of a training run, also if it is only planned; as `planned`
  PlannedRun planned;
  RunPosition position;  ///< where a training goes on, if it does from the newest readable checkpoint
  RunLength length;      ///< of a training run
  std::vector<Decision> decisions;
};

/// What a step needs in addition to the options.
enum class StepNeeds : std::uint8_t { nothing, files, ranks, device };

struct ResolveStep {
  std::string_view name, why;
  StepNeeds needs;
  Purpose purposes;
  void (*apply)(ResolvedRun& run, const ResolveSite& site);
};

/// Returns the steps in their order.
std::span<const ResolveStep> resolve_steps();

/// Returns "run.device = cpu, run.threads = 2, ...": the decisions, apart from the sizes of the model.
std::string describe_decisions(const std::vector<Decision>& decisions);

/// Returns the length of a run that goes on from a position with `batch` samples per step: train.steps, or the samples
/// of train.epochs or train.tokens.
RunLength length_of_run(const TrainOptions& train, const Dataset& data, std::int64_t batch, const RunPosition& from);
/// Returns train.steps, or the steps of a new run that train.tokens make; nothing where train.epochs decides, which
/// needs the data. UsageError if other options do not fit the number of steps.
std::optional<std::int64_t> planned_steps(const Options& options, const StepSchedule& schedule);

/// Calls `open` on rank 0, which prepares text if that was not done, and then on the others. Only one rank prints, and
/// waiting has no limit because a corpus may take hours. Collective.
void open_on_all(RankContext& context, const Options& options, const StopReason& stop,
                 const std::function<void(const CorpusSettings&)>& open);

}  // namespace tessera
