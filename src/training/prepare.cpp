#include "tessera/training/prepare.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "tessera/backend/cores.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/config/fine_tuning.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/engine/backend.hpp"
#include "tessera/schedule/decide_fit.hpp"
#include "tessera/schedule/fit.hpp"
#include "tessera/text/corpus.hpp"
#include "tessera/training/evaluator.hpp"
#include "tessera/training/model_tokenizer.hpp"
#include "tessera/training/trace_writer.hpp"

namespace tessera {

namespace {

/// Returns data.tokenizer: for text as given, else as of the run whose weights this one starts from. Rank 0 decides.
/// Collective.
std::string tokenizer_of_data(RankContext& context, const Options& options, const ModelWeights& weights) {
  std::string tokenizer = options.data.tokenizer;
  if (!tokenizer.empty() || weights.checkpoint() == nullptr) return tokenizer;
  if (context.rank() == 0 && options.data.source != "synthetic" && !holds_tokens(options, "data.source"))
    tokenizer = tokenizer_of_run(weights);
  return context.control().broadcast(tokenizer);
}

}  // namespace

void open_on_all(RankContext& context, const Options& options, const StopReason& stop,
                 const std::function<void(const CorpusSettings&)>& open) {
  CorpusSettings settings;
  settings.threads = options.run.threads > 0 ? static_cast<int>(options.run.threads) : allowed_cores();
  settings.stop = stop;
  const WaitPhase phase(context.control().waits(), "rank 0 prepared the corpus", 0, "");
  if (context.rank() == 0) {
    settings.say = [](const std::string& line) { Log(0, 1).info(line); };
    open(settings);
  }
  context.control().barrier();
  // A cache that rank 0 does not share is prepared again.
  if (context.rank() != 0) {
    settings.say = [&](const std::string& line) { Log(0, 1).info(fmt::format("rank {}: {}", context.rank(), line)); };
    open(settings);
  }
  context.control().barrier();
}

PreparedRun::PreparedRun(RankContext& context, const Options& options, const MachineShape& machine,
                         const StopReason& stop)
    : machine_(machine), weights_(context, options.model) {
  const Architecture& architecture = weights_.architecture();
  tokenizer_ = tokenizer_of_data(context, options, weights_);
  Options with_tokenizer = options;
  with_tokenizer.data.tokenizer = tokenizer_;
  open_on_all(context, with_tokenizer, stop, [&](const CorpusSettings& settings) {
    data_ = std::make_unique<Dataset>(
        open_dataset(with_tokenizer, architecture.vocab, sequence_length(options, architecture), settings));
  });
  if (context.rank() == 0) {
    if (const std::string shared = shared_validation(options); !shared.empty()) Log(0, 1).warn(shared);
  }
  const Options decided = decided_options(context, options);
  memory_ = decided.memory;
  offload_fraction_ = decided.shard.offload_fraction;
  planned_ = plan_run(decided, architecture, context.size(), context.ranks_per_node(), [&] {
    if (const std::string why = stop ? stop() : ""; !why.empty())
      throw Error(ExitCode::stopped_early, why + " before the first step, so that nothing was written");
  });
  steps_ = steps_of_run(options, planned_, *data_);
  require_traceable(options.run.trace, planned_.schedule);
  require_memory(context, decided);
  for (const ValidationSet& set : data_->validation())  // an error before the run, not at its first evaluation
    evaluated_tokens(set, evaluated_windows(set, planned_.schedule.model.batch, options.train.eval_batches));
  weights_.open(planned_.schedule.model.tensors);
}

/// The rank with the least memory decides, so that all ranks decide alike. 0 bytes: the system does not tell.
PreparedRun::MemoryLimit PreparedRun::memory_limit(RankContext& context, const Options& options,
                                                   const StepSchedule& schedule) const {
  const UsableMemory mine =
      backend_of(schedule.model.device).usable_memory(context, options, schedule, machine_.machine_ranks);
  const std::int64_t usable = -context.control().maximum(-mine.bytes), given = options.plan.memory;
  const std::int64_t machine = -context.control().maximum(-(tessera::usable_memory() / machine_.machine_ranks));
  if (given > 0 && (usable <= 0 || given < usable)) return {given, "plan.memory = " + format_bytes(given), machine};
  return {usable, format_bytes(usable) + mine.of, machine};
}

Options PreparedRun::decided_options(RankContext& context, const Options& options) const {
  if (!is_decided_by_memory(options)) return options;
  Options least = options;
  if (least.memory.checkpoint == ActivationCheckpointing::fit) least.memory.checkpoint = ActivationCheckpointing::block;
  if (least.shard.offload_fraction.fits) least.shard.offload_fraction = {};
  least.memory.offload_activations = false;  // of one block nothing may go out
  const Architecture& architecture = weights_.architecture();
  const RunShape shape = run_shape(least, architecture, context.size(), context.ranks_per_node());
  const MemoryLimit limit = memory_limit(context, least, plan_shape(shape, {false, 0}).schedule);
  return with_fit_decided(options, architecture, context.size(), context.ranks_per_node(),
                          {limit.bytes, std::max<std::int64_t>(limit.machine, 0)});
}

void PreparedRun::require_memory(RankContext& context, const Options& options) const {
  const StepSchedule& schedule = planned_.schedule;
  const ModelParts& model = schedule.model;
  const MemoryLimit limit = memory_limit(context, options, schedule);
  if (limit.bytes > 0) {
    const RunShape shape = run_shape(options, model.architecture, context.size(), context.ranks_per_node());
    require_fit(examine_fit(shape, schedule, planned_.plan, limit.bytes), limit.name);
  }
  // What is offloaded, and on a GPU's machine all that is pinned, must fit beside that of the machine's other ranks.
  const bool has_more = copies_in_steps(schedule) || traits_of(model.device).has_own_memory;
  if (has_more && limit.machine > 0)
    require_machine_fit(schedule, planned_.plan, limit.machine, machine_.machine_ranks);
}

Options PreparedRun::resolved(const Options& options) const {
  const StepSchedule& schedule = planned_.schedule;
  Options out = options;
  const int threads = threads_of(options, machine_);
  out.run.threads = threads;
  out.run.lanes = queue_mode_of(options, threads, machine_);
  if (options.model.from.empty())  // a folder names its own sizes
    static_cast<ModelSizes&>(out.model) = schedule.model.architecture;
  out.data.tokenizer = tokenizer_;
  out.memory = memory_;
  out.optim.warmup_steps = warmup_steps_of(options, steps_);
  out.train.seq_len = schedule.model.sequence;
  out.shard.offload_fraction = offload_fraction_;
  out.shard.reduce = resolved_reduce(options.shard.reduce, options.shard.strategy);
  if (rules_of(options.shard.strategy).is_hybrid()) out.shard.group_size = schedule.grid.size(Group::shard);
  return out;
}

std::unique_ptr<TrainingSession> PreparedRun::open(RankContext& context, const Options& options,
                                                   const StateLoader& load) const {
  return std::make_unique<TrainingSession>(context, options, planned_, *data_, machine_, weights_.source(), load);
}

namespace {

/// Returns the first line in which two texts differ: "here instead of there".
std::string first_difference(const std::string& here, const std::string& there) {
  std::istringstream ours(here), theirs(there);
  std::string our, their;
  while (our == their && std::getline(ours, our) && std::getline(theirs, their)) continue;
  return fmt::format("'{}' instead of '{}'", our, their);
}

/// Compares the options first: whether later calls are collective depends on them.
void compare_options(ControlPlane& control, const Options& options) {
  const std::vector<std::string> all = control.all_gather(write_ini(options));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw UsageError("rank {} differs from rank 0 in its options: {}: all ranks must start with the same options", rank,
                     first_difference(all[rank], all[0]));
  }
}

/// Returns how many cores the ranks of this machine may use together: each may be bound to its own.
int cores_of_machine(World& world) {
  std::string mine;
  for (const int core : allowed_core_numbers()) mine += fmt::format("{} ", core);
  const std::vector<std::string> all = world.control().all_gather(mine);
  std::set<int> cores;
  for (const std::int64_t rank : world.machine_members()) {
    std::istringstream numbers(all[static_cast<std::size_t>(rank)]);
    for (int core = 0; numbers >> core;) cores.insert(core);
  }
  return std::max(1, static_cast<int>(cores.size()));
}

}  // namespace

MachineShape resolve_grid(World& world, const Options& options) {
  compare_options(world.control(), options);
  MachineShape machine;
  machine.machine_ranks = static_cast<int>(world.machine_members().size());
  machine.machine_cores = cores_of_machine(world);
  if (options.grid.ranks_per_node > 0) world.set_ranks_per_node(options.grid.ranks_per_node);
  validate_for_world(options, world.size(), world.ranks_per_node());
  return machine;
}

}  // namespace tessera
