#include "training/step_actions.hpp"

#include <array>

#include "tessera/base/clock.hpp"
#include "tessera/base/math.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/record/trace_writer.hpp"
#include "tessera/training/kept_algorithms.hpp"
#include "training/step_samples.hpp"

namespace tessera {

namespace {

CheckpointSettings checkpoint_settings(const TrainSite& site) {
  CheckpointSettings settings;
  settings.options = site.options.checkpoint;
  settings.folder = run_folder(site.options) / "checkpoints";
  for (const OptionValue& option : flat_options(site.options))
    settings.all_options.emplace_back(option.name, option.value);
  settings.provenance = provenance(site.facts);
  settings.hdf5 = [&to = site.recorder](const std::function<void()>& task) { to.run_hdf5(task); };
  settings.before_publish = [&to = site.recorder](std::int64_t step) { to.make_rows_durable(step); };
  return settings;
}

bool always(const DoneStep& /*done*/) { return true; }
bool is_first(const DoneStep& done) { return done.step() == done.first; }
bool is_finite(const DoneStep& done) { return done.report.result.finite; }

bool report_is_due(const DoneStep& done) {
  return is_first(done) || done.step() == done.last || done.step() % done.options.metrics.every == 0 || done.stops() ||
         done.reports_are_full;
}

/// A run that stops within the traced steps leaves a trace of those that it finished.
bool trace_is_due(const DoneStep& done) {
  return done.trace != nullptr && done.trace->wants(done.step()) && (done.step() == done.trace->last() || done.stops());
}

/// Ends the run for a step that is not finite, or says that it is skipped. The same on every rank.
void judge(TrainState& state, const DoneStep& done) {
  const StepResult& result = done.report.result;
  if (result.finite) {
    state.bad_steps = 0;
    return;
  }
  state.session.check_state();  // a flipped bit is a better reason than a high learning rate
  std::string what = fmt::format("step {}: the loss is {} and the gradient norm {} (numerical failure).", done.step(),
                                 result.loss, result.grad_norm);
  if (state.options.run.locate_nan) {
    const std::string where = state.session.locate_nan();
    what += where.empty() ? " Played again, all that was looked at is finite." : " The first is on " + where + ".";
  }
  if (state.options.run.on_bad_step == OnError::stop) {
    // fp16 ends at 65504: an overflow in the first forward happens at any learning rate.
    const char* advice = state.options.precision.compute == DType::fp16
                             ? "precision.compute = bf16, whose range is fp32's, or a lower optim.lr"
                             : "a lower optim.lr, a longer optim.warmup_steps, or optim.clip";
    throw NumericalError("{} Try {}.", what, advice);
  }
  constexpr int kMostInARow = 10;
  if (++state.bad_steps == kMostInARow) {
    throw NumericalError(
        "{} So were the {} steps before it, which were skipped: other samples do not help. Go on from "
        "an earlier checkpoint, with a lower optim.lr.",
        what, kMostInARow - 1);
  }
  state.recorder.say(fmt::format("{} It is skipped ({} so far)", what, state.session.optimizer().skipped_steps()));
}

/// Warns of a step whose loss or gradient norm lies far outside its recent spread; rank 0 writes down its samples.
void warn_of_odd(TrainState& state, const DoneStep& done) {
  if (state.world.rank() != 0) return;
  const StepResult& result = done.report.result;
  const double of_loss = state.loss_spread.distance(result.loss),
               of_norm = state.norm_spread.distance(result.grad_norm);
  const bool is_loss = of_loss > RecentSpread::kFar;
  if ((!is_loss && of_norm <= RecentSpread::kFar) || done.step() < state.warned_step + RecentSpread::kSteps) return;
  state.warned_step = done.step();
  const StepSamples& samples = state.session.samples();
  const RecentSpread& spread = is_loss ? state.loss_spread : state.norm_spread;
  const std::filesystem::path file = run_folder(state.options) / fmt::format("samples-{:08}.txt", done.step());
  std::string places = fmt::format("{} says where they come from", file.string());
  try {
    write_text_atomically(file, samples.places_of(done.step()));
  } catch (const IoError& error) {
    places = fmt::format("{}, so that it is not written down where they come from", error.what());
  }
  const std::int64_t first = samples.first_of(done.step());
  state.recorder.say(fmt::format(
      "step {}: {} {:.4g} is far from the {:.4g} of the last {} steps ({:.0f} deviations). Its samples are {} to {}; "
      "{}",
      done.step(), is_loss ? "the loss" : "the gradient norm", is_loss ? result.loss : result.grad_norm,
      spread.median(), RecentSpread::kSteps, is_loss ? of_loss : of_norm, first, first + samples.per_step() - 1,
      places));
}

void record(TrainState& state, const DoneStep& done) {
  const StepResult& result = done.report.result;
  if (result.finite) state.end.loss = result.loss;
  state.recorder.record_step(done.report, state.session.global_tokens());
  if (result.skipped && result.finite) {
    state.recorder.say(fmt::format("step {}: skipped, the gradient overflowed (loss scale {}; {} skipped so far)",
                                   done.step(), result.loss_scale, state.session.optimizer().skipped_steps()));
  }
}

/// Algorithms are only chosen in the first step and the first evaluation.
void keep_algorithms(TrainState& state, const DoneStep& /*done*/) {
  if (state.world.rank() != 0) return;
  try {
    tessera::keep_algorithms(run_folder(state.options), state.session.resources().compute->gemm_algorithms());
  } catch (const IoError& error) {
    state.recorder.say(fmt::format("{}: the next start chooses GEMM algorithms anew", error.what()));
  }
}

void trace(TrainState& state, const DoneStep& done) {
  const TrainingSession& session = state.session;
  try {
    const std::filesystem::path path =
        write_trace(state.world, session.schedule(), session.resources().settings.queue_mode, *done.trace,
                    {done.first, done.step()}, run_folder(state.options) / "trace");
    state.recorder.say(fmt::format("step {}: trace in {}", done.step(), path.string()));
  } catch (const IoError& error) {
    state.recorder.say(fmt::format("step {}: {}: the run goes on without a trace", done.step(), error.what()));
  }
}

void evaluate(TrainState& state, const DoneStep& done) {
  const auto start = std::chrono::steady_clock::now();
  state.end.evaluations = state.session.evaluate(state.options.train.eval_batches);
  state.evaluated_step = done.step();
  state.evaluation_seconds = seconds_since(start);
  keep_algorithms(state, done);
  state.recorder.record_evaluation(done.step(), state.end.evaluations);
}

constexpr std::array kActions = std::to_array<StepAction>({
    {"judge", FlightPhase::step, always, judge},
    {"odd step", FlightPhase::step, is_finite, warn_of_odd},
    {"dump", FlightPhase::step, [](const DoneStep& done) { return done.options.run.dump == done.step(); },
     [](TrainState& state, const DoneStep& done) {
       state.dump->write_weights(done.step(), done.report.result);
       state.dump.reset();
     }},
    {"record", FlightPhase::step, always, record},
    {"keep algorithms", FlightPhase::step, is_first, keep_algorithms},
    // Before a checkpoint of this step, because reported steps are not repeated.
    {"report", FlightPhase::report, report_is_due,
     [](TrainState& state, const DoneStep& done) { state.report(done.step()); }},
    {"trace", FlightPhase::step, trace_is_due, trace},
    {"finished checkpoints", FlightPhase::step, always,
     [](TrainState& state, const DoneStep& /*done*/) { state.note_finished_checkpoints(); }},
    {"end of the job", FlightPhase::step, always,
     [](TrainState& state, const DoneStep& /*done*/) {
       if (state.conditions.has_moved()) state.recorder.say("stops      " + state.conditions.announcement());
     }},
    // A checkpoint's step is not repeated, so evaluations after it come first, unless time is short.
    {"evaluate", FlightPhase::evaluation, [](const DoneStep& done) { return done.evaluates() && !done.stops(); },
     evaluate},
    {"sample", FlightPhase::sample,
     [](const DoneStep& done) {
       const std::int64_t every = done.options.train.sample_every;
       return every > 0 && !done.stops() && done.step() % every == 0;
     },
     [](TrainState& state, const DoneStep& done) { state.write_sample(done.step()); }},
    {"checkpoint", FlightPhase::checkpoint,
     [](const DoneStep& done) { return checkpoint_is_due(done.options, done.step(), done.last, done.requests()); },
     [](TrainState& state, const DoneStep& done) { state.begin_checkpoint(done.step()); }},
    {"last evaluation", FlightPhase::evaluation, [](const DoneStep& done) { return done.evaluates() && done.stops(); },
     evaluate},
});

}  // namespace

std::span<const StepAction> step_actions() { return kActions; }

bool evaluation_is_due(const Options& options, std::int64_t step, std::int64_t last) {
  if (!options.data.has_validation()) return false;
  return step == last || (options.train.eval_every > 0 && step % options.train.eval_every == 0);
}

bool checkpoint_is_due(const Options& options, std::int64_t step, std::int64_t last, std::int64_t requests) {
  const CheckpointOptions& checkpoint = options.checkpoint;
  if (StepRequests::checkpoint(requests) || StepRequests::stop(requests)) return true;
  if (step == last) return checkpoint.every != 0 || checkpoint.every_minutes > 0;
  return checkpoint.every > 0 && step % checkpoint.every == 0;
}

TrainState::TrainState(const TrainSite& site)
    : TrainSite(site),
      checkpoints(world, session, checkpoint_settings(site)),
      conditions(options, signals, invocation.start, run_folder(options), world.rank() == 0,
                 checkpoints.bytes_to_write(), ceil_div(world.size(), world.ranks_per_node())) {}

/// Sends every rank's values to rank 0. Ranks have just met in the step's last sum, so they hardly wait.
void TrainState::report(std::int64_t step) {
  reported_step = step;
  const bool first = step == session.first_step();
  std::optional<RankRow> row = reports.gather(step, first || step == session.steps());
  if (!row) return;
  if (first) recorder.record_memory(row->ranks);
  recorder.record_ranks(*row);
}

void TrainState::write_sample(std::int64_t step) try {
  const TextSample sample = samples->write();
  recorder.record_sample(step, sample.prompt, sample.text);
} catch (const NumericalError& error) {
  recorder.say(fmt::format("step {}: {}: the run goes on without this sample", step, error.what()));
}

void TrainState::begin_checkpoint(std::int64_t step) {
  if (checkpoints.is_writing())
    recorder.say(fmt::format("step {}: waiting until the checkpoint before is written", step));
  conditions.checkpoint_begins();
  NamedLosses losses;  // of this step's evaluation, if there was one
  if (step == evaluated_step)
    for (const Evaluation& one : end.evaluations) losses.emplace_back(one.set, one.loss);
  checkpoints.begin(losses);
  saved_step = step;
  note_finished_checkpoints();
}

void TrainState::note_finished_checkpoints() {
  while (const auto done = checkpoints.finished()) {
    const double cost = done->blocked_seconds - done->waited_seconds;
    checkpoint_seconds = cost + done->background_seconds;
    conditions.checkpoint_written(cost, *checkpoint_seconds);
    recorder.record_checkpoint(*done);
    for (const std::string& line : done->notes) recorder.say(fmt::format("step {}: {}", done->step, line));
    if (const std::string news = conditions.checkpoint_news(); !news.empty())
      recorder.say(fmt::format("step {}: checkpoints {}", done->step, news));
  }
}

void TrainState::finish_checkpoints() {
  const FlightScope scope(session.flight(), FlightPhase::checkpoint);
  checkpoints.wait();
  note_finished_checkpoints();
}

}  // namespace tessera
