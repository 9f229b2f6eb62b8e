#pragma once
// The prices of this machine, as `tessera bench calibrate` measures them.

#include <algorithm>

#include "bench/kernel_ladder.hpp"
#include "tessera/engine/backend.hpp"
#include "tessera/grid/grid.hpp"
#include "tessera/kernels/needs.hpp"
#include "tessera/resolve/machine.hpp"

namespace tessera {

/// Returns the sizes that suit a device, so that a calibration takes less than a minute.
LadderSizes ladder_sizes(DeviceKind device, const MachineShape& machine);

/// Measures on all ranks at once, and on cores on one alone as well, in fp32, bf16 and precision.compute. One rank has
/// no prices of collectives. Collective; the result is rank 0's.
Cluster calibrate(RankContext& context, const Options& options, const MachineShape& machine, const LadderSizes& sizes);

/// A rank's device with what computes on it, for the parts of a calibration. Each of them adds what it measures to the
/// cluster; all are collective.
struct MeasuredRank {
  MeasuredRank(RankContext& ranks, const Options& given, const MachineShape& machine_shape)
      : context(ranks),
        options(given),
        machine(machine_shape),
        settings(resource_settings(given, machine_shape)),
        device(backend_of(given).open_device(ranks, given.run.share_gpu)),
        stream(device->make_caller_stream("bench")),
        workspace(device->allocate(MemoryKind::device, kernel_needs(device->kind()).workspace())),
        compute(backend_of(given).make_compute(*device, settings, workspace->data(), nullptr, nullptr)) {}

  /// As the engine copies in steps: with all threads where queues are serial.
  void copy(Stream& on, void* to, const void* from, std::int64_t bytes) const {
    if (settings.queue_mode == QueueMode::serial) return compute->copy(Queue::load, on, to, from, bytes);
    device->copy(on, to, from, bytes);
  }

  RankContext& context;
  const Options& options;
  const MachineShape& machine;
  ResourceSettings settings;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<DeviceMemory> workspace;  ///< of the kernels
  std::unique_ptr<RankCompute> compute;
};

/// Measures collectives of a group, by the bytes that a rank sends; nothing for a group of one.
void add_collectives(MeasuredRank& bench, Group group, const LadderSizes& sizes, Cluster& cluster);
/// Measures how much a matmul and a gather slow each other down, and copies a matmul and the host's update.
void add_slowdowns(MeasuredRank& bench, const LadderSizes& sizes, Cluster& cluster);
/// Measures what the host does between operations, segments and steps.
void add_host_times(MeasuredRank& bench, Cluster& cluster);

/// Returns the price of linears' forward in a type.
inline std::string forward_price(DType dtype) {
  LinearForward linear;
  linear.input.dtype = dtype;
  return price_name(*describe(linear));
}

/// Returns the sizes for what the host runs, where each rank has memory of its own.
inline LadderSizes host_sizes(LadderSizes sizes) {
  sizes.memory = std::min(sizes.memory, sizes.elements.back() * size_of(DType::fp32));
  return sizes;
}

inline void add_prices(MeasuredRank& bench, const std::vector<PricedCalls>& measured, Cluster& cluster) {
  for (const PricedCalls& one : measured) cluster.prices.insert_or_assign(one.name, price_of(bench.context, one));
}

/// Measures calls that share a node's memory and caches: by all ranks at once, and by one of them alone, so that their
/// prices depend on how many work.
void add_shared_prices(MeasuredRank& bench, Device& device, Stream& stream, std::vector<PricedCalls>& calls,
                       double seconds, Cluster& cluster);

}  // namespace tessera
