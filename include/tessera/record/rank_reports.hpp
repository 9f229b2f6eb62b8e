#pragma once
// Every rank's measurements between two reports, gathered on rank 0 for /ranks of metrics.h5.

#include <chrono>
#include <optional>
#include <vector>

#include "tessera/comm/world.hpp"
#include "tessera/engine/resources.hpp"
#include "tessera/record/reports.hpp"

namespace tessera {

/// Samples a rank's memory, so seldom that it costs at most a 200th of the time.
class MemorySamples {
 public:
  /// `before`: the process's proportional set size before the session took memory.
  MemorySamples(const Device& device, std::int64_t before) : device_(device), before_(before) {}

  /// Measures if enough time has passed since the last sample, or if it `must`. Not while a segment runs.
  void sample(bool must);
  /// Returns the growth of the process's proportional set size in the last sample since clear(), in bytes; -1 if there
  /// was none.
  std::int64_t process() const { return process_; }
  /// Return the highest use so far, and the mean of samples since clear(); bytes, NaN if not known. On cores, the
  /// growth of the process; on a GPU, the growth of the memory in use there.
  double peak() const { return peak_; }
  double average() const;
  void clear();

 private:
  const Device& device_;
  std::int64_t before_, process_ = -1;
  double peak_ = std::numeric_limits<double>::quiet_NaN(), sum_ = 0;
  std::int64_t samples_ = 0;
  std::chrono::steady_clock::time_point last_;
  std::chrono::steady_clock::duration cost_{0};
};

class RankReports {
 public:
  /// `monitor` observes this rank's GPU; may be null. References must outlive the object.
  RankReports(World& world, const StepSchedule& schedule, const Resources& resources, std::int64_t memory_before,
              DeviceMonitor* monitor);

  /// Adds the values of one step.
  void add(const StepReport& report);
  /// Returns whether a report is due only because many steps were timed since the last one, which takes memory. The
  /// same on every rank.
  bool is_full() const { return overlap_.size() >= kMostTimedSteps; }
  /// Returns, on rank 0, the report of all ranks after `step`, and begins the next one. `measures`: measures memory
  /// even if that was done a moment ago. Collective, over the control plane.
  std::optional<RankRow> gather(std::int64_t step, bool measures);

 private:
  static constexpr std::size_t kMostTimedSteps = 256;
  std::vector<double> gather_layer_norms() const;

  World& world_;
  const StepSchedule& schedule_;
  const Resources& resources_;
  DeviceMonitor* monitor_;
  MemorySamples memory_;
  std::int64_t steps_ = 0, timed_steps_ = 0;
  std::array<std::int64_t, kTimeCategories> nanoseconds_{};
  CommunicationCounts communication_;
  double loss_scale_ = 1;                    ///< of the last step
  std::vector<std::int64_t> overlap_steps_;  ///< the timed steps
  std::vector<OverlapTimes> overlap_;        ///< of each of them
};

}  // namespace tessera
