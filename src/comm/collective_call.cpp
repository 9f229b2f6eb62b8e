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

std::uint64_t CallShape::packed() const {
  auto word = static_cast<std::uint64_t>(elements);
  word = (word << kDetailBits) | (static_cast<std::uint64_t>(detail) & mask(kDetailBits));
  word = (word << kTypeBits) | static_cast<std::uint64_t>(result);
  word = (word << kTypeBits) | static_cast<std::uint64_t>(wire);
  return (word << kKindBits) | static_cast<std::uint64_t>(kind);
}

CallShape CallShape::unpacked(std::uint64_t word) {
  CallShape shape;
  shape.kind = static_cast<CallKind>(word & mask(kKindBits));
  shape.wire = static_cast<DType>((word >> kKindBits) & mask(kTypeBits));
  shape.result = static_cast<DType>((word >> (kKindBits + kTypeBits)) & mask(kTypeBits));
  shape.detail = static_cast<std::int64_t>((word >> (kKindBits + 2 * kTypeBits)) & mask(kDetailBits));
  shape.elements = static_cast<std::int64_t>(word >> kElementShift);
  return shape;
}

std::string CallShape::text() const {
  switch (kind) {
    case CallKind::all_gather:
      return fmt::format("all_gather of {} {} a rank", elements, tessera::name_of(wire));
    case CallKind::reduce_scatter:
      return fmt::format("reduce_scatter of {} {} into {} a rank", elements, tessera::name_of(wire),
                         tessera::name_of(result));
    case CallKind::all_reduce:
      return fmt::format("all_reduce of {} int64{}", elements, detail == 0 ? "" : " to their maxima");
    case CallKind::broadcast:
      return fmt::format("broadcast of {} bytes from member {}", elements, detail);
    case CallKind::exchange:
      return fmt::format("exchange of {} {}", elements, tessera::name_of(wire));
    case CallKind::barrier:
      return "barrier";
  }
  return "unknown collective";
}

std::string rank_list(std::span<const std::int64_t> ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

CommunicationCount CallCounters::get(Collective collective) const {
  const Counter& counter = counters_[static_cast<std::size_t>(collective)];
  return {counter.calls.load(), counter.bytes.load(), static_cast<double>(counter.nanoseconds.load()) * 1e-9};
}

void CallCounters::add(Collective collective, std::int64_t bytes, std::int64_t nanoseconds) {
  Counter& counter = counters_[static_cast<std::size_t>(collective)];
  counter.calls.fetch_add(1, std::memory_order_relaxed);
  counter.bytes.fetch_add(bytes, std::memory_order_relaxed);
  counter.nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
}

std::int64_t bytes_sent(Collective collective, std::int64_t size, std::int64_t elements, DType dtype) {
  const std::int64_t bytes = elements * size_of(dtype);
  switch (collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return (size - 1) * bytes;  // elements are those of one rank
    case Collective::all_reduce:
      return 2 * (size - 1) * bytes / size;
    case Collective::broadcast:
      return (size - 1) * bytes / size;
    case Collective::exchange:
      break;
  }
  throw InternalError("an exchange sends what its runs say");
}

std::int64_t bytes_sent(std::span<const ExchangeRun> runs, DType dtype) {
  return most_elements_sent(runs) * size_of(dtype);
}

CallShape shape_of(std::span<const ExchangeRun> runs, DType dtype) {
  std::int64_t elements = 0;
  for (const ExchangeRun& run : runs) elements += run.elements;
  return {.kind = CallKind::exchange, .wire = dtype, .result = dtype, .elements = elements};
}

std::int64_t sent_extent(std::span<const ExchangeRun> runs, std::int64_t member) {
  std::int64_t end = 0;
  for (const ExchangeRun& run : runs) end = std::max(end, run.sender == member ? run.source + run.elements : 0);
  return end;
}

std::int64_t received_extent(std::span<const ExchangeRun> runs, std::int64_t member) {
  std::int64_t end = 0;
  for (const ExchangeRun& run : runs) end = std::max(end, run.receiver == member ? run.target + run.elements : 0);
  return end;
}

}  // namespace tessera
