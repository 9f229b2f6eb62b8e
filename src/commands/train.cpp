#include "tessera/base/clock.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/wrap.hpp"
#include "tessera/bench/device_peak.hpp"
#include "tessera/bench/timed_algorithms.hpp"
#include "tessera/checkpoint/folder.hpp"
#include "tessera/checkpoint/near.hpp"
#include "tessera/comm/launcher.hpp"
#include "tessera/commands/commands.hpp"
#include "tessera/config/data_sources.hpp"
#include "tessera/config/fine_tuning.hpp"
#include "tessera/convert/hugging_face_companions.hpp"
#include "tessera/data/evaluation.hpp"
#include "tessera/doctor/doctor.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/record/account.hpp"
#include "tessera/record/machine_load.hpp"
#include "tessera/record/prediction.hpp"
#include "tessera/record/run_facts.hpp"
#include "tessera/resolve/companions.hpp"
#include "tessera/resolve/model_tokenizer.hpp"
#include "tessera/resolve/resolved_run.hpp"
#include "tessera/simulate/flops.hpp"
#include "tessera/simulate/run_cost.hpp"
#include "tessera/telemetry/process_memory.hpp"
#include "tessera/text/choose_tokenizer.hpp"
#include "tessera/training/flight.hpp"
#include "tessera/training/kept_algorithms.hpp"
#include "tessera/training/near_decision.hpp"
#include "tessera/training/resume.hpp"
#include "tessera/training/train_loop.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kLabel = 11;  // columns before the text of a line: "memory     "

std::vector<std::pair<std::string, AttributeValue>> model_facts(const PlannedRun& planned, const Dataset& data,
                                                                std::int64_t eval_batches, const DevicePeak& peak) {
  const StepSchedule& schedule = planned.schedule;
  const auto& sets = data.validation();  // /eval/loss is of the first
  const std::int64_t samples_per_step = schedule.samples_per_step();
  const std::int64_t samples_per_epoch = data.train().samples_per_epoch();
  std::vector<std::pair<std::string, AttributeValue>> facts = {
      {"parameters", schedule.model.parameter_count()},
      {"tokens_per_step", samples_per_step * schedule.model.sequence},
      {"samples_per_epoch", samples_per_epoch},
      {"steps_per_epoch", static_cast<double>(samples_per_epoch) / static_cast<double>(samples_per_step)},
      {"validation_samples", sets.empty() ? 0 : evaluated_windows(sets[0], schedule.model.batch, eval_batches)},
      {"flops_per_token_6n", published_flops_per_token(schedule.model)},  // as publications count
      {"flops_per_token", matmul_flops_per_token(schedule.model)},        // of its matmuls, forward and backward
      {"device_peak_flops", peak.flops},                                  // per rank; NaN: unknown
      {"device_peak_source", peak.source}};
  if (!data.mixture().empty())  // whose sources have epochs of their own
    std::erase_if(facts, [](const auto& fact) { return fact.first.ends_with("_per_epoch"); });
  return facts;
}

/// Returns the attributes of /sources: lists with commas, in the order of data.source. Empty without a mixture.
std::vector<std::pair<std::string, AttributeValue>> source_facts(const Dataset& data) {
  if (data.mixture().empty()) return {};
  std::string names, shares, samples;
  for (std::size_t i = 0; i < data.mixture().size(); ++i) {
    const char* const comma = i > 0 ? "," : "";
    names += comma + data.mixture()[i].name;
    shares += fmt::format("{}{}", comma, data.mixture()[i].share);
    samples += fmt::format("{}{}", comma, data.train().sources()[i].samples_per_epoch());
  }
  return {{"names", names}, {"shares", shares}, {"samples_per_epoch", samples}};
}

