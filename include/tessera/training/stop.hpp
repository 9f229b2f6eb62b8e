#pragma once
// Reasons for a run to stop early or to make a checkpoint between its regular ones: signals, the clock, files in the
// run folder. Every rank looks when the rest of a step is done, and its requests travel with the step's scalars, so
// that all act at the same step boundary. In a step of several micro-steps every rank also looks before each of them,
// and a step whose rest would take long is given up.

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/config/options.hpp"
#include "tessera/engine/player.hpp"
#include "tessera/training/checkpoint_clock.hpp"

namespace tessera {

/// A rank's requests to all ranks, to be met after the step; their sums over ranks stay distinguishable.
struct StepRequests {
  static constexpr std::int32_t kStop = 1, kCheckpoint = 1 << 20;  ///< a million ranks at most
  static bool stop(std::int64_t sum) { return (sum & (kCheckpoint - 1)) != 0; }
  static bool checkpoint(std::int64_t sum) { return sum >= kCheckpoint; }
};

/// If the rest of a step takes longer than so many seconds, the step is given up for a stop.
inline constexpr double kLongRest = 10;

/// Notes SIGUSR1, SIGTERM, SIGINT and SIGHUP instead of ending the process (SIGHUP unless it was ignored, as under
/// nohup). A second one, of any of them, half a second or more after the first ends the process at once. That holds
/// until the process has ended, because a signal may be sent twice, or come late. One object at a time, on the thread
/// that computes; other threads receive none (base/threads.hpp). During its lifetime the handlers run on a separate
/// stack, because oneDNN's matmuls use the stack pointer as one more pointer into their buffers, where a handler's
/// frame would be.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Returns "SIGUSR1", or empty.
  std::string received() const;

 private:
  struct Signal {
    int number;
    const char* name;
  };
  static constexpr std::array<Signal, 4> kSignals{
      {{SIGUSR1, "SIGUSR1"}, {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGHUP, "SIGHUP"}}};
  std::vector<std::byte> stack_;
  stack_t stack_before_{};
};

/// When the process must have ended, by run.walltime or by Slurm's limit of the job; without a limit, never.
class Deadline {
 public:
  /// `start`: of the process. A monotonic clock measures run.walltime, whereas the end of a Slurm job is a time of day.
  /// The earlier of both counts.
  /// `ask` returns the present end of the Slurm job, in seconds since 1970; nothing if nobody knows.
  Deadline(double walltime, std::chrono::steady_clock::time_point start, std::function<std::optional<double>()> ask);
  /// Returns the seconds left; infinity without a limit.
  double seconds_left() const { return std::min(left_of_walltime(), left_of_job()); }
  /// Asks for the job's end once more, unless run.walltime comes first, or this end was asked for already. Returns
  /// whether it has moved.
  bool ask_again();
  /// Names the earlier one: the option or the variable that sets it.
  std::string name() const;

 private:
  double left_of_walltime() const;
  double left_of_job() const;
  std::chrono::steady_clock::time_point start_;
  double walltime_;  ///< seconds, infinity without a limit
  double job_end_;   ///< seconds since 1970, infinity without a limit
  std::function<std::optional<double>()> ask_;
  double asked_ = 0;  ///< the last end for which Slurm was asked whether it has moved
};

/// Durations of the latest step, evaluations and checkpoint, in seconds.
struct LastTimes {
  double step = 0;                   ///< or of the part of it before the next check of the clock
  double evaluations = 0;            ///< of those that are due before and after that check
  std::optional<double> checkpoint;  ///< empty before the first one
  bool is_writing = false;           ///< whether a checkpoint is being written, which comes before the last one
};

/// How long before its end a run must ask for its last checkpoint.
class StopMargin {
 public:
  /// `checkpoint_bytes`: this rank's share of a checkpoint. Before the first measurement a speed of 100 MB/s is
  /// assumed, but at most half of `seconds_left` at the start.
  StopMargin(std::int64_t checkpoint_bytes, double seconds_left);
  double seconds(const LastTimes& times) const;

 private:
  double estimate_, most_;
};

/// One rank's view of the reasons to stop.
class StopConditions {
 public:
  /// `start`: of the process. `folder`: the run's; only rank 0 checks clock and files. `signals` must outlive the
  /// conditions. `checkpoint_bytes`: this rank's share of a checkpoint. `nodes`: of the run.
  StopConditions(const Options& options, const StopSignals& signals, std::chrono::steady_clock::time_point start,
                 const std::filesystem::path& folder, bool is_rank_0, std::int64_t checkpoint_bytes,
                 std::int64_t nodes);

  /// Returns "at 14:32:10, 75.5 s before run.walltime"; empty without a limit.
  std::string announcement() const;
  /// Returns whether the end of the Slurm job has moved since the last call.
  bool has_moved() { return std::exchange(has_moved_, false); }
  /// Returns the requests for the end of the step, when all the rest of it is done.
  std::int32_t requests(const LastTimes& times);
  /// Returns the wish before a micro-step; `times.step` is what the step still needs. In the first step of a start the
  /// clock does not count, because a run that is always given too little time would never get anywhere.
  StepWish wish(const LastTimes& times, bool is_first_step);
  /// Returns whether a signal was received.
  bool heard_signal();
  /// Notes that a checkpoint of the present state begins, and restarts the clock of the next one. A file
  /// that asks for a checkpoint is ignored until this one is written.
  void checkpoint_begins();
  /// Notes that a checkpoint is on disk, and removes the file that asked for it. It took `whole` seconds; for `cost` of
  /// these the run stopped.
  void checkpoint_written(double cost, double whole);
  /// Returns how often a checkpoint is written, if checkpoint.every = auto decides it and has changed it by much.
  std::string checkpoint_news() { return checkpoint_clock_.news(); }
  /// Returns why this rank wants to stop; empty if it does not.
  const std::string& reason() const { return reason_; }
  /// Removes RUN/stop, so that the next start does not stop at once. Returns whether it was there; on rank 0 only.
  bool stopped();

 private:
  bool looks_at_files();
  void look(const LastTimes& times, bool at_clock);
  CheckpointClock checkpoint_clock_;
  Deadline deadline_;
  StopMargin margin_;
  const StopSignals& signals_;
  std::filesystem::path stop_file_, checkpoint_file_;
  bool is_rank_0_, stop_file_seen_ = false, checkpoint_file_seen_ = false, has_moved_ = false;
  std::deque<bool> answers_file_;  ///< of the checkpoints that are being written, in order
  std::chrono::steady_clock::time_point last_look_;
  std::string reason_;
};

}  // namespace tessera
