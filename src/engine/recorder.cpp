#include "tessera/engine/recorder.hpp"

#include "tessera/base/format.hpp"
#include "tessera/config/describe.hpp"

namespace tessera {

namespace {

constexpr auto kStatusEvery = std::chrono::seconds(2);

double unix_now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// The category's group in /memory.
std::string memory_name(Category category) {
  std::string name(name_of(category));
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

MetricsLayout metrics_layout(const Options& options, const PlannedRun& planned, const RunFacts& facts) {
  MetricsLayout layout;
  layout.step_times = time_category_names();
  const auto ranks = static_cast<std::size_t>(planned.schedule.grid.world);
  for (int c = 0; c < kCategories; ++c) {
    std::int64_t bytes = 0;
    for (const PlacePlan& place : planned.plan.places) bytes += place.own_peak[static_cast<std::size_t>(c)];
    layout.memory.push_back({memory_name(static_cast<Category>(c)), std::vector<std::int64_t>(ranks, bytes)});
  }
  layout.memory.push_back({"process", std::vector<std::int64_t>(ranks, planned.plan.total())});
  for (const OptionValue& option : flat_options(options)) layout.config.emplace_back(option.name, option.value);
  layout.provenance = provenance(facts);
  layout.swmr = options.metrics.swmr;
  return layout;
}

}  // namespace

RunRecorder::RunRecorder(const Options& options, const std::filesystem::path& folder, std::int64_t ranks)
    : options_(options),
      folder_(options.checkpoint.resume == "none" ? RunFolder::create(folder) : RunFolder::resume(folder)),
      lock_(folder_.path(), 0),
      started_(unix_now()) {
  Options repeated = options;
  repeated.run.dir.clear();  // this folder is used now: the run repeated takes its own
  folder_.write_config(run_config(repeated, ranks));
  write_status(RunState::running, 0, "starting");
}

RunRecorder::~RunRecorder() = default;

void RunRecorder::begin(const PlannedRun& planned, std::int64_t steps, const RunFacts& facts) {
  steps_ = steps;
  MetricsLayout layout = metrics_layout(options_, planned, facts);
  layout.device = monitor_ != nullptr;
  metrics_ = std::make_unique<MetricsFile>(io_, folder_.path(), std::move(layout));
  log_ = std::make_unique<LineLog>(folder_.log_path());
  progress_ = std::make_unique<Progress>(stdout, options_.metrics.every);
}

void RunRecorder::record_step(const StepReport& report, std::int64_t global_tokens) {
  step_ = report.step;
  const double rate = static_cast<double>(global_tokens) / report.seconds;
  StepRow row;
  row.step = report.step;
  row.skipped = report.result.skipped;
  row.loss = report.result.loss;
  row.grad_norm = report.result.grad_norm;
  row.lr = report.learning_rate;
  row.seconds = report.seconds;
  row.unix_time = unix_now();
  row.tokens_per_second = rate;
  row.times = report.times.all_seconds();
  row.communication = report.communication;
  metrics_->append_step(std::move(row));

  const double exposed = report.times.exposed_seconds() / report.seconds;
  ProgressState state;
  state.step = report.step;
  state.steps = steps_;
  state.loss = report.result.loss;
  state.tokens_per_second = rate;
  state.step_seconds = report.seconds;
  state.exposed_share = exposed;
  progress_->update(state);

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
    log_->append(json_line(fields));
    if (monitor_ != nullptr) {
      const DeviceSample s = monitor_->sample();
      metrics_->append_device({report.step, s.utilization, s.memory_used, s.power, s.energy});
    }
  }
  if (std::chrono::steady_clock::now() - status_written_ > kStatusEvery) write_status(RunState::running, 0, "");
}

void RunRecorder::record_evaluation(std::int64_t step, double loss) {
  metrics_->append_eval(step, loss);
  const std::array<JsonField, 3> fields{{{"step", step}, {"validation_loss", loss}, {"unix_time", unix_now()}}};
  log_->append(json_line(fields));
  say(fmt::format("step {}: validation loss {:.4f}", step, loss));
}

void RunRecorder::record_checkpoint(const CheckpointReport& report) {
  const std::array<JsonField, 6> fields{{{"step", report.step},
                                         {"checkpoint_bytes", report.bytes},
                                         {"blocked_seconds", report.blocked_seconds},
                                         {"waited_seconds", report.waited_seconds},
                                         {"background_seconds", report.background_seconds},
                                         {"unix_time", unix_now()}}};
  metrics_->append_checkpoint(
      {report.step, report.bytes, report.blocked_seconds, report.waited_seconds, report.background_seconds});
  log_->append(json_line(fields));
  std::string text = fmt::format("step {}: checkpoint of {} in {}", report.step, format_bytes(report.bytes),
                                 format_seconds(report.blocked_seconds + report.background_seconds));
  if (report.background_seconds > 0) text += fmt::format("; steps waited {}", format_seconds(report.blocked_seconds));
  if (report.waited_seconds > 0)
    text += fmt::format(", {} of it for the checkpoint before", format_seconds(report.waited_seconds));
  say(text);
}

void RunRecorder::record_memory(const std::vector<MeasuredMemory>& ranks) {
  std::vector<std::int64_t> bytes(ranks.size());
  for (std::size_t c = 0; c < kCategories; ++c) {
    for (std::size_t r = 0; r < ranks.size(); ++r) bytes[r] = ranks[r].categories[c];
    metrics_->set_measured_memory(memory_name(static_cast<Category>(c)), bytes);
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) bytes[r] = ranks[r].process;
  metrics_->set_measured_memory("process", bytes);
}

void RunRecorder::record_first_step(double seconds_since_start) {
  metrics_->set_seconds_to_first_step(seconds_since_start);
}

void RunRecorder::say(const std::string& line) {
  if (progress_ != nullptr) progress_->message(line);
}

void RunRecorder::finish(RunState state, ExitCode code, const std::string& message) {
  progress_.reset();
  try {
    if (metrics_ != nullptr) metrics_->close();
  } catch (const Error& error) {
    if (state == RunState::failed) {
      write_status_quietly(state, static_cast<int>(code), message);  // the failure that came first is what counts
      return;
    }
    write_status_quietly(RunState::failed, static_cast<int>(error.code()), error.what());
    throw;
  }
  if (state == RunState::finished || state == RunState::stopped) {
    write_status(state, static_cast<int>(code), message);
  } else {
    write_status_quietly(state, static_cast<int>(code), message);
  }
}

/// For failures: a status that cannot be written must not hide them.
void RunRecorder::write_status_quietly(RunState state, int code, const std::string& message) {
  try {
    write_status(state, code, message);
  } catch (const Error&) {
    return;
  }
}

void RunRecorder::write_status(RunState state, int code, const std::string& message) {
  status_written_ = std::chrono::steady_clock::now();
  folder_.write_status({state, step_, steps_, code, message, started_, unix_now()});
}

}  // namespace tessera
