#include "tessera/training/near_decision.hpp"

#include <filesystem>

#include "tessera/backend/cores.hpp"
#include "tessera/base/format.hpp"
#include "tessera/checkpoint/near.hpp"
#include "training/checkpoint_slices.hpp"

namespace tessera {

std::string lack_of_memory(std::int64_t near, std::int64_t plans, std::int64_t usable, std::int64_t space) {
  if (space < near)
    return fmt::format("{} has {} free, and two checkpoints take {}", kMemoryFolder, format_bytes(space),
                       format_bytes(near));
  if (near + plans <= usable) return {};
  return fmt::format("two checkpoints take {} and the plan {}, but only {} may be taken", format_bytes(near),
                     format_bytes(plans), format_bytes(usable));
}

std::string decide_near(World& world, Options& options, const PlannedRun& planned) {
  const std::filesystem::path folder = near_folder(options.checkpoint.keep_near, run_folder(options) / "checkpoints");
  if (folder.empty()) return {};
  const StepSchedule& schedule = planned.schedule;
  const auto ranks = std::ssize(world.machine_members());
  const std::int64_t bytes = most_bytes_near(state_records(schedule), ranks, world.size());
  std::string lack;
  if (options.checkpoint.keep_near == "auto") {
    std::int64_t plan = planned.plan.at(MemorySpace::host).total();
    if (!traits_of(schedule.model.device).has_own_memory) plan += planned.plan.at(MemorySpace::device).total();
    std::error_code error;
    // One of the two may be there from the start before. Control groups do not count an earlier job's files.
    const std::int64_t held = std::filesystem::exists(folder, error) ? bytes / 2 : 0;
    const std::int64_t system = usable_memory("/proc", ""), usable = usable_memory();
    const auto space = std::filesystem::space(kMemoryFolder, error);
    lack = lack_of_memory(bytes, ranks * plan, usable < system ? usable : usable + held,
                          error ? 0 : static_cast<std::int64_t>(space.available) + held);
  }
  for (const std::string& one : world.control().all_gather(lack.empty() ? lack : world.host() + ": " + lack)) {
    if (one.empty()) continue;
    options.checkpoint.keep_near = "none";
    return "near       no copies of checkpoints: " + one;
  }
  return fmt::format("near       {}: {} per node, for two checkpoints", folder.string(), format_bytes(bytes));
}

}  // namespace tessera
