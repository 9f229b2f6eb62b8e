#pragma once
// Collectives between emulated GPUs against the explicit reference that CPU communicators are tested with.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "comm/collective_cases.hpp"
#include "local_world/local_world.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/base/format.hpp"
#include "tessera/comm/device_comm_backend.hpp"

namespace tessera::test {

using Bytes = std::vector<std::byte>;

inline Bytes downloaded(Device& device, const void* data, std::int64_t bytes) {
  Bytes host(static_cast<std::size_t>(bytes));
  device.copy(host.data(), data, bytes);
  return host;
}

/// One case: elements of each rank, and types.
struct DeviceCase {
  std::int64_t elements = 1;
  DType wire = DType::fp32, shard = DType::fp32;
  std::uint64_t seed = 1;
  bool exact = true;  ///< sums in the tree; otherwise in any order
};

/// Whether floats differ by more than the rounding of a few sums.
inline bool far(float a, float b, DType wire) {
  const float slack = wire == DType::fp32 ? 1e-5f : 0.05f;
  return !(std::abs(a - b) <= slack * (std::abs(a) + std::abs(b) + 1024));
}

inline std::string reduce_on_device(Communicator& group, Stream& stream, Device& device, std::byte* contribution,
                                    std::byte* result, const DeviceCase& one) {
  const std::int64_t size = group.size(), total = size * one.elements * size_of(one.wire);
  const std::int64_t bytes = one.elements * size_of(one.shard);
  Bytes host(static_cast<std::size_t>(total));
  fill_contribution(host.data(), one.wire, one.seed, group.rank(), size * one.elements);
  device.copy(contribution, host.data(), total);
  const Bytes pattern(static_cast<std::size_t>(bytes + 16), std::byte{0x5a});
  device.copy(result, pattern.data(), bytes + 16);
  group.reduce_scatter(stream, contribution, one.wire, result, one.shard, one.elements);
  stream.synchronize();
  const Bytes shard = downloaded(device, result, bytes + 16);
  if (std::memcmp(shard.data() + bytes, pattern.data(), 16) != 0) return "reduce_scatter wrote behind the shard";
  if (one.exact) {
    const auto wrong = wrong_sums(shard.data(), one.shard, one.wire, one.seed, size, group.rank(), one.elements);
    return wrong > 0 ? fmt::format("reduce_scatter: {} of {} elements", wrong, one.elements) : "";
  }
  for (std::int64_t i = 0; i < one.elements; ++i) {
    float sum = 0;
    for (std::int64_t s = 0; s < size; ++s) sum += term(one.seed, s, group.rank() * one.elements + i);
    if (far(load(shard.data(), one.shard, i), sum, one.wire)) return fmt::format("reduce_scatter: element {}", i);
  }
  return "";
}

inline std::string gather_on_device(Communicator& group, Stream& stream, Device& device, std::byte* whole,
                                    const DeviceCase& one) {
  const std::int64_t size = group.size(), total = size * one.elements;
  Bytes host(static_cast<std::size_t>(total * size_of(one.wire)), std::byte{0}), expected = host;
  for (std::int64_t i = 0; i < total; ++i) {
    store(expected.data(), one.wire, i, term(one.seed + 1, i / one.elements, i % one.elements));
  }
  const auto slice = static_cast<std::size_t>(one.elements * size_of(one.wire));
  const std::size_t mine = static_cast<std::size_t>(group.rank()) * slice;
  std::memcpy(host.data() + mine, expected.data() + mine, slice);
  device.copy(whole, host.data(), static_cast<std::int64_t>(host.size()));
  group.all_gather(stream, whole, one.elements, one.wire);
  stream.synchronize();
  return downloaded(device, whole, static_cast<std::int64_t>(host.size())) == expected ? "" : "all_gather";
}

inline std::string integers_on_device(Communicator& group, Stream& stream, Device& device, std::byte* data,
                                      const DeviceCase& one) {
  const auto number = [&](std::int64_t member, std::int64_t i) {
    const auto bits =
        philox(one.seed + 2, RandomUse::chaos, static_cast<std::uint32_t>(member), static_cast<std::uint64_t>(i));
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(bits[0]) << 32) | bits[1]);
  };
  const auto fill = [&](auto&& value) {
    std::vector<std::int64_t> host;
    for (std::int64_t i = 0; i < one.elements; ++i) host.push_back(value(i));
    return host;
  };
  std::vector<std::int64_t> host;
  const std::int64_t bytes = one.elements * 8;
  for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
    host = fill([&](std::int64_t i) { return number(group.rank(), i); });
    device.copy(data, host.data(), bytes);
    group.all_reduce(stream, reinterpret_cast<std::int64_t*>(data), one.elements, reduction);
    stream.synchronize();
    device.copy(host.data(), data, bytes);
    const auto wanted = fill([&](std::int64_t i) {
      return reduced(group.size(), reduction, [&](std::int64_t member) { return number(member, i); });
    });
    if (host != wanted) return "all_reduce";
  }

  const int root = static_cast<int>(one.seed % static_cast<std::uint64_t>(group.size()));
  host = fill([&](std::int64_t i) { return group.rank() == root ? number(99, i) : 0; });
  device.copy(data, host.data(), bytes);
  group.broadcast(stream, data, bytes, root);
  group.barrier(stream);
  stream.synchronize();
  device.copy(host.data(), data, bytes);
  return host == fill([&](std::int64_t i) { return number(99, i); }) ? "" : "broadcast";
}

inline std::string exchange_on_device(Communicator& group, Stream& stream, Device& device, std::byte* sent,
                                      const DeviceCase& one) {
  const std::vector<ExchangeRun> runs = drawn_runs(one.seed, group.size(), one.elements);
  Bytes host(static_cast<std::size_t>(one.elements * size_of(one.wire)));
  fill_contribution(host.data(), one.wire, one.seed + 3, group.rank(), one.elements);
  device.copy(sent, host.data(), std::ssize(host));
  host.assign(static_cast<std::size_t>(most_received(group.size(), one.elements) * size_of(one.wire)), std::byte{0});
  const auto received = device.allocate(MemoryKind::device, std::ssize(host));
  device.copy(received->data(), host.data(), std::ssize(host));
  group.exchange(stream, sent, received->data(), runs, one.wire);
  stream.synchronize();
  device.copy(host.data(), received->data(), std::ssize(host));
  return host == exchanged(runs, one.seed, group.rank(), one.wire, host.size()) ? "" : "exchange";
}

/// Bytes of shared region that a case of so many elements needs at most.
inline std::int64_t room_for(std::int64_t size, std::int64_t elements) {
  return round_up(size * elements * 8, std::int64_t{256});
}

/// Plays every collective once; returns the errors, or "".
inline std::string run_on_device(Communicator& group, Stream& stream, Device& device, std::byte* shared,
                                 std::byte* result, const DeviceCase& one) {
  std::string wrong = reduce_on_device(group, stream, device, shared, result, one);
  if (wrong.empty()) wrong = gather_on_device(group, stream, device, shared, one);
  if (wrong.empty()) wrong = integers_on_device(group, stream, device, shared, one);
  if (wrong.empty()) wrong = exchange_on_device(group, stream, device, shared, one);
  return wrong;
}

}  // namespace tessera::test
