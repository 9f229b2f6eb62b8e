#include "tessera/engine/resources.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "tessera/comm/decorators.hpp"
#include "tessera/engine/device_choice.hpp"
#include "tessera/engine/require_equal.hpp"
#include "tessera/kernels/cuda_kernels.hpp"
#include "tessera/schedule/collective_sizes.hpp"

namespace tessera {

namespace {

std::span<std::byte> bytes_of(const DeviceMemory& memory) {
  return {memory.data(), static_cast<std::size_t>(memory.size())};
}

/// Lanes and groups that have collectives; ordered, hence opened in the same order on all ranks.
std::set<std::pair<Lane, Group>> wanted_communicators(const StepSchedule& schedule) {
  std::set<std::pair<Lane, Group>> wanted;
  for (const Operation& op : schedule.operations) {
    if (schedule.communicates(op)) wanted.insert({op.lane, op.group});
  }
  return wanted;
}

/// Those of them whose sums have scratch in the plan (all that need some; not messages that a test forces).
std::set<std::pair<Lane, Group>> lent_communicators(const StepSchedule& schedule) {
  std::set<std::pair<Lane, Group>> lent;
  for (const Operation& op : schedule.operations) {
    if (schedule.communicates(op) && scratch_of(schedule, op) >= 0) lent.insert({op.lane, op.group});
  }
  return lent;
}

}  // namespace

std::int64_t kept_free_bytes(const StepSchedule& schedule, CommBackend backend, std::int64_t total) {
  constexpr std::int64_t kLibraries = std::int64_t{1} << 30, kCommunicator = std::int64_t{1} << 30;
  if (schedule.model.device == DeviceKind::cpu) return 0;
  const auto opened = static_cast<std::int64_t>(wanted_communicators(schedule).size());
  return std::min(total / 4, kLibraries + (backend == CommBackend::staged ? 0 : opened * kCommunicator));
}

Resources::Resources(RankContext& context, const StepSchedule& schedule, const MemoryPlan& plan,
                     const ResourceSettings& settings)
    : context_(context),
      settings_(settings),
      grid_(schedule.grid.world(), context.ranks_per_node(), schedule.grid.size(Group::shard)),
      device_(open_device(context, schedule.model.device, settings.share_device)) {
  TESSERA_ASSERT(schedule.grid.world() == context.size(), "the schedule is for {} ranks, the world has {}",
                 schedule.grid.world(), context.size());
  if (!host_reaches_memory()) free_at_start_ = device_->free_memory();
  pool_ = std::make_unique<ThreadPool>(settings.threads, settings.threads_on_cores);
  at_rest_ = device_->allocate(MemoryKind::device, plan.region(Place::device, RegionKind::at_rest).bytes);
  make_kernels(schedule, plan);
  compare_libraries(schedule);
  allocate(schedule, plan);
  if (host_reaches_memory()) {
    open_host_communicators(schedule);
  } else if (communication_ != nullptr) {
    open_device_communicators(schedule);
  }
}

/// Another version may sum in another order, or not talk to ours at all: found before NCCL waits.
void Resources::compare_libraries(const StepSchedule& schedule) {
  require_equal(context_, kernels_->description(), "the same instruction set and library for products on all ranks");
  if (host_reaches_memory() || settings_.comm.backend == CommBackend::staged || wanted_communicators(schedule).empty())
    return;
  require_equal(context_, "NCCL " + nccl_version(), "one version for all ranks");
}

std::int64_t Resources::device_memory_taken() const {
  return host_reaches_memory() ? -1 : free_at_start_ - device_->free_memory();
}

void Resources::allocate(const StepSchedule& schedule, const MemoryPlan& plan) {
  const auto take = [&](MemoryKind kind, Place place, RegionKind region) {
    return device_->allocate(kind, plan.region(place, region).bytes);
  };
  const std::int64_t shared = plan.region(Place::device, RegionKind::shared).bytes;
  private_ = take(MemoryKind::device, Place::device, RegionKind::private_);
  host_at_rest_ = take(MemoryKind::pinned, Place::host, RegionKind::at_rest);
  host_private_ = take(MemoryKind::pinned, Place::host, RegionKind::private_);
  if (host_reaches_memory()) {
    host_shared_ = std::make_unique<SharedRegion>(context_, shared);
  } else if (wanted_communicators(schedule).empty()) {
    device_shared_ = device_->allocate(MemoryKind::device, shared);
  } else {
    const LargestBuffers largest = largest_buffers(schedule);
    DeviceCommunicationSettings settings;
    settings.comm = settings_.comm;
    settings.deterministic = settings_.deterministic;
    settings.timeout_seconds = settings_.timeout_seconds;
    settings.force_pairwise = settings_.force_pairwise;
    settings.largest_whole = largest.whole;
    settings.largest_result = largest.result;
    settings.lent = true;
    if (schedule.staging >= 0) {
      host_staging_ = std::make_unique<SharedRegion>(context_, plan.region(Place::host, RegionKind::shared).bytes);
      settings.staging = host_staging_.get();
    }
    if (schedule.messages >= 0) {
      const auto offset = static_cast<std::size_t>(plan.offset[static_cast<std::size_t>(schedule.messages)]);
      settings.messages =
          bytes_of(*host_at_rest_).subspan(offset, static_cast<std::size_t>(schedule.storage(schedule.messages).bytes));
    }
    communication_ = make_device_communication(context_, *device_, settings);
    device_shared_ = communication_->allocate_shared(shared);
  }
  for (StorageId id = 0; id < static_cast<StorageId>(schedule.storages.size()); ++id) {
    const Storage& storage = schedule.storage(id);
    address_.push_back(bytes(storage.region, storage.place).data() + plan.offset[static_cast<std::size_t>(id)]);
  }
  if (measures()) fill_at_rest(schedule);
}

/// Regions that hold nothing yet are the player's to fill, once collectives have been tried on them.
void Resources::fill_at_rest(const StepSchedule& schedule) {
  const auto stream = device_->make_stream("fill");
  device_->fill_pattern(*stream, bytes(RegionKind::at_rest));
  for (StorageId id = 0; id < static_cast<StorageId>(schedule.storages.size()); ++id) {
    const Storage& storage = schedule.storage(id);
    const bool state = storage.place == Place::device && storage.region == RegionKind::at_rest && storage.carried;
    if (state) kernels_->fill_zero(*stream, address(id), storage.bytes);
  }
  stream->synchronize();
}

void Resources::make_kernels(const StepSchedule& schedule, const MemoryPlan& plan) {
  if (!host_reaches_memory()) {
    const ModelParts& model = schedule.model;
    const Architecture& a = model.architecture;
    CudaKernelSettings settings;
    settings.attention = settings_.attention, settings.deterministic = settings_.deterministic;
    settings.shape = {model.batch, model.sequence, a.heads, a.kv_heads, a.head_width()};
    settings.dtype = model.compute, settings.dropout = a.dropout > 0;
    require_cuda_attention(settings.shape, settings.dtype);
    settings.products.choices = &product_choices_;
    settings.products.chooses = context_.rank() == 0;
    settings.products.times = !settings_.deterministic;
    if (context_.size() > 1)
      settings.products.agree = [this](std::span<std::byte> choice) { context_.control().broadcast(choice, 0); };
    kernels_ = make_cuda_kernels(at_rest_->data() + plan.offset[static_cast<std::size_t>(schedule.kernel_workspace)],
                                 settings);
    take_kept_products();
    return;
  }
  kernels_ = make_cpu_kernels(*pool_);
  if (settings_.lanes == LaneMode::serial) return;
  single_ = std::make_unique<ThreadPool>(1);
  lane_kernels_ = make_cpu_kernels(*single_);
}

/// Algorithms mean something only to the same library on the same kind of GPU.
std::string Resources::product_header() const {
  return fmt::format("{}, {}", device_->model(), kernels_->description());
}

std::string Resources::kept_products() const {
  return host_reaches_memory() ? std::string() : product_header() + "\n" + product_choices_.text();
}

/// What cannot be used is chosen anew, and said.
void Resources::take_kept_products() {
  const std::string& kept = settings_.kept_products;
  if (kept.empty()) return;
  const std::string header = kept.substr(0, kept.find('\n'));
  if (header != product_header()) {
    product_remark_ = fmt::format("algorithms of products chosen anew (those kept are for {})", header);
    return;
  }
  try {
    product_choices_ = ProductChoices::parse(kept.substr(header.size() + 1));
    product_remark_ = fmt::format("{} algorithms of products as kept", product_choices_.size());
  } catch (const IoError& error) {
    product_remark_ = fmt::format("algorithms of products chosen anew ({})", error.what());
  }
}

void Resources::open_host_communicators(const StepSchedule& schedule) {
  CommunicatorOptions options;
  options.timeout_seconds = settings_.timeout_seconds;
  options.force_pairwise = settings_.force_pairwise;
  options.threads_on_cores = std::max(settings_.threads, settings_.threads_on_cores);
  options.pool = settings_.lanes == LaneMode::serial ? pool_.get() : nullptr;
  const Emulation& emulate = settings_.comm.emulate;
  const auto scratch = lent_communicators(schedule);
  for (const auto& [lane, group] : wanted_communicators(schedule)) {
    options.lent = scratch.contains({lane, group});
    auto communicator = make_communicator(context_, grid_, group, *host_shared_, std::string(name_of(lane)), options);
    beside_.host_staging += staging_bytes(grid_, group, options);
    if (emulate.on()) {
      const double bandwidth = emulate.bandwidth > 0 ? emulate.bandwidth : 1e18;
      communicator = make_emulated(std::move(communicator), emulate.latency, bandwidth);
    }
    communicators_[{lane, group}] = std::move(communicator);
  }
}

void Resources::open_device_communicators(const StepSchedule& schedule) {
  const LargestBuffers largest = largest_buffers(schedule);
  for (const auto& key : wanted_communicators(schedule)) {
    const auto contribution = largest.contribution.find(key);
    communicators_[key] = communication_->open(grid_, key.second, std::string(name_of(key.first)),
                                               contribution == largest.contribution.end() ? 0 : contribution->second);
  }
  beside_.host_staging = communication_->pinned_bytes();
  beside_.device_staging = communication_->device_bytes();
}

std::string Resources::description() const {
  if (host_reaches_memory()) return kernels_->description();
  std::string text = device_->description() + ", " + kernels_->description();
  if (communication_ != nullptr) text += ", " + communication_->description();
  if (!product_remark_.empty()) text += ", " + product_remark_;
  return text;
}

void Resources::warm_up(Stream& stream) {
  if (communication_ != nullptr) communication_->warm_up(stream);
}

std::string Resources::obstacle_to_graphs() const { return device_->can_capture() ? "" : "the device has no graphs"; }

bool Resources::captures_collectives() const {
  return communication_ == nullptr || communication_->backend() == CommBackend::nccl;
}

void Resources::follow(Stream& stream, const std::string& what) const {
  if (communication_ != nullptr) communication_->follow(stream, what);
}

void Resources::check() const {
  if (communication_ != nullptr) communication_->check();
}

void Resources::upload(void* device, const void* host, std::int64_t bytes) const { device_->copy(device, host, bytes); }

void Resources::download(void* host, const void* device, std::int64_t bytes) const {
  device_->copy(host, device, bytes);
}

std::int64_t Resources::index_in(Group group) const { return grid_.index_in(group, context_.rank()); }

Communicator& Resources::communicator(Lane lane, Group group) const {
  const auto it = communicators_.find({lane, group});
  TESSERA_ASSERT(it != communicators_.end(), "no communicator for lane {} over group {}", name_of(lane),
                 name_of(group));
  return *it->second;
}

Kernels& Resources::kernels(Lane lane) const {
  const bool on_caller = lane == Lane::compute || lane == Lane::store;
  return on_caller || lane_kernels_ == nullptr ? *kernels_ : *lane_kernels_;
}

std::span<std::byte> Resources::bytes(RegionKind region, Place place) const {
  if (place == Place::host) {
    if (region == RegionKind::shared) {
      if (host_staging_ == nullptr) return {};
      return {host_staging_->data(), static_cast<std::size_t>(host_staging_->size())};
    }
    return bytes_of(region == RegionKind::at_rest ? *host_at_rest_ : *host_private_);
  }
  switch (region) {
    case RegionKind::at_rest:
      return bytes_of(*at_rest_);
    case RegionKind::private_:
      return bytes_of(*private_);
    case RegionKind::shared:
      if (device_shared_ != nullptr) return bytes_of(*device_shared_);
      return {host_shared_->data(), static_cast<std::size_t>(host_shared_->size())};
  }
  return {};
}

CommunicationCount Resources::count(Collective collective) const {
  CommunicationCount sum = replayed_[static_cast<std::size_t>(collective)];
  for (const auto& [key, communicator] : communicators_) {
    const CommunicationCount one = communicator->count(collective);
    sum.calls += one.calls;
    sum.bytes += one.bytes;
    sum.nanoseconds += one.nanoseconds;
  }
  return sum;
}

CommunicationCounts Resources::counts() const {
  CommunicationCounts all;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = count(static_cast<Collective>(i));
  return all;
}

double Resources::seconds_between(const CommunicationCount& before, const CommunicationCount& after) const {
  if (communication_ != nullptr && communication_->backend() == CommBackend::nccl)
    return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(after.nanoseconds - before.nanoseconds) * 1e-9;
}

void Resources::count_replay(const CommunicationCounts& sent) {
  for (std::size_t i = 0; i < sent.size(); ++i) {
    replayed_[i].calls += sent[i].calls;
    replayed_[i].bytes += sent[i].bytes;
  }
}

}  // namespace tessera
