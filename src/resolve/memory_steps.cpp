// The steps that memory decides, and the one that builds the schedule and plans its memory.
#include <algorithm>

#include "resolve/steps.hpp"
#include "tessera/base/format.hpp"
#include "tessera/engine/backend.hpp"
#include "tessera/fit/decide_fit.hpp"
#include "tessera/schedule/verify.hpp"

namespace tessera {

namespace {

/// The rank with the least memory decides, so that all ranks agree. 0 bytes: the system does not tell.
FitLimits limits_of(const ResolvedRun& run, const ResolveSite& site, const StepSchedule& schedule) {
  if (site.ranks == nullptr) return site.limits;
  ControlPlane& control = site.ranks->control();
  const UsableMemory mine =
      backend_of(schedule.model.device).usable_memory(*site.ranks, run.options, schedule, run.machine.machine_ranks);
  const std::int64_t usable = -control.maximum(-mine.bytes), given = run.options.plan.memory;
  const std::int64_t machine = -control.maximum(-(usable_memory() / run.machine.machine_ranks));
  if (given > 0 && (usable <= 0 || given < usable)) return {given, machine, "plan.memory = " + format_bytes(given)};
  return {usable, machine, format_bytes(usable) + mine.of};
}

/// Returns the schedule of the least memory, with which a device can say how much it has to give.
StepSchedule least_schedule(const ResolvedRun& run) {
  Options least = least_options(run.options, run.architecture);
  if (least.train.seq_len == kFittingLength) least.train.seq_len = 1;
  least.memory.offload_activations = false;  // a single block may have nothing to copy out
  return plan_shape(run_shape(least, run), kQuickPlan).schedule;
}

FitLimits limits_of_least(const ResolvedRun& run, const ResolveSite& site) {
  FitLimits limits = site.ranks == nullptr ? site.limits : limits_of(run, site, least_schedule(run));
  limits.machine = std::max<std::int64_t>(limits.machine, 0);
  return limits;
}

}  // namespace

void decide_length(ResolvedRun& run, const ResolveSite& site) {
  if (run.options.train.seq_len != kFittingLength) return;
  FitLimits limits = limits_of_least(run, site);
  if (run.options.plan.memory == 0) limits.device -= limits.device / 50;  // it is measured again when data are open
  run.options.train.seq_len = longest_sequence(run.options, run, limits);
}

void decide_by_memory(ResolvedRun& run, const ResolveSite& site) {
  if (!is_decided_by_memory(run.options)) return;
  const FitLimits limits = limits_of_least(run, site);
  run.options = with_fit_decided(run.options, run, limits);
}

void plan_schedule(ResolvedRun& run, const ResolveSite& site) {
  run.shape = with_copies_kept(run_shape(run.options, run), run.options, [&] { return limits_of_least(run, site); });
  run.planned = plan_shape(run.shape, site.effort);
  if (site.purpose == Purpose::sweep) return;  // its process verifies it
  require_verified(run.planned.schedule, run.planned.plan, [&] {
    if (const std::string why = site.stop ? site.stop() : ""; !why.empty())
      throw Error(ExitCode::stopped_early, why + " before the first step, so that nothing was written");
  });
}

void require_memory(ResolvedRun& run, const ResolveSite& site) {
  const StepSchedule& schedule = run.planned.schedule;
  const MemoryPlan& plan = run.planned.plan;
  const FitLimits limits = limits_of(run, site, schedule);
  if (limits.device > 0) require_fit(examine_fit(run.shape, schedule, plan, limits.device), limits.name);
  // Offloaded state, and on a GPU's machine all pinned memory, must fit next to that of the machine's other ranks.
  const bool has_more = copies_in_steps(schedule) || traits_of(schedule.model.device).has_own_memory;
  if (has_more && limits.machine > 0) require_machine_fit(schedule, plan, limits.machine, run.machine.machine_ranks);
}

}  // namespace tessera
