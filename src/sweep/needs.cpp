#include "sweep/needs.hpp"

#include "sweep/launcher.hpp"
#include "tessera/backend/cores.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/engine/device_choice.hpp"
#include "tessera/fit/decide_fit.hpp"
#include "tessera/resolve/resolved_run.hpp"

namespace tessera {

namespace {

/// Limits the memory. A GPU's can only be queried by its own process, so train does that and reports it.
FitLimits limits_of(const Options& options, Site site, std::int64_t ranks_per_machine) {
  FitLimits limits;
  if (options.plan.memory > 0)
    limits = {options.plan.memory, 0, fmt::format("plan.memory = {}", format_bytes(options.plan.memory))};
  if (site == Site::elsewhere) return limits;
  const std::int64_t usable = usable_memory() / ranks_per_machine;
  limits.machine = std::max<std::int64_t>(usable, 0);
  if (traits_of(device_of(options.run)).has_own_memory) return limits;
  if (usable > 0 && (limits.device == 0 || usable < limits.device))
    limits = {usable, usable,
              fmt::format("{} of usable memory for each of {} ranks", format_bytes(usable), ranks_per_machine)};
  return limits;
}

/// Returns why offloaded state and the rest do not fit together into the machine's memory; empty if they do.
std::string machine_misfit(const PlannedRun& planned, const FitLimits& limits, std::int64_t ranks_per_machine) {
  try {
    require_machine_fit(planned.schedule, planned.plan, limits.machine, static_cast<int>(ranks_per_machine));
  } catch (const DoesNotFit& error) {
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
      needs.missing = "there is no share/tessera/peers next to this executable, nor tests/peers of the sources";
    return needs;
  }
  Options options = row.options;
  if (site == Site::here) {
    try {
      options.run.device = resolved_device(options.run.device);
    } catch (const UsageError&) {
      needs.missing = fmt::format("needs a GPU: {}", why_no_cuda_device());
    }
  }
  needs.device = name_of(options.run.device);
  needs.uses_accelerator = traits_of(device_of(options.run)).is_accelerator;
  const FitLimits limits = limits_of(options, site, ranks_per_machine);
  if (limits.device == 0 && has_fit(options)) return needs;  // the row's own process knows the limit
  const ResolvedRun run(options, {Purpose::sweep, row.ranks, limits});
  needs.bytes = limited_bytes(run.planned);
  if (!needs.missing.empty()) return needs;
  if (limits.device > 0 && needs.bytes > limits.device) {
    const FitAnswer answer = examine_fit(run.shape, run.planned.schedule, run.planned.plan, limits.device);
    needs.misfit = fmt::format("{}: {}", limits.name, describe_fit(answer));
  } else if (limits.machine > 0 && copies_in_steps(run.planned.schedule)) {
    needs.misfit = machine_misfit(run.planned, limits, ranks_per_machine);
  }
  return needs;
}

}  // namespace tessera