std::string summary(const RunRecorder& recorder, const TrainEnd& end, TrainingSession& session, const Dataset& data,
                    double seconds) {
  const std::string& stopped = end.stopped;
  const std::int64_t steps = session.step() - session.first_step() + 1;
  const auto tokens = static_cast<double>(steps) * static_cast<double>(session.global_tokens());
  std::string text = stopped.empty() ? "done       " : "stopped    " + stopped;
  if (steps > 0) {
    text += fmt::format("{}{} in {}, {} tokens/s; loss {:.4f}", stopped.empty() ? "" : ": ", counted(steps, "step"),
                        format_seconds(seconds), format_rate(tokens / seconds), end.loss);
  } else if (stopped.empty()) {
    text += fmt::format("nothing: the checkpoint is of step {}, and train.steps = {}", session.step(), session.steps());
  }
  if (!data.mixture().empty()) text += ", " + epochs_text(data, session.next_sample());
  if (!end.evaluations.empty()) text += ", " + describe(end.evaluations);
  if (session.optimizer().skipped_steps() > 0)
    text += fmt::format(", {} skipped", counted(session.optimizer().skipped_steps(), "step"));
  if (const std::string compared = recorder.compared(); !compared.empty()) text += "\n" + compared;
  return text + "\nwritten    " + recorder.written();
}

/// Says what can be done with a finished run, and with its checkpoint if it has one.
std::string next_commands(const RunRecorder& recorder, bool evaluates) {
  const std::string run = shell_quoted(recorder.folder().string());
  if (CheckpointFolder(recorder.folder() / "checkpoints").steps().empty())
    return fmt::format("next       tessera-report {}", run);
  return fmt::format(
      "next       tessera generate {0} --generate.prompt=TEXT\n{1}"
      "           tessera export {0} FOLDER\n           tessera-report {0}",
      run, evaluates ? fmt::format("           tessera eval {}\n", run) : "");
}

/// Monitors this rank's GPU. Its load, memory and power go into the metrics if its driver reports them.
std::unique_ptr<DeviceMonitor> open_monitor(const Device& device, const Log& log) {
  if (device.identity().empty()) return nullptr;  // cores
  std::string why;
  auto monitor = open_device_monitor(device.identity(), why);
  if (monitor == nullptr) log.warn("metrics.h5 has no /device: " + why);
  return monitor;
}

ResumeSettings resume_settings(const ResolvedRun& run) {
  return {run.options, run.planned, *run.data, run_folder(run.options), threads_of(run.options, run.machine), {}};
}

/// UsageError, the same on every rank, if a rank has another folder of this name (on its own disk). Returns the nonce
/// of rank 0, which names this start of the run. Collective.
std::string require_same_folder(World& world, const std::filesystem::path& folder, const std::string& nonce_of_rank_0) {
  const std::string nonce = world.control().broadcast(nonce_of_rank_0);
  const std::string mine = folder_has_owner(folder, nonce) ? "" : world.host();
  for (const std::string& host : world.control().all_gather(mine)) {
    if (host.empty()) continue;
    throw refusal("run.dir = {} must be the same folder on all nodes, but {} sees another", folder.string(), host)
        .use("a shared file system");
  }
  return nonce;
}

/// Times the algorithms of a run that keeps its own, at its first start, and goes on with them. Returns the text of the
/// file to write; empty if there is none. Collective.
std::string make_own_algorithms(World& world, ResolvedRun& run) {
  if (run.machine.algorithm_source != AlgorithmSource::timed) return {};
  const std::string text = world.control().broadcast(timed_algorithms(world, run.options, run.machine));
  run.machine.algorithms = text, run.machine.algorithm_source = AlgorithmSource::kept;
  run.options.run.algorithms_hash = hash_of_algorithms(text);
  return text;
}

