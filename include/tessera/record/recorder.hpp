#pragma once
// Rank 0's files and output during a run: metrics.h5, log.jsonl, status.json, config.ini, and the progress
// on the terminal. The training thread only hands over one row per step and writes a line of the log. Once a run has
// begun, none of these files can end it: a failed write is reported once on the terminal, log and status are retried,
// and the metrics file is abandoned.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>

#include "tessera/files/io_thread.hpp"
#include "tessera/record/machine_load.hpp"
#include "tessera/record/measures.hpp"
#include "tessera/record/prediction.hpp"
#include "tessera/record/run_facts.hpp"
#include "tessera/record/status_writer.hpp"
#include "tessera/record/straggler_notice.hpp"
#include "tessera/run/folder.hpp"
#include "tessera/run/lock.hpp"
#include "tessera/run/metrics_file.hpp"
#include "tessera/schedule/planned_run.hpp"
#include "tessera/telemetry/progress.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace tessera {

/// The contents of metrics.h5 apart from its rows.
struct RunAccount {
  RunFacts facts;
  std::vector<std::pair<std::string, AttributeValue>> model;    ///< attributes of /model
  std::vector<std::pair<std::string, AttributeValue>> sources;  ///< of /sources; empty without a mixture
  MachineLoad load;                                             ///< at the start
  bool has_monitor = false;                                     ///< rank 0's GPU is monitored (/device, /ranks/device)
  int cores = 0;                                                ///< cores of rank 0's machine that its ranks may use
  int compute_threads = 0;                                      ///< of all ranks on rank 0's machine
  std::optional<RunPrediction> prediction = {};                 ///< of this start's step
};

/// The loop of a run hands its reports to a recorder. Ranks other than 0 have this one, which ignores them.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void record_first_step(double /*seconds_since_start*/) {}
  virtual void record_step(const StepReport& /*report*/, std::int64_t /*global_tokens*/) {}
  /// Records the losses of the validation sets after a step, at least one.
  virtual void record_evaluation(std::int64_t /*step*/, const std::vector<Evaluation>& /*evaluations*/) {}
  virtual void record_sample(std::int64_t /*step*/, const std::string& /*prompt*/, const std::string& /*text*/) {}
  virtual void record_checkpoint(const CheckpointReport& /*report*/) {}
  /// Records the measurements after the first step, for /memory.
  virtual void record_memory(const std::vector<RankValues>& /*ranks*/) {}
  /// Records the measurements of all ranks since the previous report, and the state of rank 0's GPU.
  virtual void record_ranks(const RankRow& /*row*/) {}
  /// Call before the checkpoint of `step` is published: makes its row and those before it durable, unless metrics
  /// cannot be written. May be called on any thread.
  virtual void make_rows_durable(std::int64_t /*step*/) {}
  /// Prints a separate line on the terminal. May be called on any thread.
  virtual void say(const std::string& /*line*/) {}
  /// Runs a task that calls HDF5, and returns when it is done. Rethrows its exception.
  virtual void run_hdf5(const std::function<void()>& task) { task(); }
};

enum class RunTable : std::uint8_t;  ///< of metrics.h5

class RunRecorder final : public Recorder {
 public:
  /// Takes the folder and writes config.ini and status.json. Throws UsageError when it is in use, or has files in it
  /// although checkpoint.resume does not name it, and IoError when the holder of its lock does not end. Rank 0 only.
  /// `options` are as resolved for this run and must outlive the recorder.
  RunRecorder(const Options& options, const std::filesystem::path& folder, std::int64_t ranks);
  ~RunRecorder() override;

  /// Opens metrics.h5 and log.jsonl once the run is planned. Earlier metrics files lose the rows after `steps_done`
  /// and stay as they were under another name.
  void begin(const PlannedRun& planned, std::int64_t steps_done, std::int64_t steps, const RunAccount& account);
  void record_first_step(double seconds_since_start) override;
  void record_step(const StepReport& report, std::int64_t global_tokens) override;
  void record_evaluation(std::int64_t step, const std::vector<Evaluation>& evaluations) override;
  void record_sample(std::int64_t step, const std::string& prompt, const std::string& text) override;
  void record_checkpoint(const CheckpointReport& report) override;
  void record_memory(const std::vector<RankValues>& ranks) override;
  void record_ranks(const RankRow& row) override;
  void make_rows_durable(std::int64_t step) override;
  void say(const std::string& line) override;
  void run_hdf5(const std::function<void()>& task) override { io_.run(task, IoPriority::bulk); }
  void record_load_at_end(const MachineLoad& load);
  /// Closes everything and leaves the last status. Does not throw.
  void finish(RunState state, ExitCode code, const std::string& message, bool by_stop_file = false);

  const std::filesystem::path& folder() const { return folder_.path(); }
  /// Lists the run's files that exist, and says which are missing; call after finish().
  std::string written() const;
  /// Returns the comparison of the prediction with the steps of this start; empty without one.
  std::string compared() const { return prediction_ ? comparison(*prediction_, measured_.medians()) : ""; }
  /// Returns the nonce for folder_has_owner().
  const std::string& nonce() const { return lock_.nonce(); }
  /// Announces on the terminal and in the message of status.json that the run will stop. May be called on any thread.
  void announce_stop(const std::string& line);

 private:
  void append_log(const std::string& line);
  /// Adds the time to the fields and writes the line.
  void append_log(std::vector<JsonField> fields);
  template <class F>
  void with_metrics(F&& f);
  void append(RunTable table, std::vector<double> values);
  template <class Row>
  void append(RunTable table, const Measures<Row>& measures, const Row& row);
  std::string missing() const;

  const Options& options_;
  RunFolder folder_;
  RunLock lock_;
  IoThread io_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<LineLog> log_;
  StatusWriter status_;
  std::mutex shared_;  ///< of progress_, on which the thread of announce_stop() prints
  std::unique_ptr<Progress> progress_;
  std::int64_t steps_ = 0;
  double recording_seconds_ = 0;                                     ///< since the last row
  double exposed_share_ = std::numeric_limits<double>::quiet_NaN();  ///< of the last step that was timed
  Measures<StepReport> step_measures_;                               ///< of sources too
  Measures<EvaluationReport> evaluation_measures_;
  bool has_monitor_ = false;
  bool metrics_given_up_ = false;
  std::optional<RunPrediction> prediction_;
  MeasuredSteps measured_;   ///< with a prediction
  std::string log_warning_;  ///< the last
  StragglerNotice stragglers_;
};

}  // namespace tessera
