#include "tessera/training/train_loop.hpp"

#include <algorithm>
#include <utility>

#include "tessera/base/clock.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/flight/recorder.hpp"
#include "tessera/record/trace_writer.hpp"
#include "tessera/training/dump.hpp"
#include "tessera/training/kept_algorithms.hpp"
#include "training/step_samples.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kAhead = 2;  ///< micro-steps, with a GPU: see Player::summed_wish

CheckpointSettings checkpoint_settings(const Options& options, const RunFacts& facts, RunRecorder* recorder) {
  CheckpointSettings settings;
  settings.options = options.checkpoint;
  settings.folder = run_folder(options) / "checkpoints";
  for (const OptionValue& option : flat_options(options)) settings.all_options.emplace_back(option.name, option.value);
  settings.provenance = provenance(facts);
  // Only one thread of a process calls HDF5.
  if (recorder != nullptr) {
    settings.hdf5 = [recorder](const std::function<void()>& task) {
      recorder->io().run([&] { task(); }, IoPriority::bulk);
    };
    settings.before_publish = [recorder](std::int64_t step) { recorder->make_rows_durable(step); };
  }
  return settings;
}

}  // namespace

TrainLoop::TrainLoop(World& world, const Options& options, const Invocation& invocation, TrainingSession& session,
                     const RunFacts& facts, const StopSignals& signals, RunRecorder* recorder, RankReports& reports,
                     SampleWriter* samples, StopNotice* notice)
    : world_(world),
      options_(options),
      invocation_(invocation),
      session_(session),
      recorder_(recorder),
      reports_(reports),
      samples_(samples),
      notice_(notice),
      checkpoints_(world, session, checkpoint_settings(options, facts, recorder)),
      conditions_(options, signals, invocation.start, run_folder(options), world.rank() == 0,
                  checkpoints_.bytes_to_write()) {
  progress_.first_step = session.first_step();
  progress_.micro_steps = session.schedule().accumulation;
  if (traits_of(session.schedule().model.device).has_own_memory) progress_.ahead = kAhead;
  session_.ask([this](std::int64_t begun) { return wish(begun); });
}

std::string TrainLoop::run() {
  try {
    return run_steps();
  } catch (const NumericalError&) {
    throw;                                  // on all ranks alike; a checkpoint that is being written is still finished
  } catch (const CorruptionError& error) {  // likewise
    const std::int64_t trusted = session_.trusted_step();
    if (saved_step_ < 0) throw CorruptionError("{}. This start has written no checkpoint", error.what());
    if (saved_step_ > trusted) {
      throw CorruptionError(
          "{}. Checkpoints after step {}, the last one that was compared, may hold wrong results, too: go on from an "
          "earlier one, without the machine",
          error.what(), trusted);
    }
    throw CorruptionError(
        "{}. The checkpoint of step {} was written after a check: go on from there, without the machine", error.what(),
        saved_step_);
  } catch (...) {
    checkpoints_.give_up();
    throw;
  }
}

std::string TrainLoop::run_steps() {
  if (recorder_ != nullptr) recorder_->record_first_step(seconds_since(invocation_.start));
  if (const std::string end = conditions_.announcement(); recorder_ != nullptr && !end.empty())
    recorder_->say("stops      " + end);
  if (recorder_ != nullptr && session_.trace() != nullptr && session_.trace()->last() < session_.first_step())
    recorder_->say(fmt::format("trace      none: the steps of run.trace = {}:{} were done before this start",
                               session_.trace()->first(), session_.trace()->last()));
  const bool is_over = session_.first_step() > session_.steps();
  if (!is_over && world_.control().maximum(std::int64_t{conditions_.heard_signal()}) > 0)
    return stop_before(session_.first_step());
  if (!is_over) begin_progress(session_.first_step());
  if (samples_ != nullptr && session_.first_step() == 1) write_sample(0);  // the sample before the model has learned
  for (std::int64_t step = session_.first_step(); step <= session_.steps(); ++step) {
    const std::optional<std::int64_t> summed = train(step);
    if (!summed) return stop_before(step);
    const std::int64_t requests = *summed;
    if (step == session_.first_step()) keep_algorithms();
    // Done before a checkpoint of this step, because reported steps are not repeated.
    if (report_is_due(step, requests)) report(step);
    if (trace_is_due(step, requests)) trace(step);
    const bool last = step == session_.steps();
    note_finished_checkpoints();
    if (recorder_ != nullptr && conditions_.has_moved()) recorder_->say("stops      " + conditions_.announcement());
    const bool stops = StepRequests::stop(requests);
    const bool evaluates = evaluation_is_due(step);
    // A checkpoint's step is not repeated, so evaluations after it come first, unless time is short.
    if (evaluates && !stops) evaluate(step);
    if (samples_ != nullptr && !stops && step % options_.train.sample_every == 0) write_sample(step);
    if (checkpoint_is_due(step, requests)) begin_checkpoint(step);
    if (evaluates && stops) evaluate(step);
    if (stops && !last) {
      finish_checkpoints();
      return reason_to_stop(fmt::format("after step {} of {}", step, session_.steps()));
    }
  }
  session_.check_state();
  finish_checkpoints();
  checkpoints_.remove_near();
  conditions_.stopped();  // the end of the last step fulfils a request during that step
  return {};
}

