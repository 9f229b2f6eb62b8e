#include "commands/loaded_model.hpp"

#include "tessera/base/format.hpp"
#include "tessera/base/hub_name.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/engine/backend.hpp"
#include "tessera/engine/peers.hpp"
#include "tessera/engine/state.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/schedule/print.hpp"
#include "tessera/schedule/verify.hpp"

namespace tessera {

namespace {

void require_memory(World& world, const Options& options, const PlannedRun& planned, const MachineShape& machine,
                    const ModelUse& use) {
  const UsableMemory mine =
      backend_of(planned.schedule.model.device).usable_memory(world, options, planned.schedule, machine.machine_ranks);
  const std::int64_t usable = -world.control().maximum(-mine.bytes);
  const std::int64_t needed = limited_bytes(planned);
  if (usable <= 0 || needed <= usable) return;
  throw DoesNotFit(
      "{} needs {} per rank, but has only {}{}. Use more ranks with shard.strategy = zero3, a smaller "
      "train.micro_batch "
      "or {}, or precision.compute = bf16.",
      use.name, format_bytes(needed), format_bytes(usable), mine.of, use.smaller);
}

}  // namespace

LoadedModel::LoadedModel(World& world, const ResolvedRun& run, const PlannedRun& planned, const ModelUse& use) {
  const Options& options = run.options;
  const StepSchedule& schedule = planned.schedule;
  require_verified(schedule, planned.plan);
  require_equal(world, {{"schedule", fmt::format("{:016x}", schedule.hash())},
                        {"instruction set", name_of(best_instruction_set())}});
  require_memory(world, options, planned, run.machine, use);
  const Backend& backend = backend_of(schedule.model.device);
  resources_ =
      std::make_unique<Resources>(backend, world, schedule, planned.plan, resource_settings(options, run.machine));
  player_ = backend.make_player(schedule, *resources_, optimizer_);
  const WaitPhase phase(world.control().waits(), "the weights were read", options.checkpoint.timeout,
                        "checkpoint.timeout");
  set_constants(schedule, *resources_);
  run.weights->open(schedule.model.tensors);
  set_weights(schedule, *resources_, run.weights->source());
  if (schedule.reserved(Reserved::scalars)) player_->send_scalars();
  world.control().barrier();
}

std::string ranks_text(const PlannedRun& planned) {
  const StepSchedule& s = planned.schedule;
  return fmt::format("{} over {}, {} each ({})", name_of(s.policy.strategy), counted(s.grid.world(), "rank"),
                     format_bytes(limited_bytes(planned)), describe_peak(planned.plan));
}

void name_model(Options& options, const std::filesystem::path& model) {
  if (!path_exists(model)) {
    const std::string hint = hub_hint(model);
    throw refusal("{} does not exist", model.string())
        .use("a run, a checkpoint or a Hugging Face folder{}", hint.empty() ? "" : ". " + hint);
  }
  options.model.from = model.string();
}

}  // namespace tessera
