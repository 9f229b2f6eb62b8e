#pragma once
// Everything that playing a schedule on one rank needs, each owned once. A backend opens it (backend.hpp).

#include <memory>
#include <string>
#include <vector>

#include "tessera/backend/device.hpp"
#include "tessera/engine/communicators.hpp"
#include "tessera/engine/compute.hpp"
#include "tessera/engine/memory.hpp"
#include "tessera/kernels/gemm_algorithms.hpp"

namespace tessera {

struct ResourceSettings : CommSettings {
  int threads = 1;           ///< compute threads of this rank
  int threads_on_cores = 0;  ///< compute threads that compete for its cores, also those of other ranks (0 = its own)
  QueueMode queue_mode = QueueMode::serial;
  Emulation copies;                                        ///< how slow copies of offloaded state are on purpose
  AttentionChoice attention = AttentionChoice::automatic;  ///< on a GPU
  MatmulPrecision matmul = MatmulPrecision::fp32;          ///< of fp32 matmuls on a GPU
  bool share_device = false;                               ///< several ranks may compute on one GPU
  std::string algorithms;  ///< GPU: RankCompute::gemm_algorithms() of the run's earlier part, or of a file
  AlgorithmSource algorithm_source = AlgorithmSource::kept;
};

/// Memory that a rank takes or keeps free outside its plan. NCCL's own buffers are not in it.
struct UnplannedMemory {
  std::int64_t bytes = 0;
  std::string use;  ///< for the log: "pinned on the host for collectives"
};

class Backend;

/// The planned memory of this rank, and the objects that compute and communicate on it.
struct Resources {
  /// Throws IoError or UsageError if the memory is not available. Throws UsageError if ranks have other kinds of GPU,
  /// or other libraries, than rank 0. Collective over the world.
  Resources(const Backend& backend, RankContext& context, const StepSchedule& schedule, const MemoryPlan& plan,
            const ResourceSettings& settings);

  /// Takes parts that are already there. A schedule that is only looked at has addresses without memory, and no device,
  /// nor anything that computes or communicates.
  Resources(RankContext& context, const ProcessGrid& grid, std::unique_ptr<Device> device,
            std::unique_ptr<RankMemory> memory, std::unique_ptr<RankCompute> compute,
            std::unique_ptr<Communicators> communicators);

  /// This rank's place in a group.
  std::int64_t index_in(Group group) const;
  std::byte* address(StorageId storage) const { return memory->address(storage); }

  RankContext& context;
  ResourceSettings settings;
  ProcessGrid grid;
  std::unique_ptr<Device> device;
  std::unique_ptr<RankMemory> memory;
  std::unique_ptr<RankCompute> compute;
  std::unique_ptr<Communicators> communicators;
  Implementation description;              ///< what computes and how it talks
  std::vector<UnplannedMemory> unplanned;  ///< uses of more than 0 bytes
  bool has_left_updates = false;           ///< state is not to be read before Player::finish_step
};

}  // namespace tessera