/// Says on rank 0 what was decided, found and expected before the first step.
void tell_before(const Log& log, const ResolvedRun& run, const TrainingSession& session,
                 const std::string& account_text, const std::string& near, const std::vector<Finding>& findings,
                 const std::optional<RunPrediction>& prediction) {
  const Options& options = run.options;
  if (const std::string dropouts = dropouts_of(options.model.from);
      !dropouts.empty() && !options.is_given("model.dropout"))
    log.info(fmt::format("dropout    {} of {} is not taken: this run trains with model.dropout = {}", dropouts,
                         options.model.from, options.model.dropout));
  const std::string tuned =
      describe_fine_tuning(run.asked, options, run.architecture.context, session.length().schedule_steps());
  const auto say = [&](const std::string& text) {
    if (!text.empty()) log.info(wrapped(text, kLabel));
  };
  if (!tuned.empty()) log.info(tuned);
  std::string decided = describe_decisions(run.decisions);
  if (const CountedShare share = run.data->source().counted_share();
      share.tokens < share.of_tokens || share.conversations > 0)
    decided += (decided.empty() ? "" : "; ") + describe(share);
  if (const std::string shares = describe_shares(training_sources(options.data.source)); !shares.empty())
    decided += fmt::format("{}data.source draws {} of the tokens", decided.empty() ? "" : "; ", shares);
  if (!decided.empty()) say("resolved   " + decided);
  say(account_text);
  say(near);
  if (const Finding* finding = worst(findings); finding != nullptr)
    say(fmt::format("doctor     {}: {}", finding->subject, finding->text()));
  if (!prediction) return;
  say(describe(*prediction));
  const std::int64_t left = session.steps() - session.step();
  say("expected   " + describe(cost_of(left, run.planned.schedule, &prediction->step, prediction->run_threads)));
}

/// Returns what writes samples of text; nothing without train.sample_every.
std::optional<SampleWriter> sample_writer(World& world, TrainingSession& session, const ResolvedRun& run) {
  if (run.options.train.sample_every == 0) return std::nullopt;
  auto tokenizer = tokenizer_of_training(run.options, run.architecture.vocab);
  auto ends = ends_of_text(*tokenizer, tokenizer_name(run.options), run_folder(run.options) / kCompanionFolder);
  return std::make_optional<SampleWriter>(world, session, run.options, std::move(tokenizer), std::move(ends));
}

/// Trains after the run folder was taken: a failure is noted in status.json before it is passed on.
ExitCode train(World& world, const ResolvedRun& run, const Invocation& invocation, const StopSignals& signals,
               RunRecorder* recorder, const std::optional<RunPrediction>& prediction, TrainingFlight& flight) {
  const Options& options = run.options;
  const Log log(static_cast<int>(world.rank()), static_cast<int>(world.size()));
  const bool has_datasheet = traits_of(run.planned.schedule.model.device).has_datasheet;
  DevicePeak peak = has_datasheet ? DevicePeak() : measure_core_peak(world, options, run.machine);
  const std::int64_t memory_before = proportional_set_size();
  ResumeSettings resume = resume_settings(run);
  resume.say = [&](const std::string& line) { log.info(line); };
  PeerWaits& waits = world.control().waits();
  Options kept = options;  // less copies near that do not fit
  const std::string near = decide_near(world, kept, run.planned);
  std::optional<StopNotice> notice;
  if (recorder != nullptr)
    notice.emplace(signals, [recorder](const std::string& line) { recorder->announce_stop(line); });
  const auto opened = [&] {
    const WaitPhase phase(waits, "the first state was read", options.checkpoint.timeout, "checkpoint.timeout");
    return open_session(world, run, state_loader(world, resume), flight.recorder());
  }();
  TrainingSession& session = *opened;
  if (kept.checkpoint.keep_near != options.checkpoint.keep_near && world.node_rank() == 0)
    prune_near(near_folder(options.checkpoint.keep_near, run_folder(options) / "checkpoints"), -1);
  const Device& device = *session.resources().device;
  if (has_datasheet) peak = datasheet_peak(device, options.precision);
  const auto monitor = open_monitor(device, log);
  const RunAccount account{
      run_facts(world, options, invocation, gpu_facts(device, monitor.get()), session.resources().description),
      model_facts(run.planned, *run.data, options.train.eval_batches, peak),
      source_facts(*run.data),
      machine_load(world, device, monitor.get()),
      monitor != nullptr,
      run.machine.machine_cores,
      session.resources().settings.threads * run.machine.machine_ranks,
      prediction};
  const std::string account_text = account_before(options, run.planned, *run.data, session.length(),
                                                  session.resources(), session.player(), run.machine);
  const std::vector<Finding> findings = examine(world, options, run.machine, &device, false);
  if (recorder != nullptr) {
    tell_before(log, run, session, account_text, near, findings, prediction);
    recorder->begin(run.planned, session.step(), session.steps(), account);
  }
  const auto start = Clock::now();
  const WaitPhase training(waits, "the run trained", options.run.timeout, "run.timeout");
  RankReports reports(world, session.schedule(), session.resources(), memory_before, monitor.get());
  std::optional<SampleWriter> samples = sample_writer(world, session, run);
  Recorder silent;
  const TrainEnd ended =
      train_steps({world, kept, invocation, session, account.facts, signals, recorder != nullptr ? *recorder : silent,
                   reports, samples ? &*samples : nullptr, notice ? &*notice : nullptr});
  const std::string& stopped = ended.stopped;
  notice.reset();
  // MPI waits for rank 0's last files without a limit.
  const WaitPhase end(waits, "the run ended", options.checkpoint.timeout, "checkpoint.timeout");
  const MachineLoad load = machine_load(world, device, monitor.get());
  if (recorder != nullptr) {
    recorder->record_load_at_end(load);
    recorder->finish(stopped.empty() ? RunState::finished : RunState::stopped,
                     stopped.empty() ? ExitCode::finished : ExitCode::stopped_early, stopped, ended.by_stop_file);
    log.info(summary(*recorder, ended, session, *run.data, seconds_since(start)));
    log.info(stopped.empty() ? next_commands(*recorder, options.data.has_validation())
                             : "go on      with checkpoint.resume = auto");
  }
  world.control().barrier();
  flight.finished();
  return stopped.empty() ? ExitCode::finished : ExitCode::stopped_early;
}

}  // namespace

