#pragma once
// Calls whose prices are measured, and the memory that they work on.

#include <string>
#include <vector>

#include "bench/stream_clock.hpp"
#include "tessera/comm/rank_context.hpp"
#include "tessera/simulate/cluster.hpp"

namespace tessera {

/// One price: a grid of sizes, with a call for each of its points, the last axis fastest.
struct PricedCalls {
  std::string name;
  std::vector<PriceTable::Axis> axes;
  std::vector<StreamWork> calls;
  std::vector<StreamWork> before = {};  ///< by call, what is done before it without being timed; empty: nothing at all
  std::vector<std::vector<double>> seconds = {};  ///< by call, of every repetition
  std::string exact = {};  ///< of linears in fp8: the price of the same without; empty: of all others
};

/// Memory that calls walk through, so that no call finds in a cache what an earlier one left there.
class RotatingMemory {
 public:
  /// Fills it with numbers from 1/128 to 2, in fp32 as in bf16 (in fp16 from 1 to 2), half of them negative where they
  /// may be. They vary because a GPU needs less power for equal ones: with a constant an H100 kept its full clock, and
  /// matmuls took 15% less time than in a step.
  RotatingMemory(Device& device, MemoryKind kind, std::int64_t bytes, bool may_be_negative = true);
  /// Returns the next `bytes`, which do not exceed the whole.
  std::byte* next(std::int64_t bytes);
  /// The current position, and a return to an earlier one.
  std::int64_t place() const { return at_; }
  void return_to(std::int64_t place) { at_ = place; }

 private:
  std::unique_ptr<DeviceMemory> memory_;
  std::int64_t at_ = 0;
};

/// The ranks that make calls at the same time, while the others sleep.
enum class Callers : std::uint8_t { all, first };

/// Makes all calls in turns for `seconds`, and at least three times after they have warmed up. Collectives: `together`
/// times in a row, because graphs of theirs would have other lengths on other ranks. Collective.
void time_calls(RankContext& context, Device& device, Stream& stream, std::vector<PricedCalls>& prices, double seconds,
                int together = 0, Callers callers = Callers::all);

/// Returns the medians of each call's repetitions, as the mean over the ranks that made them. The uncertainty is half
/// the interquartile range over the median, in the mean over calls, and at least 2%. Collective.
PriceTable price_of(RankContext& context, const PricedCalls& calls);

}  // namespace tessera
