#pragma once
// Everything that playing a schedule on one rank needs, each owned once: the device, memory regions, communicators,
// kernels, threads.

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/backend/device.hpp"
#include "tessera/backend/thread_pool.hpp"
#include "tessera/comm/device_communicators.hpp"
#include "tessera/comm/make_communicator.hpp"
#include "tessera/config/options.hpp"
#include "tessera/kernels/kernels.hpp"
#include "tessera/kernels/product_choices.hpp"
#include "tessera/schedule/memory_plan.hpp"

namespace tessera {

/// By kind of collective, in the order of the enumeration.
using CommunicationCounts = std::array<CommunicationCount, kCollectives>;

/// Bytes that a rank takes beside its plan. NCCL's own buffers are not in it.
struct MemoryBeside {
  std::int64_t host_staging = 0;    ///< of messages that a test forces within a node
  std::int64_t device_staging = 0;  ///< of NCCL's barriers and first calls: a few hundred bytes for every peer
};

struct ResourceSettings {
  int threads = 1;           ///< compute threads of this rank
  int threads_on_cores = 0;  ///< compute threads that compete for its cores, those of other ranks too (0 = its own)
  LaneMode lanes = LaneMode::serial;
  double timeout_seconds = 300;                            ///< how long a collective waits for its peers; 0 = for ever
  CommOptions comm;                                        ///< how GPUs talk; how slow collectives are on purpose
  bool deterministic = true;                               ///< sums of collectives in one fixed order
  bool force_pairwise = false;                             ///< messages even inside a node (tests, measurements)
  AttentionChoice attention = AttentionChoice::automatic;  ///< on a GPU
  bool share_device = false;                               ///< several ranks may compute on one GPU
  std::string kept_products;  ///< rank 0, GPU: kept_products() of an earlier part of the run
  bool measure = false;       ///< a GPU's memory is filled with a pattern first, to be read back (resident.hpp)
};

/// Bytes of a GPU with `total` that a rank's plan must leave free: for what cuBLASLt, cuDNN and graphs take, and NCCL
/// for each communicator. An estimate, for none of them tells beforehand; at most a quarter of the GPU.
std::int64_t kept_free_bytes(const StepSchedule& schedule, CommBackend backend, std::int64_t total);

/// Memory of this rank as the plan says, and what computes and communicates on it.
class Resources {
 public:
  /// Collective over the world. IoError when the memory cannot be had; UsageError where ranks have other kinds of GPU,
  /// or other libraries, than rank 0.
  Resources(RankContext& context, const StepSchedule& schedule, const MemoryPlan& plan,
            const ResourceSettings& settings);

  RankContext& context() const { return context_; }
  const ResourceSettings& settings() const { return settings_; }

  Device& device() const { return *device_; }
  /// What computes and how it talks, for the log.
  std::string description() const;

  /// Where a storage lies on this rank: an address of its place. What lies on the device the host reaches by upload and
  /// download only, unless host_reaches_memory().
  std::byte* address(StorageId storage) const { return address_[static_cast<std::size_t>(storage)]; }
  /// Copies host memory to the device, or device memory to the host, and returns when it is done; while nothing is
  /// played. Both ends are contiguous; any host memory, any thread.
  void upload(void* device, const void* host, std::int64_t bytes) const;
  void download(void* host, const void* device, std::int64_t bytes) const;
  /// Whether the host may read and write the device's memory by address (a CPU).
  bool host_reaches_memory() const { return device_->kind() == DeviceKind::cpu; }

  /// This rank's place in a group.
  std::int64_t index_in(Group group) const;
  /// The communicator of a lane over a group of more than one rank.
  Communicator& communicator(Lane lane, Group group) const;
  /// On a GPU: runs every collective once on `stream`, as a capture wants it. Collective over the world.
  void warm_up(Stream& stream);
  /// Why segments cannot be captured as graphs, for the log; empty where they can.
  std::string obstacle_to_graphs() const;
  /// Whether a GPU's collectives can be part of a graph; staged ones are the host's work.
  bool captures_collectives() const;
  /// On a GPU: what `stream` was given so far, a graph with collectives, is held to the time-out.
  void follow(Stream& stream, const std::string& what) const;
  /// Throws what failed in collectives of a GPU, after it was waited for.
  void check() const;
  /// Kernels that may be called from the thread that plays a lane.
  Kernels& kernels(Lane lane) const;
  /// All compute threads; not while a schedule is played.
  ThreadPool& pool() { return *pool_; }

  /// Whether what is touched of the device's regions can be read back: they hold fill_pattern's, but for state at rest,
  /// which is zero.
  bool measures() const { return settings_.measure && !host_reaches_memory(); }
  /// How much more of a GPU is in use than when it was opened: the plan's regions and what libraries and others that
  /// use the GPU took. -1 on a CPU.
  std::int64_t device_memory_taken() const;
  /// The planned memory (tests read touched extents from it).
  std::span<std::byte> bytes(RegionKind region, Place place = Place::device) const;
  MemoryBeside memory_beside() const { return beside_; }
  /// Which algorithms a GPU's matrix products run with so far, as text, for the same run's next part (settings); empty
  /// on a CPU.
  std::string kept_products() const;
  /// What this rank has sent so far, by kind of collective.
  CommunicationCount count(Collective collective) const;
  CommunicationCounts counts() const;
  /// How long collectives took between two counts; NaN over NCCL, whose calls return before their work ends.
  double seconds_between(const CommunicationCount& before, const CommunicationCount& after) const;
  /// What a captured graph sends once more: communicators count what goes through their hands.
  void count_replay(const CommunicationCounts& sent);

 private:
  void allocate(const StepSchedule& schedule, const MemoryPlan& plan);
  std::string product_header() const;
  void take_kept_products();
  void fill_at_rest(const StepSchedule& schedule);
  void make_kernels(const StepSchedule& schedule, const MemoryPlan& plan);
  void compare_libraries(const StepSchedule& schedule);
  void open_host_communicators(const StepSchedule& schedule);
  void open_device_communicators(const StepSchedule& schedule);

  RankContext& context_;
  ResourceSettings settings_;
  ProcessGrid grid_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<SharedRegion> host_staging_;          ///< of staged collectives: peers read it
  std::unique_ptr<DeviceCommunication> communication_;  ///< of a GPU among others
  std::unique_ptr<DeviceMemory> at_rest_, private_;
  std::unique_ptr<DeviceMemory> host_at_rest_, host_private_;  ///< pinned
  std::unique_ptr<SharedRegion> host_shared_;                  ///< a CPU's shared region: peers read it
  std::unique_ptr<DeviceMemory> device_shared_;                ///< a GPU's
  std::vector<std::byte*> address_;
  std::unique_ptr<ThreadPool> pool_, single_;  ///< single_: for lanes beside compute
  ProductChoices product_choices_;
  std::string product_remark_;  ///< why the kept choices were not taken
  std::unique_ptr<Kernels> kernels_, lane_kernels_;
  std::map<std::pair<Lane, Group>, std::unique_ptr<Communicator>> communicators_;
  CommunicationCounts replayed_{};
  MemoryBeside beside_;
  std::int64_t free_at_start_ = 0;  ///< device memory, before any was allocated here
};

}  // namespace tessera
