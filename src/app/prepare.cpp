#include "tessera/app/prepare.hpp"

#include "tessera/app/resolve_model.hpp"
#include "tessera/backend/cores.hpp"
#include "tessera/base/format.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/schedule/fit.hpp"

namespace tessera {

PreparedRun::PreparedRun(RankContext& context, const Options& options, const MachineShape& machine) : machine_(machine) {
  const Architecture architecture = resolve_architecture(options.model);
  require_trainable(architecture);
  data_ = std::make_unique<Dataset>(options.data, architecture.vocab, sequence_length(options, architecture));
  planned_ = plan_run(options, architecture, context.size(), context.ranks_per_node());
  steps_of_run(options, planned_, *data_);
  require_memory(context, options);
  if (!options.model.from.empty()) weights_ = std::make_unique<HuggingFaceWeights>(options.model.from, planned_.schedule.model.tensors);
}

/// The rank with the least memory decides, so that all ranks decide alike.
void PreparedRun::require_memory(RankContext& context, const Options& options) const {
  const std::int64_t usable = -context.control().maximum(-usable_memory());
  if (usable <= 0) return;  // the system does not tell
  const RunShape shape = run_shape(options, planned_.architecture, planned_.sequence, context.size(), context.ranks_per_node());
  require_fit(examine_fit(shape, planned_.schedule, planned_.plan, usable / machine_.machine_ranks),
              fmt::format("{} of usable memory for {} rank{} of a machine", format_bytes(usable), machine_.machine_ranks, machine_.machine_ranks == 1 ? "" : "s"));
}

std::unique_ptr<TrainingSession> PreparedRun::open(RankContext& context, const Options& options) const {
  TensorSource source;
  if (weights_ != nullptr) source = [this](TensorId tensor, std::int64_t first, std::span<float> out) { weights_->read(tensor, first, out); };
  return std::make_unique<TrainingSession>(context, options, planned_, *data_, machine_, source);
}

MachineShape settle_grid(World& world, const Options& options) {
  MachineShape machine;
  machine.machine_ranks = static_cast<int>(world.ranks_per_node());
  if (options.grid.ranks_per_node > 0) world.set_ranks_per_node(options.grid.ranks_per_node);
  validate_for_world(options, world.size(), world.ranks_per_node());
  return machine;
}

}  // namespace tessera
