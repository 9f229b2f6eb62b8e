// Ranks that compute on cores.

#include <algorithm>

#include "engine/backends.hpp"
#include "engine/cpu/player.hpp"
#include "tessera/backend/cores.hpp"
#include "tessera/comm/emulated.hpp"
#include "tessera/telemetry/process_memory.hpp"

namespace tessera {

namespace {

class CpuCompute final : public RankCompute {
 public:
  explicit CpuCompute(const ResourceSettings& settings)
      : RankCompute(settings.threads, settings.threads_on_cores), kernels_(make_cpu_kernels(pool())) {
    if (settings.queue_mode == QueueMode::serial) return;
    single_ = std::make_unique<ThreadPool>(1);
    communication_kernels_ = make_cpu_kernels(*single_);
  }

  Kernels& kernels(Queue queue) const override {
    const bool on_caller = queue == Queue::compute || queue == Queue::store;
    return on_caller || communication_kernels_ == nullptr ? *kernels_ : *communication_kernels_;
  }
  /// Stores by all threads.
  void store(Stream& stream, float* to, const float* from, std::int64_t elements) const override {
    kernels_->cast(stream, from, DType::fp32, to, DType::fp32, elements);
  }
  std::int64_t measured_bytes(std::span<const std::byte> memory, std::int64_t) const override {
    return tessera::measured_bytes(memory);
  }
  std::string description() const override { return kernels_->description(); }

 private:
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<ThreadPool> single_;
  std::unique_ptr<Kernels> communication_kernels_;  ///< of queues on other threads
};

/// Queues and groups whose sums have workspace in the plan (all that need some; not messages that a test forces).
std::set<QueueGroup> with_workspace(const StepSchedule& schedule) {
  std::set<QueueGroup> found;
  for (const Operation& op : schedule.operations) {
    if (schedule.communicates(op) && scratch_of(schedule, op)) found.insert({op.queue, op.group});
  }
  return found;
}

std::unique_ptr<Communicators> open_communicators(Resources& all, const StepSchedule& schedule, std::int64_t shared) {
  const ResourceSettings& settings = all.settings;
  auto region = std::make_unique<SharedRegion>(all.context, shared);
  const SharedRegion& reached = *region;
  auto communicators = std::make_unique<Communicators>(std::move(region));
  CommunicatorOptions options;
  options.timeout_seconds = settings.timeout_seconds;
  options.force_pairwise = settings.force_pairwise;
  options.threads_on_cores = std::max(settings.threads, settings.threads_on_cores);
  options.pool = settings.queue_mode == QueueMode::serial ? &all.compute->pool() : nullptr;
  const Emulation& emulate = settings.comm.emulate;
  const auto planned = with_workspace(schedule);
  std::int64_t staging = 0;
  for (const QueueGroup& key : wanted_communicators(schedule)) {
    options.external_workspace = planned.contains(key);
    auto communicator =
        make_communicator(all.context, all.grid, key.second, reached, std::string(name_of(key.first)), options);
    staging += staging_bytes(all.grid, key.second, options);
    if (emulate.on()) {
      const double bandwidth = emulate.bandwidth > 0 ? emulate.bandwidth : 1e18;
      communicator = make_emulated(std::move(communicator), emulate.latency, bandwidth);
    }
    communicators->add(key, std::move(communicator));
  }
  if (staging > 0) all.unplanned.push_back({staging, "for messages between nodes"});
  return communicators;
}

class CpuBackend final : public Backend {
 public:
  std::unique_ptr<Device> open_device(RankContext&, bool) const override { return make_cpu_device(); }

  std::unique_ptr<RankCompute> make_compute(Device&, const ResourceSettings& settings, std::byte*, const ModelParts*,
                                            RankContext*) const override {
    return std::make_unique<CpuCompute>(settings);
  }

  void open(Resources& all, const StepSchedule& schedule, const MemoryPlan& plan) const override {
    all.compute = std::make_unique<CpuCompute>(all.settings);
    all.description = all.compute->description();
    require_same_kernels(all);
    all.communicators = open_communicators(all, schedule, plan.region(MemorySpace::device, RegionKind::shared).bytes);
  }

  std::unique_ptr<Player> make_player(const StepSchedule& schedule, Resources& resources, Optimizer& optimizer,
                                      const PlayerSettings& settings) const override {
    return std::make_unique<CpuPlayer>(schedule, resources, optimizer, settings);
  }

  UsableMemory usable_memory(RankContext&, const Options&, const StepSchedule&, int machine_ranks) const override {
    return {tessera::usable_memory() / machine_ranks, " of usable memory for each rank of a machine"};
  }
  std::int64_t used_memory(RankContext&, bool) const override { return proportional_set_size(); }

  std::int64_t steps_between_timed() const override { return 1; }
  bool overlaps_freely() const override { return false; }
};

}  // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace tessera
