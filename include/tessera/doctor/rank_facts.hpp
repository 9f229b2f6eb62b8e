#pragma once
// The facts that a rank knows about its launcher, its machine and its run folder.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/backend/device.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/resolve/machine.hpp"

namespace tessera {

/// A GPU as its rank and its driver see it.
struct GpuState {
  std::string identity, name;        ///< empty identity: the rank computes on cores
  int visible = 0;                   ///< the GPUs of the machine that the rank sees
  std::vector<int> cores;            ///< of the socket that it hangs on; empty where the system does not tell
  double clock = 0, full_clock = 0;  ///< Hz; 0 where the driver does not tell
  std::string slowed;                ///< why its clock is held down: "its temperature"; empty if it is not
};

/// The place of the run folder as a machine sees it.
struct PlaceFacts {
  std::string path;                         ///< the folder, or the nearest above it that exists
  std::string file_system;                  ///< "ext4", "Lustre"
  bool is_shared = false;                   ///< other machines can see it, too
  std::int64_t free_bytes = 0, inodes = 0;  ///< left; -1 where the file system has no count
  bool has_locks = true, renames = true;
  bool sees_mark = true;   ///< sees what rank 0 writes there
  std::string error = {};  ///< why nothing can be written; empty if it can
};

struct RankFacts {
  std::string host;
  std::string launcher;     ///< as Launch has it; empty without one
  std::string scheduler;    ///< "Slurm job 12"; empty outside of jobs
  std::int64_t nodes = 0;   ///< that the scheduler gave to the job; 0: not known
  bool fence_waits = true;  ///< Slurm's PMIx does not let a rank pass MPI's start before all have come
  std::string mpi;
  bool copies_memory = true;  ///< this process may read a peer's memory, or MPI was told not to
  std::vector<int> cores;
  double quota = 0;  ///< of time, in cores; 0: unlimited
  int machine_cores = 1, threads = 1;
  std::int64_t memory = 0;          ///< that the machine's ranks may still take, bytes
  std::int64_t lockable = -1;       ///< -1: unlimited
  std::int64_t shared_memory = 0;   ///< left in /dev/shm, bytes
  std::vector<std::string> fabric;  ///< active InfiniBand or RoCE ports: "mlx5_0"
  std::string network;              ///< what NCCL is told to use, or its plugin; empty: it chooses
  double time = 0;                  ///< seconds since 1970, just after all ranks met
  GpuState gpu;
  bool shares_gpu = false;  ///< run.share_gpu
  PlaceFacts place;
};

/// Writes and reads the facts as JSON.
std::string facts_text(const RankFacts& facts);
RankFacts facts_of(const std::string& text);

/// Returns the names of ports below `root`/sys/class/infiniband that are active.
std::vector<std::string> active_fabric(const std::filesystem::path& root = "/");

/// Returns what this machine sees of the folder in which `run` is or would be. `tries`: writes files there, which it
/// removes.
PlaceFacts place_facts(const std::filesystem::path& run, bool tries);

/// Returns the facts of this rank. `device` may be null; `tries` as above. Collective.
RankFacts own_facts(World& world, const Options& options, const MachineShape& machine, const Device* device,
                    bool tries);

}  // namespace tessera
