#pragma once
// The settings that options leave to the machine: nodes, threads, queues.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "tessera/backend/cores.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/engine/resources.hpp"

namespace tessera {

/// How a session runs on this machine: the settings that options leave to it.
struct MachineShape {
  int machine_ranks = 1;                ///< ranks on this machine (grid.ranks_per_node does not change that)
  int machine_cores = allowed_cores();  ///< cores that any of them may run on; each may be bound to some of these
  bool force_pairwise = false;          ///< messages even inside a node (tests, measurements)
  std::uint64_t chaos_seed = 1;
  bool poison = false;           ///< fill released storages with NaN (tests)
  std::int64_t timed_steps = 0;  ///< at least this many of the run's steps are timed, whatever metrics.time_every says
  std::string algorithms;  ///< GPU: RankCompute::gemm_algorithms() of the run's earlier part (rank 0), or a file's
  AlgorithmSource algorithm_source = AlgorithmSource::kept;
};

/// Returns the compute threads of a rank: run.threads, or the machine's cores / its ranks, limited to this rank's
/// cores; at least 1.
int threads_of(const Options& options, const MachineShape& machine);
/// Returns the threads that compete for this rank's cores: all of the machine's if they outnumber its cores, otherwise
/// only its own.
int threads_on_cores(int threads, const MachineShape& machine);
/// Resolves run.queues; auto means parallel if a core is left for communication or collectives are slowed on purpose.
QueueMode queue_mode_of(const Options& options, int threads, const MachineShape& machine);
/// Returns the options as a rank of this machine plays them: with both of these.
Options with_threads(Options options, const MachineShape& machine);

/// run.algorithms = auto: a run on a GPU times algorithms at its first start, and keeps them in a file of its own.
inline constexpr std::string_view kOwnAlgorithms = "auto";
/// Returns RUN/algorithms.txt.
std::filesystem::path own_algorithms_file(const Options& options);
/// Returns what run.algorithms_hash says of a file of algorithms.
std::string hash_of_algorithms(std::string_view text);

/// Returns the settings for playing a schedule on this machine, in addition to schedule and plan.
ResourceSettings resource_settings(const Options& options, const MachineShape& machine);

/// UsageError, the same on every rank, with the line in which a rank's options differ from rank 0's. Collective.
void require_equal_options(ControlPlane& control, const Options& options);

/// Returns the shape of this machine. Applies grid.ranks_per_node to `world` and checks the options against the world.
/// Throws UsageError when ranks were started with different options. Collective.
MachineShape resolve_grid(World& world, const Options& options);

/// Returns grid.ranks_per_node, or the largest divisor of `world` up to 8: ranks per node where only a world is known.
std::int64_t planned_ranks_per_node(const Options& options, std::int64_t world);

}  // namespace tessera
