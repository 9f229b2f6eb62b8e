#pragma once
// Tells the user at once that a request to stop was heard, although the current step ends later.

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "tessera/training/stop.hpp"

namespace tessera {

/// How far a run is within a step. Step 0: it has not begun the first one.
struct StepProgress {
  std::int64_t step = 0, first_step = 1;
  std::int64_t begun = 0, micro_steps = 1;
  std::int64_t ahead = 0;   ///< micro-steps that the host may have begun before the device finished the previous one
  double last_seconds = 0;  ///< of the previous step in this start; 0: there was none
  std::chrono::steady_clock::time_point start;

  double seconds() const;
  /// Returns the estimate of what the step still needs, in seconds: by its micro-steps so far and by the previous step,
  /// whichever is more. Infinity if neither is known.
  double rest() const;
  /// Returns whether a wish that is heard now may cause the step to be given up: it is summed before the next
  /// micro-step, and evaluated before the one after that.
  bool may_be_given_up() const { return begun + 2 + ahead < micro_steps && rest() > kLongRest; }
};

/// Returns "stopping after step 4 with a checkpoint", or a description of what else a stop at this point leads to.
std::string describe_stop(const StepProgress& progress);

class StopNotice {
 public:
  /// `say` gets one line, once, without a lock: on a thread that looks for signals, or from announce().
  StopNotice(const StopSignals& signals, std::function<void(const std::string&)> say);
  StopNotice(const StopNotice&) = delete;
  StopNotice& operator=(const StopNotice&) = delete;

  void set_progress(const StepProgress& progress);
  /// Announces a stop, unless that was done already.
  void announce(const std::string& reason);

 private:
  void look_for_signals(const std::stop_token& end);
  void tell(std::unique_lock<std::mutex>& guard, const std::string& reason);

  const StopSignals& signals_;
  std::function<void(const std::string&)> say_;
  std::mutex lock_;
  bool is_said_ = false;
  StepProgress progress_;
  std::jthread thread_;
};

}  // namespace tessera
