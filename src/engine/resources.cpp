#include "tessera/engine/resources.hpp"

#include <algorithm>
#include <set>

#include "tessera/comm/decorators.hpp"

namespace tessera {

namespace {

RankGroup rank_group(Group group) {
  switch (group) {
    case Group::self:
      return RankGroup::self;
    case Group::world:
      return RankGroup::world;
    case Group::shard:
      return RankGroup::shard;
    case Group::replica:
      return RankGroup::replica;
  }
  throw InternalError("no ranks for group {}", static_cast<int>(group));
}

std::int64_t region_bytes(const MemoryPlan& plan, RegionKind region) {
  return plan.regions[static_cast<std::size_t>(region)].bytes;
}

std::span<std::byte> bytes_of(const DeviceMemory& memory) {
  return {memory.data(), static_cast<std::size_t>(memory.size())};
}

}  // namespace

Resources::Resources(RankContext& context, const StepSchedule& schedule, const MemoryPlan& plan,
                     const ResourceSettings& settings)
    : context_(context),
      settings_(settings),
      grid_(schedule.grid.world, context.ranks_per_node(), schedule.grid.shard),
      device_(make_cpu_device()),
      at_rest_(device_->allocate(MemoryKind::device, region_bytes(plan, RegionKind::at_rest))),
      private_(device_->allocate(MemoryKind::device, region_bytes(plan, RegionKind::private_))) {
  TESSERA_ASSERT(schedule.grid.world == context.size(), "the schedule is for {} ranks, the world has {}",
                 schedule.grid.world, context.size());
  shared_ = std::make_unique<SharedRegion>(context, region_bytes(plan, RegionKind::shared));
  for (StorageId id = 0; id < static_cast<StorageId>(schedule.storages.size()); ++id) {
    address_.push_back(bytes(schedule.storage(id).region).data() + plan.offset[static_cast<std::size_t>(id)]);
  }
  pool_ = std::make_unique<ThreadPool>(settings.threads, settings.threads_on_cores);
  kernels_ = make_cpu_kernels(*pool_);
  if (settings.lanes != LaneMode::serial) {
    single_ = std::make_unique<ThreadPool>(1);
    lane_kernels_ = make_cpu_kernels(*single_);
  }
  open_communicators(schedule);
}

void Resources::open_communicators(const StepSchedule& schedule) {
  std::set<std::pair<Lane, Group>> wanted;  // ordered, hence opened in the same order on all ranks
  for (const Operation& op : schedule.operations) {
    if (schedule.communicates(op)) wanted.insert({op.lane, op.group});
  }
  CommunicatorOptions options;
  options.timeout_seconds = settings_.timeout_seconds;
  options.force_pairwise = settings_.force_pairwise;
  options.threads_on_cores = std::max(settings_.threads, settings_.threads_on_cores);
  options.pool = settings_.lanes == LaneMode::serial ? pool_.get() : nullptr;
  for (const auto& [lane, group] : wanted) {
    auto communicator =
        make_communicator(context_, grid_, rank_group(group), *shared_, std::string(name_of(lane)), options);
    staging_bytes_ += tessera::staging_bytes(grid_, rank_group(group), options);
    if (settings_.emulate.on()) {
      const double bandwidth = settings_.emulate.bandwidth > 0 ? settings_.emulate.bandwidth : 1e18;
      communicator = make_emulated(std::move(communicator), settings_.emulate.latency, bandwidth);
    }
    communicators_[{lane, group}] = std::move(communicator);
  }
}

void Resources::upload(void* device, const void* host, std::int64_t bytes) const { device_->copy(device, host, bytes); }

void Resources::download(void* host, const void* device, std::int64_t bytes) const {
  device_->copy(host, device, bytes);
}

std::int64_t Resources::index_in(Group group) const {
  switch (group) {
    case Group::self:
      return 0;
    case Group::world:
      return context_.rank();
    case Group::shard:
      return grid_.shard_index(context_.rank());
    case Group::replica:
      return grid_.replica_index(context_.rank());
  }
  return 0;
}

Communicator& Resources::communicator(Lane lane, Group group) const {
  const auto it = communicators_.find({lane, group});
  TESSERA_ASSERT(it != communicators_.end(), "no communicator for lane {} over group {}", name_of(lane),
                 name_of(group));
  return *it->second;
}

Kernels& Resources::kernels(Lane lane) const {
  return lane == Lane::compute || lane_kernels_ == nullptr ? *kernels_ : *lane_kernels_;
}

std::span<std::byte> Resources::bytes(RegionKind region) const {
  switch (region) {
    case RegionKind::at_rest:
      return bytes_of(*at_rest_);
    case RegionKind::private_:
      return bytes_of(*private_);
    case RegionKind::shared:
      return {shared_->data(), static_cast<std::size_t>(shared_->size())};
  }
  return {};
}

CommunicationCount Resources::count(Collective collective) const {
  CommunicationCount sum;
  for (const auto& [key, communicator] : communicators_) {
    const CommunicationCount one = communicator->count(collective);
    sum.calls += one.calls;
    sum.bytes += one.bytes;
    sum.nanoseconds += one.nanoseconds;
  }
  return sum;
}

}  // namespace tessera
