#pragma once
// What rank 0 writes and shows while a run goes on: metrics.h5, log.jsonl, status.json, config.ini, the progress on the
// terminal. Of it the step's path has only the handing over of a row and a line of the log. Once a run has begun, none
// of these files can end it: what cannot be written is said once on the terminal, log and status are tried again, the
// metrics file is given up.

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <string>

#include "tessera/backend/device_monitor.hpp"
#include "tessera/engine/checkpoint.hpp"
#include "tessera/engine/session.hpp"
#include "tessera/io/metrics_file.hpp"
#include "tessera/io/run_folder.hpp"
#include "tessera/io/run_lock.hpp"
#include "tessera/telemetry/progress.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace tessera {

/// How one step went on this rank.
struct StepReport {
  std::int64_t step = 0;
  StepResult result;
  double learning_rate = 0, seconds = 0;
  StepTimeTotals times;
  std::array<CommunicationRow, kCollectiveNames.size()> communication;  ///< of this step
};

/// Measured bytes of one rank; -1 where unknown.
struct MeasuredMemory {
  CategoryBytes categories{};  ///< resident bytes of each category's storages (see resident_bytes)
  std::int64_t process = -1;   ///< proportional set size, less what it was before memory was allocated
};

class RunRecorder {
 public:
  /// Takes the folder (UsageError when it is used, or has files in it that checkpoint.resume does not speak of; IoError
  /// when the holder of its lock does not end, or where auto finds no folder although Slurm has started the job before)
  /// and writes config.ini and status.json. Rank 0 only. `options` as resolved for this run; they must outlive the
  /// recorder.
  RunRecorder(const Options& options, const std::filesystem::path& folder, std::int64_t ranks);
  ~RunRecorder();

  /// From begin() on, every report has a look at this GPU. Before begin().
  void watch(std::unique_ptr<DeviceMonitor> monitor) { monitor_ = std::move(monitor); }
  /// Opens metrics.h5 and log.jsonl once the run is planned. Earlier metrics files lose the rows after `steps_done`.
  void begin(const PlannedRun& planned, std::int64_t steps_done, std::int64_t steps, const RunFacts& facts);
  void record_step(const StepReport& report, std::int64_t global_tokens);
  void record_evaluation(std::int64_t step, double loss);
  void record_checkpoint(const CheckpointReport& report);
  /// What was measured, an entry per rank.
  void record_memory(const std::vector<MeasuredMemory>& ranks);
  void record_first_step(double seconds_since_start);
  /// Before the checkpoint of `step` is published: its row and those before it are durable, unless metrics cannot be
  /// written. Any thread.
  void make_rows_durable(std::int64_t step);
  /// Closes everything and leaves the last status. Does not throw.
  void finish(RunState state, ExitCode code, const std::string& message);

  const std::filesystem::path& folder() const { return folder_.path(); }
  /// For folder_has_owner().
  const std::string& nonce() const { return lock_.nonce(); }
  IoThread& io() { return io_; }
  /// A line of its own on the terminal.
  void say(const std::string& line);

 private:
  void append_log(const std::string& line);
  template <class F>
  void with_metrics(F&& f);
  template <class F>
  void or_warn(std::string& said, F&& f);
  void post_status(RunStatus status);
  RunStatus status(RunState state, int code, const std::string& message) const;

  const Options& options_;
  RunFolder folder_;
  RunLock lock_;
  IoThread io_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<LineLog> log_;
  std::unique_ptr<DeviceMonitor> monitor_;
  std::unique_ptr<Progress> progress_;
  std::int64_t step_ = 0, steps_ = 0;
  double started_ = 0;
  double recording_seconds_ = 0;  ///< since the last row
  bool metrics_given_up_ = false;
  std::string log_warning_, status_warning_;  ///< what was said last
  std::future<void> status_written_;          ///< on the I/O thread; ready when there is none
  std::chrono::steady_clock::time_point status_time_;
};

}  // namespace tessera
