#include "sweep/needs.hpp"

#include "sweep/launcher.hpp"
#include "tessera/app/commands.hpp"
#include "tessera/backend/cores.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/engine/device_choice.hpp"
#include "tessera/schedule/decide_fit.hpp"
#include "tessera/schedule/fit.hpp"
#include "tessera/training/resolve_model.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

namespace {

struct Limit {
  std::int64_t bytes = 0;  ///< of a rank; 0: not known
  std::string name;
  std::int64_t machine = 0;  ///< bytes of the machine's memory for a rank; 0: not known
};

/// Limits the memory; a GPU's only its own process can query: train does, and says so.
Limit limit_of(const Options& options, Site site, std::int64_t ranks_per_machine) {
  Limit limit;
  if (options.plan.memory > 0)
    limit = {options.plan.memory, fmt::format("plan.memory = {}", format_bytes(options.plan.memory))};
  if (site == Site::elsewhere) return limit;
  const std::int64_t usable = usable_memory() / ranks_per_machine;
  limit.machine = std::max<std::int64_t>(usable, 0);
  if (traits_of(device_of(options.run)).has_own_memory) return limit;
  if (usable > 0 && (limit.bytes == 0 || usable < limit.bytes))
    limit = {usable, fmt::format("{} of usable memory for each of {} ranks", format_bytes(usable), ranks_per_machine),
             usable};
  return limit;
}

/// Returns why what is offloaded does not fit beside the rest into the machine's memory; empty if it does.
std::string machine_misfit(const PlannedRun& planned, const Limit& limit, std::int64_t ranks_per_machine) {
  try {
    require_machine_fit(planned.schedule, planned.plan, limit.machine, static_cast<int>(ranks_per_machine));
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

RowNeeds needs_of(const SweepRow& row, Site site, std::int64_t ranks_per_machine) {
  RowNeeds needs;
  if (!row.trains()) {
    needs.device = "-";
    if (site == Site::here && row.command.find("{peers}") != std::string::npos && peers_folder().empty())
      needs.missing = "there is no share/tessera/peers beside this executable, nor tests/peers of the sources";
    return needs;
  }
  Options options = row.options;
  if (site == Site::here) {
    try {
      options.run.device = resolved_device(options.run.device);
    } catch (const UsageError& error) {
      needs.missing = fmt::format("needs a GPU: {}", error.what());
    }
  }
  needs.device = name_of(options.run.device);
  needs.uses_accelerator = traits_of(device_of(options.run)).is_accelerator;
  const Architecture architecture = resolve_architecture(options.model);
  const Limit limit = limit_of(options, site, ranks_per_machine);
  const std::int64_t ranks_per_node = planned_ranks_per_node(options, row.ranks);
  options = with_fit_decided(options, architecture, row.ranks, ranks_per_node, {limit.bytes, limit.machine});
  const RunShape shape = run_shape(options, architecture, row.ranks, ranks_per_node);
  const PlannedRun planned = plan_shape(shape);
  needs.bytes = limited_bytes(planned.schedule, planned.plan);
  if (limit.bytes > 0 && needs.bytes > limit.bytes && needs.missing.empty()) {
    needs.misfit = fmt::format("{}: {}", limit.name,
                               describe_fit(examine_fit(shape, planned.schedule, planned.plan, limit.bytes)));
  }
  const bool has_copies = limit.machine > 0 && copies_in_steps(planned.schedule);
  if (has_copies && needs.misfit.empty() && needs.missing.empty())
    needs.misfit = machine_misfit(planned, limit, ranks_per_machine);
  return needs;
}

}  // namespace tessera
