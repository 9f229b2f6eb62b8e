#pragma once
// The time of a step by category; the columns of /steps/time in metrics.h5.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// Exposed: compute waited for it.
enum class TimeCategory : std::uint8_t {
  data,  ///< waiting for tokens
  forward,
  recompute,
  backward,        ///< the head's forward and backward in one included
  optimizer,       ///< accumulate, norm, clip, direction, orthogonalize, update
  exposed_gather,  ///< and exchanges of matrices
  exposed_reduce_scatter,
  exposed_all_reduce,
  exposed_other,  ///< loads, stores, host operations
};
inline constexpr std::size_t kTimeCategories = 9;

/// Returns "forward", "exposed_gather", ...: as in /steps/time.
const char* name_of(TimeCategory category);
/// Returns all names in order.
std::vector<std::string> time_category_names();

/// One step's account.
struct StepTimeTotals {
  std::array<std::int64_t, kTimeCategories> nanoseconds{};  ///< of the compute queue: these add up to the step
  /// How long operations themselves took, on whatever queue: a collective that compute did not wait for is in here.
  std::array<std::int64_t, kTimeCategories> operations{};
  bool measured = true;  ///< false: the step was not timed; all seconds are NaN
  double seconds(TimeCategory category) const;
  /// Returns the sum of the exposed categories that are communication.
  double exposed_seconds() const;
};

/// Adds up nanoseconds; any thread may add. take() is called between steps.
class StepTimes {
 public:
  void add(TimeCategory category, std::int64_t nanoseconds) {
    nanoseconds_[static_cast<std::size_t>(category)].fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  /// Adds an operation's own duration, whichever queue it ran on.
  void add_operation(TimeCategory category, std::int64_t nanoseconds) {
    operations_[static_cast<std::size_t>(category)].fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  /// Notes that untimed work was run.
  void leave_out() { measured_.store(false, std::memory_order_relaxed); }
  /// Returns the sums since the last take().
  StepTimeTotals take();

 private:
  std::array<std::atomic<std::int64_t>, kTimeCategories> nanoseconds_{}, operations_{};
  std::atomic<bool> measured_{true};
};

/// Returns the steady clock in nanoseconds: one clock for all processes of a machine (CLOCK_MONOTONIC).
inline std::int64_t steady_nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace tessera