/// The decision is the same on every rank.
bool TrainLoop::report_is_due(std::int64_t step, std::int64_t requests) const {
  return step == session_.first_step() || step == session_.steps() || step % options_.metrics.every == 0 ||
         StepRequests::stop(requests) || reports_.is_full();
}

bool TrainLoop::evaluation_is_due(std::int64_t step) const {
  if (!options_.data.has_validation()) return false;
  return step == session_.steps() || (options_.train.eval_every > 0 && step % options_.train.eval_every == 0);
}

/// The decision is the same on every rank, because it uses only options and sums.
bool TrainLoop::checkpoint_is_due(std::int64_t step, std::int64_t requests) const {
  const CheckpointOptions& options = options_.checkpoint;
  if (StepRequests::checkpoint(requests) || StepRequests::stop(requests)) return true;
  if (step == session_.steps()) return options.every > 0 || options.every_minutes > 0;
  return options.every > 0 && step % options.every == 0;
}

/// Returns the times for the clock, at the end of a step.
LastTimes TrainLoop::times(std::int64_t step) const {
  const int evaluations = int{evaluation_is_due(step)} + int{evaluation_is_due(step + 1)};
  return {std::max(step_seconds_, progress_.seconds()), evaluations * evaluation_seconds_, checkpoint_seconds_,
          checkpoints_.is_writing() || checkpoint_is_due(step, 0)};
}

void TrainLoop::begin_checkpoint(std::int64_t step) {
  const FlightScope scope(session_.flight(), FlightPhase::checkpoint);
  if (recorder_ != nullptr && checkpoints_.is_writing())
    recorder_->say(fmt::format("step {}: waiting until the checkpoint before is written", step));
  conditions_.checkpoint_begins();
  checkpoints_.begin(evaluation_of(step));
  saved_step_ = step;
  note_finished_checkpoints();
}

/// Returns the record of this step's evaluation for its checkpoint; empty if there was none.
NamedLosses TrainLoop::evaluation_of(std::int64_t step) const {
  NamedLosses losses;
  if (step != evaluated_step_) return losses;
  for (const Evaluation& one : evaluations_) losses.emplace_back(one.set, one.loss);
  return losses;
}

void TrainLoop::note_finished_checkpoints() {
  while (const auto report = checkpoints_.finished()) {
    conditions_.checkpoint_written();
    checkpoint_seconds_ = report->blocked_seconds - report->waited_seconds + report->background_seconds;
    if (recorder_ == nullptr) continue;
    recorder_->record_checkpoint(*report);
    for (const std::string& line : report->notes) recorder_->say(fmt::format("step {}: {}", report->step, line));
  }
}

/// Ends the run: checkpoints that are being written are on disk before the end is reported.
void TrainLoop::finish_checkpoints() {
  const FlightScope scope(session_.flight(), FlightPhase::checkpoint);
  checkpoints_.wait();
  note_finished_checkpoints();
}

/// Ends the run at a step that was given up or never begun: the state is that of the previous step.
std::string TrainLoop::stop_before(std::int64_t step) {
  const bool has_finished = step > session_.first_step();
  if (has_finished && reported_step_ < step - 1) report(step - 1);
  if (has_finished && saved_step_ < step - 1) begin_checkpoint(step - 1);
  finish_checkpoints();
  if (has_finished)
    return reason_to_stop(fmt::format("after step {} of {}, without step {}", step - 1, session_.steps(), step));
  return reason_to_stop(
      fmt::format("before step {} of {} was finished, so that nothing was written", step, session_.steps()));
}

/// Notes that a step begins, and what comes before it.
void TrainLoop::begin_progress(std::int64_t step) {
  progress_.step = step;
  progress_.begun = 0;
  progress_.last_seconds = step_seconds_;
  progress_.start = Clock::now();
  if (notice_ != nullptr) notice_->set_progress(progress_);
}

