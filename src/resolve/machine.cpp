#include "tessera/resolve/machine.hpp"

#include <xxhash.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tessera/base/refuse.hpp"
#include "tessera/config/validate.hpp"

namespace tessera {

int threads_of(const Options& options, const MachineShape& machine) {
  if (options.run.threads > 0) return static_cast<int>(options.run.threads);
  return std::max(1, std::min(allowed_cores(), machine.machine_cores / machine.machine_ranks));
}

int threads_on_cores(int threads, const MachineShape& machine) {
  const int all = threads * machine.machine_ranks;
  return all > machine.machine_cores ? all : threads;
}

QueueMode queue_mode_of(const Options& options, int threads, const MachineShape& machine) {
  if (options.run.queues != QueueMode::automatic) return options.run.queues;
  if (traits_of(device_of(options.run)).is_accelerator) return QueueMode::parallel;
  // Without a spare core overlap cannot win, but a slowed collective sleeps, so it does not need one.
  const bool spare = threads * machine.machine_ranks < machine.machine_cores;
  return spare || options.comm.emulate.on() || options.memory.emulate_copies.on() ? QueueMode::parallel
                                                                                  : QueueMode::serial;
}

Options with_threads(Options options, const MachineShape& machine) {
  const int threads = threads_of(options, machine);
  options.run.threads = threads;
  options.run.queues = queue_mode_of(options, threads, machine);
  return options;
}

std::filesystem::path own_algorithms_file(const Options& options) { return run_folder(options) / "algorithms.txt"; }

std::string hash_of_algorithms(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

ResourceSettings resource_settings(const Options& options, const MachineShape& machine) {
  ResourceSettings settings;
  settings.threads = threads_of(options, machine);
  settings.threads_on_cores = threads_on_cores(settings.threads, machine);
  settings.queue_mode = queue_mode_of(options, settings.threads, machine);
  settings.timeout_seconds = options.run.timeout;
  settings.comm = options.comm;
  settings.copies = options.memory.emulate_copies;
  settings.deterministic = is_deterministic(options.run);
  settings.attention = options.run.attention;
  settings.matmul = options.precision.matmul;
  settings.share_device = options.run.share_gpu;
  settings.force_pairwise = machine.force_pairwise;
  settings.algorithms = machine.algorithms;
  settings.algorithm_source = machine.algorithm_source;
  return settings;
}

namespace {

/// Returns the first line in which two texts differ: "here instead of there".
std::string first_difference(const std::string& here, const std::string& there) {
  std::istringstream ours(here), theirs(there);
  std::string our, their;
  while (our == their && std::getline(ours, our) && std::getline(theirs, their)) continue;
  return fmt::format("'{}' instead of '{}'", our, their);
}

}  // namespace

void require_equal_options(ControlPlane& control, const Options& options) {
  const std::vector<std::string> all = control.all_gather(write_ini(options));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw refusal("rank {} differs from rank 0 in its options: {}", rank, first_difference(all[rank], all[0]))
        .hint("Start all ranks with the same options");
  }
}

namespace {

/// Returns how many cores the ranks of this machine may use together, since each may be bound to its own. They share a
/// quota of time.
int cores_of_machine(World& world) {
  const std::vector<std::vector<int>> all = world.control().all_gather(allowed_core_numbers());
  std::set<int> cores;
  for (const std::int64_t rank : world.machine_members())
    cores.insert(all[static_cast<std::size_t>(rank)].begin(), all[static_cast<std::size_t>(rank)].end());
  const auto count = static_cast<double>(cores.size());
  return static_cast<int>(std::max(1.0, std::min(count, cpu_quota().value_or(count))));
}

}  // namespace

MachineShape resolve_grid(World& world, const Options& options) {
  require_equal_options(world.control(), options);  // they decide whether later calls are collective
  MachineShape machine;
  machine.machine_ranks = static_cast<int>(world.machine_members().size());
  machine.machine_cores = cores_of_machine(world);
  if (options.grid.ranks_per_node > 0) world.set_ranks_per_node(options.grid.ranks_per_node);
  validate_for_world(options, world.size(), world.ranks_per_node());
  return machine;
}

std::int64_t planned_ranks_per_node(const Options& options, std::int64_t world) {
  constexpr std::int64_t usual_node = 8;
  if (options.grid.ranks_per_node > 0) return options.grid.ranks_per_node;
  std::int64_t ranks = std::min(usual_node, world);
  while (world % ranks != 0) --ranks;
  return ranks;
}

}  // namespace tessera
