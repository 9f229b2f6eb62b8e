#pragma once
// Happens-before inside one segment: the closure of lane order and of the edges that the engine waits for. Segment
// borders join the lanes, so between segments the order is total.

#include <cstdint>
#include <vector>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

class SegmentOrder {
 public:
  SegmentOrder(const StepSchedule& schedule, const Segment& segment);

  /// Operation a has finished before operation b starts, in every legal play.
  bool before(OperationId a, OperationId b) const { return test(row(b), a - first_); }

  /// All of `earlier` happen before all of `later`.
  bool all_before(const std::vector<OperationId>& earlier, const std::vector<OperationId>& later) const;

 private:
  const std::uint64_t* row(OperationId b) const { return &bits_[static_cast<std::size_t>((b - first_) * words_)]; }
  static bool test(const std::uint64_t* words, std::int64_t i) { return (words[i / 64] >> (i % 64)) & 1u; }

  OperationId first_ = 0;
  std::int64_t words_ = 0;
  std::vector<std::uint64_t> bits_;  ///< row b: the operations before b
};

}  // namespace tessera