/// Returns this rank's wish to stop, with `begun` micro-steps of the step begun.
StepWish TrainLoop::wish(std::int64_t begun) {
  progress_.begun = begun;
  StepWish wish;
  if (begun < progress_.micro_steps) {
    const double evaluation = evaluation_is_due(progress_.step) ? evaluation_seconds_ : 0;
    const LastTimes times{progress_.rest(), evaluation, checkpoint_seconds_, checkpoints_.is_writing()};
    wish = conditions_.wish(times, progress_.step == progress_.first_step);
  } else {
    wish.requests = conditions_.requests(times(progress_.step));
  }
  if (notice_ == nullptr) return wish;
  notice_->set_progress(progress_);
  if (const std::string& reason = conditions_.reason(); !reason.empty()) notice_->announce(reason);
  return wish;
}

/// Returns where the run stopped and the first reason that a rank had, on every rank.
std::string TrainLoop::reason_to_stop(const std::string& where) {
  conditions_.stopped();
  std::string text;
  const std::vector<std::string> reasons = world_.control().all_gather(conditions_.reason());
  for (const std::string& reason : reasons) {
    if (reason.empty()) continue;
    text = reason;
    break;
  }
  return fmt::format("{} ({})", where, text);
}

/// Runs one step and records it.
std::optional<std::int64_t> TrainLoop::train(std::int64_t step) {
  const CommunicationCounts before = session_.resources().communicators->counts();
  begin_progress(step);
  const FlightScope scope(session_.flight(), FlightPhase::step);
  if (session_.flight() != nullptr) session_.flight()->set_step(step);
  const bool dumps = options_.run.dump == step;
  std::optional<StepDump> dump;
  if (dumps) {
    const std::filesystem::path path = run_folder(options_) / fmt::format("dump-{:08}.h5", step);
    dump.emplace(session_, world_, recorder_ != nullptr ? &recorder_->io() : nullptr, path);
  }
  const StepResult result = session_.train_step([&] {
    if (dumps) dump->write_gradients();
  });
  if (result.given_up) return std::nullopt;
  judge(step, result);
  if (recorder_ != nullptr && result.finite) warn_of_odd(step, result);
  if (dumps) dump->write_weights(step, result);
  if (result.finite) loss_ = result.loss;
  step_seconds_ = progress_.seconds();
  if (step < session_.steps()) begin_progress(step + 1);  // a signal from now on stops the run after that one
  StepReport report{step, result, step_seconds_, session_.player().times().take(), {}};
  const CommunicationCounts after = session_.resources().communicators->counts();
  static_assert(kCollectiveNames.size() == kCollectives, "a row in /comm for each");
  for (std::size_t i = 0; i < after.size(); ++i) {
    report.communication[i] = {after[i].calls - before[i].calls, after[i].bytes - before[i].bytes,
                               session_.resources().communicators->seconds_between(before[i], after[i])};
  }
  reports_.add(step, report.times, report.communication);
  if (recorder_ == nullptr) return result.stop_requests;
  recorder_->record_step(report, session_.global_tokens());
  if (result.skipped && result.finite) {
    recorder_->say(fmt::format("step {}: skipped, the gradient overflowed (loss scale {}; {} skipped so far)", step,
                               result.loss_scale, session_.optimizer().skipped_steps()));
  }
  return result.stop_requests;
}

/// Ends the run for a step that is not finite, or says that it is skipped. The same on every rank.
void TrainLoop::judge(std::int64_t step, const StepResult& result) {
  if (result.finite) {
    bad_steps_ = 0;
    return;
  }
  session_.check_state();  // a flipped bit is a better reason than a high learning rate
  std::string what = fmt::format("step {}: the loss is {} and the gradient norm {} (numerical failure).", step,
                                 result.loss, result.grad_norm);
  if (options_.run.locate_nan) {
    const std::string where = session_.locate_nan();
    what += where.empty() ? " Played again, all that was looked at is finite." : " The first is on " + where + ".";
  }
  if (options_.run.on_bad_step == OnError::stop) {
    // fp16 ends at 65504: an overflow in the first forward happens at any learning rate.
    const char* advice = options_.precision.compute == DType::fp16
                             ? "precision.compute = bf16, whose range is fp32's, or a lower optim.lr"
                             : "a lower optim.lr, a longer optim.warmup_steps, or optim.clip";
    throw NumericalError("{} Try {}.", what, advice);
  }
  constexpr int kMostInARow = 10;
  if (++bad_steps_ == kMostInARow) {
    throw NumericalError(
        "{} So were the {} steps before it, which were skipped: other samples do not help. Go on from "
        "an earlier checkpoint, with a lower optim.lr.",
        what, kMostInARow - 1);
  }
  if (recorder_ != nullptr)
    recorder_->say(fmt::format("{} It is skipped ({} so far)", what, session_.optimizer().skipped_steps()));
}

