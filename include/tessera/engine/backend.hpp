#pragma once
// Everything that differs between ranks that compute on cores and ranks that compute on GPUs: one factory for each.

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/engine/player.hpp"
#include "tessera/engine/resources.hpp"
#include "tessera/optimizer/optimizer.hpp"

namespace tessera {

/// The memory that a rank's plan may take.
struct UsableMemory {
  std::int64_t bytes = 0;  ///< 0 or less: the system does not tell
  std::string of;          ///< for messages, after a number of bytes: " of usable memory for each rank of a machine"
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// Opens this rank's device. On a machine with at least as many GPUs as ranks, the machine's rank i takes GPU i. If a
  /// process sees only one GPU, it takes that one. Throws UsageError when two ranks of a machine come to the same GPU
  /// and `share` does not allow it. Collective over the world.
  virtual std::unique_ptr<Device> open_device(RankContext& context, bool share) const = 0;

  /// Makes threads and kernels. `workspace`: KernelNeeds::workspace() bytes of the device. `model`: whose attention the
  /// kernels are chosen for; null: at each call. `peers`: who agrees on the GPUs' algorithms; null: a rank alone.
  virtual std::unique_ptr<RankCompute> make_compute(Device& device, const ResourceSettings& settings,
                                                    std::byte* workspace, const ModelParts* model,
                                                    RankContext* peers) const = 0;

  /// Opens what `resources` still lacks: compute and communicators. Collective over the world. Throws UsageError if
  /// ranks have other libraries than rank 0.
  virtual void open(Resources& resources, const StepSchedule& schedule, const MemoryPlan& plan) const = 0;

  /// Binds every operation to addresses and communicators. All references must outlive the player.
  virtual std::unique_ptr<Player> make_player(const StepSchedule& schedule, Resources& resources, Optimizer& optimizer,
                                              const PlayerSettings& settings = {}) const = 0;

  /// Returns the device memory that a rank's plan may take, before any of it is taken. Collective over the world.
  /// Throws UsageError if the ranks cannot open their devices, or communicators between them.
  virtual UsableMemory usable_memory(RankContext& context, const Options& options, const StepSchedule& schedule,
                                     int machine_ranks) const = 0;
};

const Backend& backend_of(DeviceKind kind);
/// Returns the backend of run.device, which is cpu or cuda here.
const Backend& backend_of(const Options& options);

}  // namespace tessera
