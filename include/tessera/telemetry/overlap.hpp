#pragma once
// What the ranks did in a step and what they waited for: the numbers of /overlap in metrics.h5, and which rank slows
// the others down.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/telemetry/step_times.hpp"

namespace tessera {

/// Kinds of a rank's time. `gather`, `reduce_scatter`, `all_reduce` and `host` (copies between host and device, and the
/// host's own work) are how long operations took, hidden or not. `exposed_*` is the part that compute waited for.
enum class OverlapKind : std::uint8_t {
  compute,  ///< forward, recompute, backward, optimizer
  data,     ///< reading tokens; compute waits for all of it
  gather,
  reduce_scatter,
  all_reduce,
  host,
  exposed_gather,
  exposed_reduce_scatter,
  exposed_all_reduce,
  exposed_host
};
inline constexpr std::size_t kOverlapKinds = 10;

/// Returns all names in order: "compute", "data", "gather", ...
std::vector<std::string> overlap_names();

/// One rank's seconds by kind, of a step or of several.
struct OverlapTimes {
  std::array<double, kOverlapKinds> seconds{};

  double operator[](OverlapKind kind) const { return seconds[static_cast<std::size_t>(kind)]; }
  OverlapTimes& operator+=(const OverlapTimes& other);
  /// Returns the rank's own work: compute, data, and what compute waited for the rank's own host.
  double own_work() const;
  /// Returns the exposed wait for other ranks: of collectives.
  double exposed_wait() const;
};

/// Returns the numbers of a timed step.
OverlapTimes overlap_of(const StepTimeTotals& step);

/// The least, middle and largest of some values. The median of an even number is the mean of the two in the middle.
struct Spread {
  double minimum = 0, median = 0, maximum = 0;
};
/// Returns the spread of at least one value.
Spread spread_of(std::vector<double> values);

/// The rank that the others wait for.
struct Straggler {
  std::int64_t rank = -1;     ///< none stands out
  double behind_seconds = 0;  ///< by which its own work is longer than the median of the others
  double behind_share = 0;    ///< of its own work and wait together
};

/// Names the rank whose own work is longest, if it is also the one that waits least, because a rank that waits is a
/// victim. It must stand out by a tenth of its time. Values of one rank, or of ranks that do equal work, name none.
Straggler find_straggler(std::span<const OverlapTimes> ranks);

}  // namespace tessera
