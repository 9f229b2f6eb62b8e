#include "tessera/training/train_loop.hpp"

#include <algorithm>

#include "tessera/base/clock.hpp"
#include "tessera/flight/recorder.hpp"
#include "training/step_actions.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kAhead = 2;  ///< micro-steps, with a GPU: see Player::summed_wish

class TrainLoop {
 public:
  explicit TrainLoop(const TrainSite& site);
  TrainEnd run();

 private:
  void announce();
  void run_steps();
  std::optional<DoneStep> play(std::int64_t step);
  void stop_before(std::int64_t step);
  void stop(const std::string& where);
  void begin_progress(std::int64_t step);
  StepWish wish(std::int64_t begun);
  LastTimes times(std::int64_t step) const;

  TrainState state_;
  TrainingSession& session_;
  StepProgress progress_;
  double step_seconds_ = 0;  ///< of the last step
};

TrainLoop::TrainLoop(const TrainSite& site) : state_(site), session_(site.session) {
  progress_.first_step = session_.first_step();
  progress_.micro_steps = session_.schedule().policy.accumulation;
  if (traits_of(session_.schedule().model.device).has_own_memory) progress_.ahead = kAhead;
  session_.ask([this](std::int64_t begun) { return wish(begun); });
}

TrainEnd TrainLoop::run() {
  try {
    run_steps();
    return state_.end;
  } catch (const NumericalError&) {
    throw;                                  // on all ranks alike; a checkpoint that is being written is still finished
  } catch (const CorruptionError& error) {  // likewise
    const std::int64_t trusted = session_.trusted_step();
    if (state_.saved_step < 0) throw CorruptionError("{}. This start has written no checkpoint", error.what());
    if (state_.saved_step > trusted) {
      throw CorruptionError(
          "{}. Checkpoints after step {}, the last one that was compared, may hold wrong results, too: go on from an "
          "earlier one, without the machine",
          error.what(), trusted);
    }
    throw CorruptionError(
        "{}. The checkpoint of step {} was written after a check: go on from there, without the machine", error.what(),
        state_.saved_step);
  } catch (...) {
    state_.checkpoints.give_up();
    throw;
  }
}

void TrainLoop::announce() {
  Recorder& recorder = state_.recorder;
  recorder.record_first_step(seconds_since(state_.invocation.start));
  if (const std::string end = state_.conditions.announcement(); !end.empty()) recorder.say("stops      " + end);
  if (const std::string often = state_.conditions.checkpoint_news(); !often.empty())
    recorder.say("checkpoints " + often);
  if (const StepTrace* const trace = session_.trace(); trace != nullptr && trace->last() < session_.first_step())
    recorder.say(fmt::format("trace      none: the steps of run.trace = {}:{} were done before this start",
                             trace->first(), trace->last()));
  if (const std::int64_t dump = state_.options.run.dump; dump > 0 && dump < session_.first_step())
    recorder.say(fmt::format("dump       none: step {} of run.dump was done before this start", dump));
}

void TrainLoop::run_steps() {
  announce();
  const std::int64_t first = session_.first_step(), last = session_.steps();
  if (first <= last) {
    if (state_.world.control().maximum(std::int64_t{state_.conditions.heard_signal()}) > 0) return stop_before(first);
    begin_progress(first);
  }
  if (state_.samples != nullptr && first == 1) {
    const FlightScope scope(session_.flight(), FlightPhase::sample);
    state_.write_sample(0);  // before the model has learned
  }
  for (std::int64_t step = first; step <= last; ++step) {
    const std::optional<DoneStep> done = play(step);
    if (!done) return stop_before(step);
    for (const StepAction& action : step_actions()) {
      if (!action.when(*done)) continue;
      const FlightScope scope(session_.flight(), action.phase);
      action.act(state_, *done);
    }
    if (!done->stops() || step == last) continue;
    state_.finish_checkpoints();
    return stop(fmt::format("after step {} of {}", step, last));
  }
  session_.check_state();
  state_.finish_checkpoints();
  state_.checkpoints.remove_near();
  state_.conditions.stopped();  // the end of the last step fulfils a request during that step
}

