#include "tessera/engine/communicators.hpp"

#include <limits>

namespace tessera {

namespace {

std::span<std::byte> bytes_of(const SharedRegion* region) {
  if (region == nullptr) return {};
  return {region->data(), static_cast<std::size_t>(region->size())};
}

}  // namespace

std::set<QueueGroup> wanted_communicators(const StepSchedule& schedule) {
  std::set<QueueGroup> wanted;
  for (const Operation& op : schedule.operations) {
    if (schedule.communicates(op)) wanted.insert({op.queue, op.group});
  }
  return wanted;
}

Communicators::Communicators(std::unique_ptr<SharedRegion> shared, std::unique_ptr<DeviceCommBackend> transport,
                             std::unique_ptr<DeviceMemory> on_device)
    : shared_(std::move(shared)), transport_(std::move(transport)), on_device_(std::move(on_device)) {}

Communicator& Communicators::of(Queue queue, Group group) const {
  const auto it = all_.find({queue, group});
  TESSERA_ASSERT(it != all_.end(), "no communicator for queue {} over group {}", name_of(queue), name_of(group));
  return *it->second;
}

std::span<std::byte> Communicators::device_shared() const {
  if (on_device_ == nullptr) return bytes_of(shared_.get());
  return {on_device_->data(), static_cast<std::size_t>(on_device_->size())};
}

std::span<std::byte> Communicators::host_shared() const {
  return on_device_ == nullptr ? std::span<std::byte>{} : bytes_of(shared_.get());
}

CommunicationCounts Communicators::counts() const {
  const bool is_timed = transport_ == nullptr || transport_->backend() != CommBackend::nccl;
  CommunicationCounts sums = replayed_;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    for (const auto& [key, communicator] : all_) sums[i] += communicator->count(static_cast<Collective>(i));
    if (!is_timed) sums[i].seconds = std::numeric_limits<double>::quiet_NaN();
  }
  return sums;
}

void Communicators::count_replay(const CommunicationCounts& sent) {
  for (std::size_t i = 0; i < sent.size(); ++i) replayed_[i] += sent[i];
}

}  // namespace tessera
