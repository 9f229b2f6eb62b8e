#include "tessera/record/recorder.hpp"

#include <algorithm>
#include <utility>

#include "record/metrics_layout.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/checkpoint/folder.hpp"
#include "tessera/config/data_sources.hpp"
#include "tessera/run/metrics_history.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

/// Adds the time from here to the end of its scope.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += seconds_since(start_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

LockSettings lock_settings(const std::string& resume) {
  LockSettings settings;
  settings.say = warn;
  if (resume == "none") settings.patience = settings.patience_with_running;  // its holder leaves files in the folder
  return settings;
}

}  // namespace

RunRecorder::RunRecorder(const Options& options, const std::filesystem::path& folder, std::int64_t ranks)
    : options_(options),
      folder_(options.checkpoint.resume == "none" ? RunFolder::create(folder) : RunFolder::resume(folder)),
      lock_(folder_.path(), 0, lock_settings(options.checkpoint.resume)),
      status_(folder_, io_) {
  if (options.checkpoint.resume == "none") folder_.require_fresh();
  folder_.remove_leftovers();
  // Done before anything is written, because the remains of a process that died may fill the disk.
  for (const std::string& line : CheckpointFolder(folder_.path() / "checkpoints").recover()) warn(line);
  Options repeated = options;
  repeated.run.dir.clear();  // this folder is in use, so the repeated run takes its own
  try {
    lock_.write_owner();
    folder_.write_config(run_config(repeated, ranks));
  } catch (const IoError& error) {
    finish(RunState::failed, error.code(), error.what());
    throw;
  }
  status_.post("starting");
  status_.wait();  // the file is there before others, such as those of the flight recorder, fill the disk
}

RunRecorder::~RunRecorder() = default;

void RunRecorder::begin(const PlannedRun& planned, std::int64_t steps_done, std::int64_t steps,
                        const RunAccount& account) {
  has_monitor_ = account.has_monitor;
  step_measures_ = step_measures();
  std::ranges::move(source_measures(mixture_names(options_.data)), std::back_inserter(step_measures_));
  evaluation_measures_ = evaluation_measures(validation_names(options_.data));
  prediction_ = account.prediction;
  MetricsLayout layout = metrics_layout(options_, planned, account);
  try {
    const auto failures = io_.run([&] { return end_history_after(folder_.path(), steps_done); });
    std::ranges::for_each(failures, warn);
    metrics_ = std::make_unique<MetricsFile>(io_, folder_.path(), std::move(layout));
  } catch (const IoError& error) {
    metrics_given_up_ = true;
    warn(fmt::format("{}: the run goes on without metrics", error.what()));
  }
  steps_ = steps;
  status_.change([&](RunStatus& status) { status.step = steps_done, status.steps = steps; });
  const std::lock_guard guard(shared_);
  progress_ = std::make_unique<Progress>(stdout, options_.metrics.every);
}

/// Errors of the metrics file come with the next call. HDF5 files are not written again after an error.
template <class F>
void RunRecorder::with_metrics(F&& f) {
  if (metrics_ == nullptr || metrics_given_up_) return;
  try {
    f(*metrics_);
  } catch (const IoError& error) {
    metrics_given_up_ = true;
    warn(fmt::format("{}: the run goes on without metrics", error.what()));
  }
}

void RunRecorder::append(RunTable table, std::vector<double> values) {
  with_metrics([&](MetricsFile& metrics) { metrics.append(at(table), {std::move(values)}); });
}

template <class Row>
void RunRecorder::append(RunTable table, const Measures<Row>& measures, const Row& row) {
  std::vector<double> values;
  add_values(values, measures, std::span(&row, 1));
  append(table, std::move(values));
}

void RunRecorder::append_log(std::vector<JsonField> fields) {
  fields.emplace_back("unix_time", unix_time());
  append_log(json_line(fields));
}

void RunRecorder::append_log(const std::string& line) {
  or_warn(log_warning_, [&] {
    if (log_ == nullptr) log_ = std::make_unique<LineLog>(folder_.log_path());
    log_->append(line);
  });
}

void RunRecorder::record_step(const StepReport& report, std::int64_t global_tokens) {
  StepReport row = report;
  row.tokens_per_second = static_cast<double>(global_tokens) / row.seconds;
  row.unix_time = unix_time();
  row.recording_seconds = std::exchange(recording_seconds_, 0.0);
  const Stopwatch recording(recording_seconds_);
  if (prediction_) measured_.add(row.seconds, row.times);
  append(RunTable::steps, step_measures_, row);

  if (row.times.measured) exposed_share_ = row.exposed_share();
  status_.change([&](RunStatus& status) { status.step = row.step; });
  {
    const std::lock_guard guard(shared_);
    ProgressState state;
    state.step = row.step;
    state.steps = steps_;
    state.loss = row.result.loss;
    state.tokens_per_second = row.tokens_per_second;
    state.step_seconds = row.seconds;
    state.exposed_share = exposed_share_;
    progress_->update(state);
  }

  if (row.step % options_.metrics.every == 0 || row.step == 1 || row.step == steps_) {
    append_log(fields_of(step_measures_, row));
  }
  status_.keep_fresh();
}

void RunRecorder::record_evaluation(std::int64_t step, const std::vector<Evaluation>& evaluations) {
  const Stopwatch recording(recording_seconds_);
  status_.change([&](RunStatus& status) {
    status.validation_losses.clear();
    for (const Evaluation& one : evaluations) status.validation_losses.emplace_back(one.set, one.loss);
    status.evaluated_step = step;
  });
  const EvaluationReport report{step, evaluations};
  append(RunTable::evaluations, evaluation_measures_, report);
  append_log(fields_of(evaluation_measures_, report));
  say(fmt::format("step {}: {}", step, describe(evaluations)));
}

