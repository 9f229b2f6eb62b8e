#include "tessera/training/recorder.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/checkpoint/folder.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/validation_sources.hpp"
#include "tessera/run/metrics_history.hpp"
#include "tessera/schedule/print_json.hpp"

namespace tessera {

namespace {

/// The most that /samples keeps of one text; log.jsonl has all.
constexpr std::int64_t kSampleBytes = 4096;

using Clock = std::chrono::steady_clock;

constexpr auto kStatusEvery = std::chrono::seconds(2);

void warn(const std::string& line) { Log(0, 1).warn(line); }

/// Adds the time from here to the end of its scope.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

/// Returns whether Slurm has started the job before: then there is a run folder, or was one.
bool is_slurm_restart() {
  const char* count = std::getenv("SLURM_RESTART_COUNT");  // NOLINT(concurrency-mt-unsafe): it never changes
  return count != nullptr && std::atoll(count) > 0;
}

RunFolder open_folder(const std::string& resume, const std::filesystem::path& folder) {
  return resume == "none" ? RunFolder::create(folder)
                          : RunFolder::resume(folder, resume == "auto" && is_slurm_restart());
}

LockSettings lock_settings(const std::string& resume) {
  LockSettings settings;
  settings.say = warn;
  if (resume == "none") settings.patience = settings.patience_with_running;  // its holder leaves files in it
  return settings;
}

double unix_now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Returns the category's group in /memory.
std::string memory_name(Category category) {
  std::string name(name_of(category));
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

constexpr const char *kFirstStep = "seconds_to_first_step", *kLoadAtEnd = "load_average_end",
                     *kForeignAtEnd = "gpu_foreign_processes_end";

std::vector<std::pair<std::string, AttributeValue>> model_attributes(const ModelFacts& model) {
  return {{"parameters", model.parameters},
          {"tokens_per_step", model.tokens_per_step},
          {"samples_per_epoch", model.samples_per_epoch},
          {"steps_per_epoch", model.steps_per_epoch},
          {"flops_per_token_6n", model.flops_per_token_6n},
          {"flops_per_token", model.flops_per_token},
          {"device_peak_flops", model.device_peak_flops},
          {"device_peak_source", model.device_peak_source}};
}

MetricsLayout metrics_layout(const Options& options, const PlannedRun& planned, const RunAccount& account) {
  MetricsLayout layout;
  layout.step_times = layout.rank_times = time_category_names();
  layout.step_times.emplace_back("recording");
  layout.overlap_times = overlap_names();
  const auto ranks = static_cast<std::size_t>(planned.schedule.grid.world());
  for (int c = 0; c < kCategories; ++c) {
    std::int64_t bytes = 0;
    for (const SpacePlan& place : planned.plan.spaces) bytes += place.own_peak[static_cast<std::size_t>(c)];
    layout.memory.push_back({memory_name(static_cast<Category>(c)), std::vector<std::int64_t>(ranks, bytes)});
  }
  layout.memory.push_back({"process", std::vector<std::int64_t>(ranks, planned.plan.total())});
  for (const OptionValue& option : flat_options(options)) layout.config.emplace_back(option.name, option.value);
  layout.provenance = provenance(account.facts);
  constexpr double kLater = std::numeric_limits<double>::quiet_NaN();
  layout.numbers = {{kFirstStep, kLater},
                    {"cores", account.cores},
                    {"compute_threads", account.compute_threads},
                    {"load_average_start", account.load.load_average},
                    {kLoadAtEnd, kLater},
                    {"gpu_foreign_processes_start", account.load.gpu_foreign_processes},
                    {kForeignAtEnd, kLater}};
  layout.model = model_attributes(account.model);
  layout.schedule = schedule_json_text(planned.schedule, planned.plan);
  layout.schedule_format = kScheduleFormat;
  if (planned.schedule.unit_sums) {
    for (const Unit& unit : planned.schedule.layout.units) layout.layers.push_back(unit.name);
  }
  layout.device = account.has_monitor;
  layout.swmr = options.metrics.swmr;
  if (options.train.sample_every > 0) layout.sample_bytes = kSampleBytes;
  for (const ValidationSource& set : validation_sources(options.data.val_source)) layout.eval_sets.push_back(set.name);
  return layout;
}

}  // namespace

RunRecorder::RunRecorder(const Options& options, const std::filesystem::path& folder, std::int64_t ranks)
    : options_(options),
      folder_(open_folder(options.checkpoint.resume, folder)),
      lock_(folder_.path(), 0, lock_settings(options.checkpoint.resume)),
      started_(unix_now()) {
  if (options.checkpoint.resume == "none") folder_.require_fresh();
  folder_.remove_leftovers();
  // Before anything is written: the remains of a process that died may fill the disk.
  for (const std::string& line : CheckpointFolder(folder_.path() / "checkpoints").recover()) Log(0, 1).warn(line);
  Options repeated = options;
  repeated.run.dir.clear();  // this folder is in use: the repeated run takes its own
  try {
    lock_.write_owner();
    folder_.write_config(run_config(repeated, ranks));
  } catch (const IoError& error) {
    finish(RunState::failed, error.code(), error.what());
    throw;
  }
  post_status("starting");
}

RunRecorder::~RunRecorder() = default;

void RunRecorder::begin(const PlannedRun& planned, std::int64_t steps_done, std::int64_t steps,
                        const RunAccount& account) {
  has_monitor_ = account.has_monitor;
  MetricsLayout layout = metrics_layout(options_, planned, account);
  try {
    const bool goes_back_by_hand = options_.checkpoint.resume != "auto";
    const auto failures = io_.run([&] { return end_history_after(folder_.path(), steps_done, goes_back_by_hand); });
    std::ranges::for_each(failures, warn);
    metrics_ = std::make_unique<MetricsFile>(io_, folder_.path(), std::move(layout));
  } catch (const IoError& error) {
    metrics_given_up_ = true;
    warn(fmt::format("{}: the run goes on without metrics", error.what()));
  }
  if (options_.metrics.tensorboard) {
    post_events([this, now = unix_now(), steps_done] {
      events_ = std::make_unique<EventFile>(folder_.path() / "tensorboard", now, steps_done + 1);
    });
  }
  const std::lock_guard guard(shared_);
  step_ = steps_done;
  steps_ = steps;
  progress_ = std::make_unique<Progress>(stdout, options_.metrics.every);
}

/// Errors of the metrics file come with the next call. HDF5 files that an error has left are not written again.
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

/// Reports each new error once; the next call tries again.
template <class F>
void RunRecorder::or_warn(std::string& said, F&& f) {
  try {
    f();
    if (const std::string before = std::exchange(said, {}); !before.empty()) warn("no longer so: " + before);
  } catch (const IoError& error) {
    if (std::exchange(said, error.what()) != error.what()) warn(fmt::format("{}: the run goes on", error.what()));
  }
}

/// An error ends the event file: a record that was cut off hides what follows it from readers.
void RunRecorder::post_events(std::function<void()> task) {
  io_.post(IoPriority::rows, [this, task = std::move(task)] {
    try {
      task();
    } catch (const IoError& error) {
      events_.reset();
      warn(fmt::format("{}: the run goes on without event files", error.what()));
    }
  });
}

void RunRecorder::append_events(std::int64_t step, EventScalars scalars) {
  if (!options_.metrics.tensorboard) return;
  post_events([this, now = unix_now(), step, scalars = std::move(scalars)] {
    if (events_ != nullptr) events_->append(now, step, scalars);
  });
}

void RunRecorder::append_log(const std::string& line) {
  or_warn(log_warning_, [&] {
    if (log_ == nullptr) log_ = std::make_unique<LineLog>(folder_.log_path());
    log_->append(line);
  });
}

void RunRecorder::record_step(const StepReport& report, std::int64_t global_tokens) {
  const double rate = static_cast<double>(global_tokens) / report.seconds;
  StepRow row;
  row.step = report.step;
  row.skipped = report.result.skipped;
  row.timed = report.times.measured;
  row.loss = report.result.loss;
  row.grad_norm = report.result.grad_norm;
  row.lr = report.learning_rate;
  row.seconds = report.seconds;
  row.unix_time = unix_now();
  row.tokens_per_second = rate;
  row.times = report.times.all_seconds();
  row.times.push_back(std::exchange(recording_seconds_, 0.0));
  row.communication = report.communication;
  const Stopwatch recording(recording_seconds_);
  with_metrics([&](MetricsFile& metrics) { metrics.append_step(std::move(row)); });
  append_events(report.step, {{"train/loss", report.result.loss},
                              {"train/grad_norm", report.result.grad_norm},
                              {"train/lr", report.learning_rate},
                              {"train/tokens_per_second", rate},
                              {"train/seconds", report.seconds}});

  const double exposed = report.times.exposed_seconds() / report.seconds;
  if (report.times.measured) exposed_share_ = exposed;
  ProgressState state;
  state.step = report.step;
  state.steps = steps_;
  state.loss = report.result.loss;
  state.tokens_per_second = rate;
  state.step_seconds = report.seconds;
  state.exposed_share = exposed_share_;
  {
    const std::lock_guard guard(shared_);
    step_ = report.step;
    progress_->update(state);
  }

  if (report.step % options_.metrics.every == 0 || report.step == 1 || report.step == steps_) {
    const std::array<JsonField, 9> fields{{{"step", report.step},
                                           {"loss", report.result.loss},
                                           {"grad_norm", report.result.grad_norm},
                                           {"lr", report.learning_rate},
                                           {"seconds", report.seconds},
                                           {"tokens_per_second", rate},
                                           {"exposed_share", exposed},
                                           {"skipped", report.result.skipped},
                                           {"unix_time", unix_now()}}};
    append_log(json_line(fields));
  }
  if (Clock::now() - status_time_ > kStatusEvery) post_status();
}

void RunRecorder::record_evaluation(std::int64_t step, const std::vector<Evaluation>& evaluations) {
  const Stopwatch recording(recording_seconds_);
  {
    const std::lock_guard guard(shared_);
    evaluations_ = evaluations;
    evaluated_step_ = step;
  }
  EvalRow row{step, {}};
  EventScalars events;
  for (const Evaluation& one : evaluations) {
    row.losses.push_back(one.loss);
    events.emplace_back(one.set.empty() ? "eval/loss" : fmt::format("eval/{}/loss", one.set), one.loss);
  }
  with_metrics([&](MetricsFile& metrics) { metrics.append_eval(std::move(row)); });
  append_events(step, std::move(events));
  // The first set's numbers have plain keys, which readers look for; sets with names have keys of their own.
  std::vector<std::string> keys;
  std::vector<JsonField> fields{{"step", step},
                                {"validation_loss", evaluations.at(0).loss},
                                {"validation_perplexity", evaluations.at(0).perplexity()}};
  for (const Evaluation& one : evaluations) {
    if (one.set.empty()) continue;
    keys.push_back("validation_loss/" + one.set);
    keys.push_back("validation_perplexity/" + one.set);
  }
  std::size_t key = 0;
  for (const Evaluation& one : evaluations) {
    if (one.set.empty()) continue;
    fields.emplace_back(keys[key++], one.loss);
    fields.emplace_back(keys[key++], one.perplexity());
  }
  fields.emplace_back("unix_time", unix_now());
  append_log(json_line(fields));
  say(fmt::format("step {}: {}", step, describe(evaluations)));
}

void RunRecorder::record_sample(std::int64_t step, const std::string& prompt, const std::string& text) {
  const Stopwatch recording(recording_seconds_);
  with_metrics([&](MetricsFile& metrics) { metrics.append_sample(step, prompt + text); });
  const std::array<JsonField, 4> fields{
      {{"step", step}, {"sample_prompt", prompt}, {"sample", text}, {"unix_time", unix_now()}}};
  append_log(json_line(fields));
  say(printable(fmt::format("step {}: sample\n{}{}", step, prompt, text)));
}

void RunRecorder::record_checkpoint(const CheckpointReport& report) {
  const Stopwatch recording(recording_seconds_);
  const std::array<JsonField, 6> fields{{{"step", report.step},
                                         {"checkpoint_bytes", report.bytes},
                                         {"blocked_seconds", report.blocked_seconds},
                                         {"waited_seconds", report.waited_seconds},
                                         {"background_seconds", report.background_seconds},
                                         {"unix_time", unix_now()}}};
  with_metrics([&](MetricsFile& metrics) {
    metrics.append_checkpoint(
        {report.step, report.bytes, report.blocked_seconds, report.waited_seconds, report.background_seconds});
  });
  append_log(json_line(fields));
  std::string text = fmt::format("step {}: checkpoint of {} in {}", report.step, format_bytes(report.bytes),
                                 format_seconds(report.blocked_seconds + report.background_seconds));
  if (report.background_seconds > 0) text += fmt::format("; steps waited {}", format_seconds(report.blocked_seconds));
  if (report.waited_seconds > 0)
    text += fmt::format(", {} of it for the checkpoint before", format_seconds(report.waited_seconds));
  say(text);
}

void RunRecorder::record_memory(const std::vector<RankValues>& ranks) {
  with_metrics([&](MetricsFile& metrics) {
    std::vector<std::int64_t> bytes(ranks.size());
    for (std::size_t kind = 0; kind < kMeasuredMemory; ++kind) {
      for (std::size_t r = 0; r < ranks.size(); ++r) bytes[r] = ranks[r].measured.at(kind);
      metrics.set_measured_memory(kind < kCategories ? memory_name(static_cast<Category>(kind)) : "process", bytes);
    }
  });
}

void RunRecorder::record_first_step(double seconds_since_start) {
  with_metrics([&](MetricsFile& metrics) { metrics.set_number(kFirstStep, seconds_since_start); });
}

void RunRecorder::record_ranks(RankRow row) {
  const Stopwatch recording(recording_seconds_);
  if (row.straggler.rank >= 0) append_log(straggler_line(row));
  const std::string news = [&] {
    const std::lock_guard guard(shared_);
    return stragglers_.after(row);
  }();
  if (!news.empty()) say(news);
  with_metrics([&](MetricsFile& metrics) {
    DeviceRow device = row.ranks.at(0).device;
    device.step = row.step;
    if (has_monitor_) metrics.append_device(device);
    metrics.append_ranks(std::move(row));
  });
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
    stopping_ = line;
    if (progress_ != nullptr) {
      progress_->message(line);
    } else {
      Log(0, 1).info(line);
    }
  }
  // Not by post_status, which leaves one out while another is being written. A failure shows with the next one.
  io_.post(IoPriority::rows, [this, now = status(RunState::running, 0, "")] {
    try {
      folder_.write_status(now, false);
    } catch (const IoError&) {
      return;
    }
  });
}

void RunRecorder::make_rows_durable(std::int64_t step) {
  if (metrics_ != nullptr) metrics_->make_durable(step);
}

void RunRecorder::finish(RunState state, ExitCode code, const std::string& message) {
  progress_.reset();
  with_metrics([](MetricsFile& metrics) { metrics.close(); });
  const std::string lost = missing(), whole = message + (message.empty() || lost.empty() ? "" : "; ") + lost;
  or_warn(status_warning_,
          [&] { io_.run([&, last = status(state, static_cast<int>(code), whole)] { folder_.write_status(last); }); });
}

std::string RunRecorder::missing() const {
  std::error_code unseen;
  const bool has_rows = std::filesystem::exists(folder() / "metrics.h5", unseen), lacks_lines = !log_warning_.empty();
  const char* const metrics = !metrics_given_up_ ? "" : has_rows ? "metrics lack rows" : "without metrics";
  const char* const between = metrics_given_up_ && lacks_lines ? ", " : "";
  return fmt::format("{}{}{}", metrics, between, lacks_lines ? "log.jsonl lacks lines" : "");
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
  if (options_.run.dump > 0) add(fmt::format("dump-{:08}.h5", options_.run.dump), "");
  return text + (missing().empty() ? "" : "; ") + missing();
}

RunStatus RunRecorder::status(RunState state, int code, const std::string& message) const {
  const std::lock_guard guard(shared_);
  const bool is_stopping = state == RunState::running && !stopping_.empty();
  RunStatus status{state,    step_,      steps_,          code, is_stopping ? stopping_ : message,
                   started_, unix_now(), evaluated_step_, {},   stragglers_.rank()};
  for (const Evaluation& one : evaluations_) status.validation_losses.emplace_back(one.set, one.loss);
  return status;
}

/// Unless the previous one is still being written: the disk is slow, and the next one is more recent.
void RunRecorder::post_status(const std::string& message) {
  if (status_written_.valid()) {
    if (status_written_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    or_warn(status_warning_, [&] { status_written_.get(); });
  }
  status_time_ = Clock::now();
  auto task = std::make_shared<std::packaged_task<void()>>(
      [this, now = status(RunState::running, 0, message)] { folder_.write_status(now, false); });
  status_written_ = task->get_future();
  io_.post(IoPriority::rows, [task] { (*task)(); });
}

}  // namespace tessera
