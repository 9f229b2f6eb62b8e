#pragma once
// Why a run stops early or makes a checkpoint between its regular ones: signals, the clock, files in the run folder.
// Every rank looks for itself before a step; what any of them wants travels with the step's scalars, so that all act at
// the same step boundary.

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/config/options.hpp"

namespace tessera {

/// What a rank wants of all ranks after the coming step; sums over ranks stay apart.
struct StepRequests {
  static constexpr std::int32_t kStop = 1, kCheckpoint = 1 << 20;  ///< a million ranks at most
  static bool stop(std::int64_t sum) { return (sum & (kCheckpoint - 1)) != 0; }
  static bool checkpoint(std::int64_t sum) { return sum >= kCheckpoint; }
};

/// While it lives SIGUSR1, SIGTERM and SIGINT are noted instead of ending the process. A second one, half a second or
/// more after the first, ends it at once. One at a time, on the thread that computes. Their handler runs on a stack of
/// its own: oneDNN's products use the stack pointer as one more pointer into their buffers, and a handler's frame would
/// be written there.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// "SIGUSR1", or empty.
  std::string received() const;

 private:
  static constexpr int kSignals[] = {SIGUSR1, SIGTERM, SIGINT};
  struct sigaction before_[3];
  std::vector<std::byte> stack_;
  stack_t stack_before_{};
};

/// When the process must have ended, by run.walltime or by what Slurm says of the job; never: no limit.
class Deadline {
 public:
  using Clock = std::chrono::system_clock;
  /// `start`: of the process, seconds since 1970. The earlier of both limits counts.
  Deadline(double walltime, double start);
  /// Seconds left; infinity without a limit.
  double seconds_left() const;
  const std::string& name() const { return name_; }

 private:
  double end_;
  std::string name_;
};

/// One rank's view.
class StopConditions {
 public:
  /// `folder`: the run's; only rank 0 looks at clock and files. `signals` outlive the conditions.
  StopConditions(const Options& options, const StopSignals& signals, double start, const std::filesystem::path& folder,
                 bool is_rank_0);

  /// What to ask for with the coming step. `step_seconds`: of the last one; `checkpoint_seconds`: of the last
  /// checkpoint.
  std::int32_t requests(double step_seconds, double checkpoint_seconds);
  /// A checkpoint is made of what is there now: restarts the clock of checkpoint.every_minutes; a file that asks for
  /// one is not looked at again until it is written.
  void checkpoint_begins();
  /// A checkpoint is on disk: removes the file that asked for it.
  void checkpoint_written();
  /// Why this rank wants to stop; empty if it does not.
  const std::string& reason() const { return reason_; }
  /// Removes RUN/stop, so that the next start does not stop at once.
  void stopped();

 private:
  bool looks_at_files();
  double every_minutes_;
  Deadline deadline_;
  const StopSignals& signals_;
  std::filesystem::path stop_file_, checkpoint_file_;
  bool is_rank_0_, stop_file_seen_ = false, checkpoint_file_seen_ = false;
  std::deque<bool> answers_file_;  ///< of the checkpoints that are being written, in order
  std::chrono::steady_clock::time_point last_checkpoint_, last_look_;
  std::string reason_;
};

}  // namespace tessera
