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
  backward,   ///< the head's forward and backward in one included
  optimizer,  ///< accumulate, norm, clip, update
  exposed_gather,
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
  std::array<std::int64_t, kTimeCategories> nanoseconds{};
  bool measured = true;  ///< false: the step was not timed; all seconds are NaN
  double seconds(TimeCategory category) const;
  /// Returns all seconds in the order of the names, as StepRow::times expects them.
  std::vector<double> all_seconds() const;
  /// Returns the sum of the exposed categories that are communication.
  double exposed_seconds() const;
};

/// Adds up nanoseconds; any thread may add. take() is called between steps.
class StepTimes {
 public:
  void add(TimeCategory category, std::int64_t nanoseconds) {
    nanoseconds_[static_cast<std::size_t>(category)].fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  /// Notes that untimed work was run.
  void leave_out() { measured_.store(false, std::memory_order_relaxed); }
  /// Returns the sums since the last take().
  StepTimeTotals take();

 private:
  std::array<std::atomic<std::int64_t>, kTimeCategories> nanoseconds_{};
  std::atomic<bool> measured_{true};
};

/// Adds the time from here to the end of its scope.
class TimeScope {
 public:
  TimeScope(StepTimes& times, TimeCategory category)
      : times_(times), category_(category), start_(std::chrono::steady_clock::now()) {}
  ~TimeScope() {
    const auto spent = std::chrono::steady_clock::now() - start_;
    times_.add(category_, std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
  }
  TimeScope(const TimeScope&) = delete;
  TimeScope& operator=(const TimeScope&) = delete;

 private:
  StepTimes& times_;
  TimeCategory category_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace tessera
