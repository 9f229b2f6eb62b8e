#pragma once
// Why a run stops early or makes a checkpoint between its regular ones: signals, the clock, files in the run folder.
// Every rank looks for itself before a step; what any of them wants travels with the step's scalars, so that all act at
// the same step boundary.

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
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

/// While it lives SIGUSR1, SIGTERM, SIGINT and SIGHUP (unless that was ignored, as under nohup) are noted instead of
/// ending the process. A second one, of any of them, half a second or more after the first ends it at once; that holds
/// until the process has ended, because who is told to end may be told twice. One at a time, on the thread that
/// computes; the others receive none (base/threads.hpp). Their handler runs on a stack of its own: oneDNN's products
/// use the stack pointer as one more pointer into their buffers, and a handler's frame would be written there.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// "SIGUSR1", or empty.
  std::string received() const;

 private:
  static constexpr std::array kSignals{SIGUSR1, SIGTERM, SIGINT, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
  std::vector<std::byte> stack_;
  stack_t stack_before_{};
};

/// When the process must have ended, by run.walltime or by what Slurm says of the job; never: no limit.
class Deadline {
 public:
  /// `start`: of the process. run.walltime is measured by a clock that nobody sets; the end of a Slurm job is a time of
  /// day. The earlier of both counts.
  Deadline(double walltime, std::chrono::steady_clock::time_point start);
  /// Seconds left; infinity without a limit.
  double seconds_left() const { return std::min(left_of_walltime(), left_of_job()); }
  /// Which of the two comes first: the option or the variable that says so.
  std::string name() const;

 private:
  double left_of_walltime() const;
  double left_of_job() const;
  std::chrono::steady_clock::time_point start_;
  double walltime_;  ///< seconds, infinity without a limit
  double job_end_;   ///< seconds since 1970, infinity without a limit
};

/// What the last ones took, in seconds.
struct LastTimes {
  double step = 0;
  double evaluations = 0;            ///< of those that are due before and after the next look at the clock
  std::optional<double> checkpoint;  ///< empty before the first one
  bool is_writing = false;           ///< a checkpoint: it comes before the last one
};

/// How long before its end a run must ask for its last checkpoint.
class StopMargin {
 public:
  /// `checkpoint_bytes`: what this rank writes for a checkpoint. Before one was measured they are taken to go at 100
  /// MB/s, but never to take more than half of `seconds_left` at the start.
  StopMargin(std::int64_t checkpoint_bytes, double seconds_left);
  double seconds(const LastTimes& times) const;

 private:
  double estimate_, most_;
};

/// One rank's view.
class StopConditions {
 public:
  /// `start`: of the process. `folder`: the run's; only rank 0 looks at clock and files. `signals` outlive the
  /// conditions. `checkpoint_bytes`: what this rank writes for a checkpoint.
  StopConditions(const Options& options, const StopSignals& signals, std::chrono::steady_clock::time_point start,
                 const std::filesystem::path& folder, bool is_rank_0, std::int64_t checkpoint_bytes);

  /// "at 14:32:10, 75.5 s before run.walltime"; empty without a limit.
  std::string announcement() const;
  /// What to ask for with the coming step.
  std::int32_t requests(const LastTimes& times);
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
  StopMargin margin_;
  const StopSignals& signals_;
  std::filesystem::path stop_file_, checkpoint_file_;
  bool is_rank_0_, stop_file_seen_ = false, checkpoint_file_seen_ = false;
  std::deque<bool> answers_file_;  ///< of the checkpoints that are being written, in order
  std::chrono::steady_clock::time_point last_checkpoint_, last_look_;
  std::string reason_;
};

}  // namespace tessera