int run_train(World& world, const Options& given, const Invocation& invocation) {
  const StopSignals signals;  // from here on signals take effect at a step boundary
  const WaitPhase phase(world.control().waits(), "the run started", given.run.timeout, "run.timeout");
  require_wanted_ranks(world.size());
  ResolveSite site(Purpose::train, world);
  site.machine.timed_steps = 10;
  if (world.rank() == 0) site.machine.algorithms = kept_algorithms(run_folder(given));
  site.stop = [&] { return signals.received(); };
  ResolvedRun run(given, site);
  const Options& options = run.options;  // config.ini and manifests hold the same
  std::optional<RunPrediction> prediction;
  if (world.rank() == 0) {
    require_fitting(resume_settings(run));  // all compare them when they load
    prediction = predict_run(run.planned, with_threads(options, run.machine));
  }
  const std::string algorithms = make_own_algorithms(world, run);
  world.control().barrier();  // bad input on any rank leaves no run folder behind
  std::unique_ptr<RunRecorder> recorder;
  if (world.rank() == 0) recorder = std::make_unique<RunRecorder>(options, run_folder(options), world.size());
  std::unique_ptr<RunLock> lock;  // rank 0's is the recorder's
  std::optional<TrainingFlight> flight;
  try {
    const std::string start = [&] {
      // All ranks wait until the folder is known to be free, because rank 0 may wait for a process that is dying.
      const WaitPhase locking(world.control().waits(), "rank 0 took the run folder", options.checkpoint.timeout,
                              "checkpoint.timeout");
      return require_same_folder(world, run_folder(options), recorder != nullptr ? recorder->nonce() : "");
    }();
    if (world.rank() != 0) lock = std::make_unique<RunLock>(run_folder(options), world.rank());
    if (recorder != nullptr) keep_companions(options, run.weights->stored_dtype());
    if (recorder != nullptr && !algorithms.empty()) write_text_atomically(own_algorithms_file(options), algorithms);
    flight.emplace(world, run_folder(options), start, run.planned.schedule, options.run.timeout);
    if (prediction && flight->recorder() != nullptr)
      flight->recorder()->expect(expected_seconds(prediction->step, run.planned.schedule));
    return static_cast<int>(train(world, run, invocation, signals, recorder.get(), prediction, *flight));
  } catch (...) {
    const Caught error = caught_error();
    if (flight) flight->failed();
    if (recorder != nullptr) recorder->finish(RunState::failed, error.code, error.what);
    throw;
  }
}

}  // namespace tessera
