// Ranks that compute on cores.

#include <algorithm>

#include "engine/backends.hpp"
#include "engine/cpu/player.hpp"
#include "tessera/backend/cores.hpp"

namespace tessera {

namespace {

class CpuCompute final : public RankCompute {
 public:
  /// `host_queue`: the schedule has work for the host as well as the device's.
  CpuCompute(const ResourceSettings& settings, bool host_queue)
      : RankCompute(settings.threads, settings.threads_on_cores), kernels_(make_cpu_kernels(pool())) {
    kernels_of_.fill(kernels_.get());
    if (settings.queue_mode == QueueMode::serial) return;
    single_ = std::make_unique<ThreadPool>(1);
    communication_kernels_ = make_cpu_kernels(*single_);
    for (const Queue queue : {Queue::gather, Queue::reduce, Queue::replica})
      kernels_of(queue) = communication_kernels_.get();
    if (!host_queue) return;
    for (const Queue queue : {Queue::load, Queue::store}) kernels_of(queue) = communication_kernels_.get();
    host_pool_ = std::make_unique<ThreadPool>(settings.threads, settings.threads_on_cores);
    host_kernels_ = make_cpu_kernels(*host_pool_);
    kernels_of(Queue::host) = host_kernels_.get();
  }

  Kernels& kernels(Queue queue) const override { return *kernels_of_[static_cast<std::size_t>(queue)]; }
  void copy(Queue queue, Stream& stream, void* to, const void* from, std::int64_t bytes) const override {
    const DType word = bytes % size_of(DType::fp32) == 0 ? DType::fp32 : DType::byte;  // a cast to its own type copies
    kernels(queue).run(stream, Cast{{from, word}, {to, word}, bytes / size_of(word)});
  }
  Implementation description() const override { return kernels_->description(); }

 private:
  Kernels*& kernels_of(Queue queue) { return kernels_of_[static_cast<std::size_t>(queue)]; }

  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<ThreadPool> single_, host_pool_;
  std::unique_ptr<Kernels> communication_kernels_;  ///< of queues on other threads, one thread each
  std::unique_ptr<Kernels> host_kernels_;           ///< of the host's queue, with its own threads
  std::array<Kernels*, kQueues> kernels_of_{};
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
  CommunicatorOptions options{settings};
  options.threads_on_cores = std::max(settings.threads, settings.threads_on_cores);
  options.pool = settings.queue_mode == QueueMode::serial ? &all.compute->pool() : nullptr;
  const auto planned = with_workspace(schedule);
  std::int64_t staging = 0;
  for (const QueueGroup& key : wanted_communicators(schedule)) {
    options.external_workspace = planned.contains(key);
    communicators->add(
        key, make_communicator(all.context, all.grid, key.second, reached, std::string(name_of(key.first)), options));
    staging += staging_bytes(all.grid, key.second, options);
  }
  if (staging > 0) all.unplanned.push_back({staging, "for messages between nodes"});
  return communicators;
}

class CpuBackend final : public Backend {
 public:
  std::unique_ptr<Device> open_device(RankContext&, bool) const override { return make_cpu_device(); }

  std::unique_ptr<RankCompute> make_compute(Device&, const ResourceSettings& settings, std::byte*, const ModelParts*,
                                            RankContext*) const override {
    return std::make_unique<CpuCompute>(settings, false);
  }

  void open(Resources& all, const StepSchedule& schedule, const MemoryPlan& plan) const override {
    all.compute = std::make_unique<CpuCompute>(all.settings, copies_in_steps(schedule));
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
};

}  // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace tessera
