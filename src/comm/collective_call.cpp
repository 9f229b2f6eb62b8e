#include "comm/collective_call.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

constexpr int kKindBits = 3, kTypeBits = 3, kDetailBits = 15;
constexpr int kElementShift = kKindBits + 2 * kTypeBits + kDetailBits;

constexpr std::uint64_t mask(int bits) { return (std::uint64_t{1} << bits) - 1; }

}  // namespace

void Communicator::all_gather(Stream& stream, void* whole, std::int64_t elements_per_rank, DType dtype) {
  run(stream, {.collective = Collective::all_gather,
               .wire = dtype,
               .result = dtype,
               .elements = elements_per_rank,
               .from = whole,
               .to = whole});
}

void Communicator::reduce_scatter(Stream& stream, const void* contribution, DType wire_dtype, void* shard,
                                  DType shard_dtype, std::int64_t elements_per_rank) {
  run(stream, {.collective = Collective::reduce_scatter,
               .wire = wire_dtype,
               .result = shard_dtype,
               .elements = elements_per_rank,
               .from = contribution,
               .to = shard});
}

void Communicator::all_reduce(Stream& stream, std::int64_t* values, std::int64_t count, Reduction reduction) {
  run(stream, {.collective = Collective::all_reduce,
               .wire = DType::int64,
               .result = DType::int64,
               .detail = static_cast<std::int64_t>(reduction),
               .elements = count,
               .from = values,
               .to = values});
}

void Communicator::broadcast(Stream& stream, void* data, std::int64_t bytes, int root) {
  TESSERA_ASSERT(root >= 0 && root < size(), "a broadcast from member {} of {}", root, size());
  run(stream, {.collective = Collective::broadcast, .detail = root, .elements = bytes, .from = data, .to = data});
}

void Communicator::exchange(Stream& stream, const void* sent, void* received, std::span<const ExchangeRun> runs,
                            DType dtype) {
  std::int64_t elements = 0;
  for (const ExchangeRun& run : runs) elements += run.elements;
  run(stream, {.collective = Collective::exchange,
               .wire = dtype,
               .result = dtype,
               .elements = elements,
               .from = sent,
               .to = received,
               .runs = runs});
}

void Communicator::barrier(Stream& stream) { run(stream, {}); }

std::uint64_t CollectiveCall::packed() const {
  auto word = static_cast<std::uint64_t>(elements);
  word = (word << kDetailBits) | (static_cast<std::uint64_t>(detail) & mask(kDetailBits));
  word = (word << kTypeBits) | static_cast<std::uint64_t>(result);
  word = (word << kTypeBits) | static_cast<std::uint64_t>(wire);
  return (word << kKindBits) | static_cast<std::uint64_t>(collective);
}

CollectiveCall CollectiveCall::unpacked(std::uint64_t word) {
  CollectiveCall call;
  call.collective = static_cast<Collective>(word & mask(kKindBits));
  call.wire = static_cast<DType>((word >> kKindBits) & mask(kTypeBits));
  call.result = static_cast<DType>((word >> (kKindBits + kTypeBits)) & mask(kTypeBits));
  call.detail = static_cast<std::int64_t>((word >> (kKindBits + 2 * kTypeBits)) & mask(kDetailBits));
  call.elements = static_cast<std::int64_t>(word >> kElementShift);
  return call;
}

std::string CollectiveCall::text() const {
  switch (collective) {
    case Collective::all_gather:
      return fmt::format("all_gather of {} {} a rank", elements, tessera::name_of(wire));
    case Collective::reduce_scatter:
      return fmt::format("reduce_scatter of {} {} into {} a rank", elements, tessera::name_of(wire),
                         tessera::name_of(result));
    case Collective::all_reduce:
      return fmt::format("all_reduce of {} int64{}", elements, reduction() == Reduction::max ? " to their maxima" : "");
    case Collective::broadcast:
      return fmt::format("broadcast of {} bytes from member {}", elements, detail);
    case Collective::exchange:
      return fmt::format("exchange of {} {}", elements, tessera::name_of(wire));
    case Collective::barrier:
      return "barrier";
  }
  return "unknown collective";
}

std::int64_t CollectiveCall::bytes_sent(std::int64_t size) const {
  switch (collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return (size - 1) * bytes();  // elements are those of one rank
    case Collective::all_reduce:
      return 2 * (size - 1) * bytes() / size;
    case Collective::broadcast:
      return (size - 1) * bytes() / size;
    case Collective::exchange:
      return most_elements_sent(runs) * size_of(wire);
    case Collective::barrier:
      break;
  }
  return 0;
}

std::int64_t CollectiveCall::sent_extent(std::int64_t member) const {
  std::int64_t end = 0;
  for (const ExchangeRun& run : runs) end = std::max(end, run.sender == member ? run.source + run.elements : 0);
  return end * size_of(wire);
}

std::int64_t CollectiveCall::received_extent(std::int64_t member) const {
  std::int64_t end = 0;
  for (const ExchangeRun& run : runs) end = std::max(end, run.receiver == member ? run.target + run.elements : 0);
  return end * size_of(wire);
}

CommunicationCount CountingCommunicator::count(Collective collective) const {
  const Counter& counter = counters_.at(static_cast<std::size_t>(collective));
  return {counter.calls.load(), counter.bytes.load(), static_cast<double>(counter.nanoseconds.load()) * 1e-9};
}

void CountingCommunicator::add(const CollectiveCall& call, std::chrono::nanoseconds time) {
  if (call.collective == Collective::barrier) return;
  Counter& counter = counters_[static_cast<std::size_t>(call.collective)];
  counter.calls.fetch_add(1, std::memory_order_relaxed);
  counter.bytes.fetch_add(call.bytes_sent(size()), std::memory_order_relaxed);
  counter.nanoseconds.fetch_add(time.count(), std::memory_order_relaxed);
}

std::string rank_list(std::span<const std::int64_t> ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace tessera