/// Warns of a step whose loss or gradient norm lies far outside its recent spread, and writes down its samples.
void TrainLoop::warn_of_odd(std::int64_t step, const StepResult& result) {
  const double of_loss = loss_spread_.distance(result.loss), of_norm = norm_spread_.distance(result.grad_norm);
  const bool is_loss = of_loss > RecentSpread::kFar;
  if ((!is_loss && of_norm <= RecentSpread::kFar) || step < warned_step_ + RecentSpread::kSteps) return;
  warned_step_ = step;
  const RecentSpread& spread = is_loss ? loss_spread_ : norm_spread_;
  const std::filesystem::path file = run_folder(options_) / fmt::format("samples-{:08}.txt", step);
  std::string places = fmt::format("{} says where they come from", file.string());
  try {
    write_text_atomically(file, session_.samples().places_of(step));
  } catch (const IoError& error) {
    places = fmt::format("{}, so that it is not written down where they come from", error.what());
  }
  const std::int64_t first = session_.samples().first_of(step);
  recorder_->say(fmt::format(
      "step {}: {} {:.4g} is far from the {:.4g} of the last {} steps ({:.0f} deviations). Its samples are {} to {}; "
      "{}",
      step, is_loss ? "the loss" : "the gradient norm", is_loss ? result.loss : result.grad_norm, spread.median(),
      RecentSpread::kSteps, is_loss ? of_loss : of_norm, first, first + session_.samples().per_step() - 1, places));
}

/// Sends every rank's values to rank 0. Ranks have just met in the step's last sum, so they hardly wait.
void TrainLoop::report(std::int64_t step) {
  const FlightScope scope(session_.flight(), FlightPhase::report);
  reported_step_ = step;
  const bool is_first = step == session_.first_step();
  std::optional<RankRow> row = reports_.gather(step, is_first || step == session_.steps());
  if (recorder_ == nullptr) return;
  if (is_first) recorder_->record_memory(row->ranks);
  recorder_->record_ranks(std::move(*row));
}

/// Decides the same on every rank. A run that stops within the traced steps leaves a trace of those that it finished.
bool TrainLoop::trace_is_due(std::int64_t step, std::int64_t requests) const {
  const StepTrace* const trace = session_.trace();
  return trace != nullptr && trace->wants(step) && (step == trace->last() || StepRequests::stop(requests));
}

void TrainLoop::trace(std::int64_t step) {
  try {
    const std::filesystem::path path =
        write_trace(world_, session_.schedule(), session_.resources().settings.queue_mode, *session_.trace(),
                    {session_.first_step(), session_.step()}, run_folder(options_) / "trace");
    if (recorder_ != nullptr) recorder_->say(fmt::format("step {}: trace in {}", step, path.string()));
  } catch (const IoError& error) {
    if (recorder_ != nullptr)
      recorder_->say(fmt::format("step {}: {}: the run goes on without a trace", step, error.what()));
  }
}

/// Algorithms are only chosen in the first step and the first evaluation.
void TrainLoop::keep_algorithms() {
  if (recorder_ == nullptr) return;
  try {
    tessera::keep_algorithms(run_folder(options_), session_.resources().compute->gemm_algorithms());
  } catch (const IoError& error) {
    recorder_->say(fmt::format("{}: the next start chooses GEMM algorithms anew", error.what()));
  }
}

void TrainLoop::evaluate(std::int64_t step) {
  const FlightScope scope(session_.flight(), FlightPhase::evaluation);
  const auto start = Clock::now();
  evaluations_ = session_.evaluate(options_.train.eval_batches);
  evaluated_step_ = step;
  evaluation_seconds_ = seconds_since(start);
  keep_algorithms();
  if (recorder_ != nullptr) recorder_->record_evaluation(step, evaluations_);
}

void TrainLoop::write_sample(std::int64_t step) {
  const FlightScope scope(session_.flight(), FlightPhase::sample);
  const TextSample sample = samples_->write();
  if (recorder_ != nullptr) recorder_->record_sample(step, sample.prompt, sample.text);
}

}  // namespace tessera