/// Runs one step; nothing if it was given up.
std::optional<DoneStep> TrainLoop::play(std::int64_t step) {
  const CommunicationCounts before = session_.resources().communicators->counts();
  begin_progress(step);
  const FlightScope scope(session_.flight(), FlightPhase::step);
  if (session_.flight() != nullptr) session_.flight()->set_step(step);
  std::optional<StepDump>& dump = state_.dump;
  if (state_.options.run.dump == step) {
    dump.emplace(
        session_, state_.world, [this](const std::function<void()>& task) { state_.recorder.run_hdf5(task); },
        run_folder(state_.options) / fmt::format("dump-{:08}.h5", step));
  }
  const StepResult result = session_.train_step([&] {
    if (dump) dump->write_gradients();
  });
  if (result.given_up) {
    dump.reset();
    return std::nullopt;
  }
  step_seconds_ = progress_.seconds();
  if (step < session_.steps()) begin_progress(step + 1);  // a signal from now on stops the run after that one
  DoneStep done{state_.options, session_.trace(), session_.first_step(), session_.steps(), false, {}};
  done.report = {step,
                 result,
                 step_seconds_,
                 session_.player().times().take(),
                 difference(session_.resources().communicators->counts(), before),
                 session_.source_losses()};
  state_.reports.add(done.report);
  done.reports_are_full = state_.reports.is_full();
  return done;
}

/// Ends the run at a step that was given up or never begun: the state is that of the previous step.
void TrainLoop::stop_before(std::int64_t step) {
  const bool has_finished = step > session_.first_step();
  if (has_finished && state_.reported_step < step - 1) {
    const FlightScope scope(session_.flight(), FlightPhase::report);
    state_.report(step - 1);
  }
  if (has_finished && state_.saved_step < step - 1) {
    const FlightScope scope(session_.flight(), FlightPhase::checkpoint);
    state_.begin_checkpoint(step - 1);
  }
  state_.finish_checkpoints();
  stop(has_finished
           ? fmt::format("after step {} of {}, without step {}", step - 1, session_.steps(), step)
           : fmt::format("before step {} of {} was finished, so that nothing was written", step, session_.steps()));
}

/// Notes where the run stops, with the first reason that a rank had.
void TrainLoop::stop(const std::string& where) {
  state_.end.by_stop_file = state_.conditions.stopped();
  std::vector<std::string> reasons = state_.world.control().all_gather(state_.conditions.reason());
  std::erase(reasons, "");
  state_.end.stopped = fmt::format("{} ({})", where, reasons.empty() ? "" : reasons.front());
}

/// Notes that a step begins, and what comes before it.
void TrainLoop::begin_progress(std::int64_t step) {
  progress_.step = step;
  progress_.begun = 0;
  progress_.last_seconds = step_seconds_;
  progress_.start = std::chrono::steady_clock::now();
  if (state_.notice != nullptr) state_.notice->set_progress(progress_);
}

/// Returns this rank's wish to stop, with `begun` micro-steps of the step begun.
StepWish TrainLoop::wish(std::int64_t begun) {
  progress_.begun = begun;
  StepWish wish;
  if (begun < progress_.micro_steps) {
    const bool evaluates = evaluation_is_due(state_.options, progress_.step, session_.steps());
    const LastTimes times{progress_.rest(), evaluates ? state_.evaluation_seconds : 0, state_.checkpoint_seconds,
                          state_.checkpoints.is_writing()};
    wish = state_.conditions.wish(times, progress_.step == progress_.first_step);
  } else {
    wish.requests = state_.conditions.requests(times(progress_.step));
  }
  if (state_.notice == nullptr) return wish;
  state_.notice->set_progress(progress_);
  if (const std::string& reason = state_.conditions.reason(); !reason.empty()) state_.notice->announce(reason);
  return wish;
}

/// Returns the times for the clock, at the end of a step.
LastTimes TrainLoop::times(std::int64_t step) const {
  const Options& options = state_.options;
  const std::int64_t last = session_.steps();
  const int evaluations = int{evaluation_is_due(options, step, last)} + int{evaluation_is_due(options, step + 1, last)};
  return {std::max(step_seconds_, progress_.seconds()), evaluations * state_.evaluation_seconds,
          state_.checkpoint_seconds, state_.checkpoints.is_writing() || checkpoint_is_due(options, step, last, 0)};
}

}  // namespace

TrainEnd train_steps(const TrainSite& site) { return TrainLoop(site).run(); }

}  // namespace tessera