void RunRecorder::record_sample(std::int64_t step, const std::string& prompt, const std::string& text) {
  const Stopwatch recording(recording_seconds_);
  with_metrics([&](MetricsFile& metrics) {
    metrics.append(at(RunTable::samples), {{static_cast<double>(step)}, prompt + text});
  });
  append_log({{"step", step}, {"sample_prompt", prompt}, {"sample", text}});
  say(printable(fmt::format("step {}: sample\n{}{}", step, prompt, text)));
}

void RunRecorder::record_checkpoint(const CheckpointReport& report) {
  const Stopwatch recording(recording_seconds_);
  status_.change([&](RunStatus& status) { status.checkpoint = report.step; });
  append(RunTable::checkpoints, checkpoint_measures(), report);
  append_log(fields_of(checkpoint_measures(), report));
  std::string text = fmt::format("step {}: checkpoint of {} in {}", report.step, format_bytes(report.bytes),
                                 format_seconds(report.blocked_seconds + report.background_seconds));
  if (report.background_seconds > 0) text += fmt::format("; steps waited {}", format_seconds(report.blocked_seconds));
  if (report.waited_seconds > 0)
    text += fmt::format(", {} of it for the checkpoint before", format_seconds(report.waited_seconds));
  say(text);
}

void RunRecorder::record_memory(const std::vector<RankValues>& ranks) {
  with_metrics([&](MetricsFile& metrics) {
    std::vector<std::int64_t> bytes;
    for (const RankValues& rank : ranks) bytes.push_back(rank.process);
    metrics.set_process_memory(std::move(bytes));
  });
}

void RunRecorder::record_first_step(double seconds_since_start) {
  with_metrics([&](MetricsFile& metrics) { metrics.set_number(kFirstStep, seconds_since_start); });
}

void RunRecorder::record_ranks(const RankRow& row) {
  const Stopwatch recording(recording_seconds_);
  if (row.straggler.rank >= 0) append_log(json_line(fields_of(report_measures(), row)));
  if (const std::string news = stragglers_.after(row); !news.empty()) say(news);
  status_.change([&](RunStatus& status) { status.straggler = stragglers_.rank(); });
  const std::span report(&row, 1);
  std::vector<double> ranks;
  add_values(ranks, report_measures(), report);
  add_values<RankValues>(ranks, rank_measures(), row.ranks);
  if (has_monitor_) {
    std::vector<DeviceSample> devices;
    for (const RankValues& rank : row.ranks) devices.push_back(rank.device);
    add_values<DeviceSample>(ranks, device_measures("ranks/device/"), devices);
    std::vector<double> device;
    add_values(device, step_of_report("device/step"), report);
    add_values(device, device_measures("device/"), std::span(&row.ranks.at(0).device, 1));
    append(RunTable::device, std::move(device));
  }
  if (!row.layer_norms.empty()) {
    std::vector<double> layers;
    add_values(layers, step_of_report("layers/step"), report);
    add_values<double>(layers, layer_measures(), row.layer_norms);
    append(RunTable::layers, std::move(layers));
  }
  append(RunTable::ranks, std::move(ranks));
  for (const OverlapRow& one : row.overlap) append(RunTable::overlap, overlap_measures(), one);
}

void RunRecorder::record_load_at_end(const MachineLoad& load) {
  with_metrics([&](MetricsFile& metrics) {
    metrics.set_number(kLoadAtEnd, load.load_average);
    metrics.set_number(kForeignAtEnd, load.gpu_foreign_processes);
  });
}

void RunRecorder::say(const std::string& line) {
  const std::lock_guard guard(shared_);
  if (progress_ != nullptr) progress_->message(line);
}

void RunRecorder::announce_stop(const std::string& line) {
  {
    const std::lock_guard guard(shared_);
    if (progress_ != nullptr) {
      progress_->message(line);
    } else {
      Log(0, 1).info(line);
    }
  }
  status_.announce_stop(line);
}

void RunRecorder::make_rows_durable(std::int64_t step) {
  if (metrics_ != nullptr) metrics_->make_durable(step);
}

void RunRecorder::finish(RunState state, ExitCode code, const std::string& message, bool by_stop_file) {
  progress_.reset();
  with_metrics([](MetricsFile& metrics) { metrics.close(); });
  status_.change([&](RunStatus& status) { status.by_stop_file = by_stop_file; });
  const std::string lost = missing();
  status_.finish(state, code, message + (message.empty() || lost.empty() ? "" : "; ") + lost);
}

std::string RunRecorder::missing() const {
  std::error_code unseen;
  const bool has_rows = std::filesystem::exists(folder() / "metrics.h5", unseen);
  const char* const metrics = !metrics_given_up_ ? "" : has_rows ? "metrics lack rows" : "without metrics";
  return joined(std::array{metrics, log_warning_.empty() ? "" : "log.jsonl lacks lines"});
}

std::string RunRecorder::written() const {
  std::string text;
  const auto add = [&](const std::string& name, const char* what) {
    std::error_code unseen;
    const std::filesystem::path path = folder() / name;
    if (std::filesystem::exists(path, unseen)) text += (text.empty() ? "" : ", ") + path.string() + what;
  };
  add("metrics.h5", " (curves)");
  add("log.jsonl", " (lines)");
  add("status.json", "");
  add("config.ini", " (repeats the run)");
  if (!CheckpointFolder(folder() / "checkpoints").steps().empty()) add("checkpoints", "");
  if (options_.run.dump > 0) add(fmt::format("dump-{:08}.h5", options_.run.dump), "");
  return text + (missing().empty() ? "" : "; ") + missing();
}

}  // namespace tessera
