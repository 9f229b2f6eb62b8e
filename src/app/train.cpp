#include "tessera/app/train.hpp"

#include <cmath>
#include <optional>
#include <sstream>

#include "tessera/app/account.hpp"
#include "tessera/app/prepare.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/engine/dump.hpp"
#include "tessera/engine/recorder.hpp"
#include "tessera/engine/resident.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/telemetry/process_memory.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::array<CommunicationCount, 4> counts_of(const Resources& resources) {
  return {resources.count(Collective::all_gather), resources.count(Collective::reduce_scatter),
          resources.count(Collective::all_reduce), resources.count(Collective::broadcast)};
}

/// The loop around the steps of one rank: times, records, evaluates, dumps.
class TrainLoop {
 public:
  TrainLoop(World& world, const Options& options, const Invocation& invocation, TrainingSession& session,
            RunRecorder* recorder, std::int64_t memory_before)
      : world_(world),
        options_(options),
        invocation_(invocation),
        session_(session),
        recorder_(recorder),
        memory_before_(memory_before) {}

  void run() {
    if (recorder_ != nullptr) recorder_->record_first_step(seconds_since(invocation_.start));
    for (std::int64_t step = 1; step <= session_.steps(); ++step) {
      train(step);
      if (step == 1) after_first_step();
      const bool last = step == session_.steps();
      const bool due = options_.train.eval_every > 0 && step % options_.train.eval_every == 0;
      if (options_.data.val_fraction > 0 && (due || last)) evaluate(step);
    }
  }

  double last_validation_loss() const { return validation_loss_; }
  double last_loss() const { return loss_; }

 private:
  void train(std::int64_t step) {
    const auto before = counts_of(session_.resources());
    const auto start = Clock::now();
    const bool dumps = options_.run.dump == step;
    std::optional<StepDump> dump;
    if (dumps) {
      const std::filesystem::path path = run_folder(options_) / fmt::format("dump-{:08}.h5", step);
      dump.emplace(session_, world_, recorder_ != nullptr ? &recorder_->io() : nullptr, path);
    }
    const StepResult result = session_.train_step([&] {
      if (dumps) dump->write_gradients();
    });
    if (!result.finite) {
      throw NumericalError(
          "step {}: the loss is {} and the gradient norm {} (numerical failure): try a lower optim.lr, a longer "
          "optim.warmup_steps, or optim.clip",
          step, result.loss, result.grad_norm);
    }
    if (dumps) dump->write_weights(step, result);
    loss_ = result.loss;
    if (recorder_ == nullptr) {
      session_.player().times().take();
      return;
    }
    StepReport report;
    report.step = step;
    report.result = result;
    report.learning_rate = result.learning_rate;
    report.seconds = seconds_since(start);
    report.times = session_.player().times().take();
    const auto after = counts_of(session_.resources());
    for (std::size_t i = 0; i < after.size(); ++i) {
      report.communication[i] = {after[i].calls - before[i].calls, after[i].bytes - before[i].bytes,
                                 static_cast<double>(after[i].nanoseconds - before[i].nanoseconds) * 1e-9};
    }
    recorder_->record_step(report, session_.global_tokens());
    if (result.skipped) {
      recorder_->say(fmt::format("step {}: skipped, the gradient overflowed (loss scale {}; {} skipped so far)", step,
                                 result.loss_scale, session_.optimizer().skipped_steps()));
    }
  }

  void after_first_step() {
    const std::int64_t now = proportional_set_size();
    std::string mine = std::to_string(now < 0 ? -1 : now - memory_before_);
    for (const std::int64_t bytes : resident_bytes(session_.schedule(), session_.resources()))
      mine += fmt::format(" {}", bytes);
    const std::vector<std::string> all = world_.control().gather(mine);
    if (recorder_ == nullptr) return;
    std::vector<MeasuredMemory> ranks;
    for (const std::string& one : all) {
      std::istringstream numbers(one);
      MeasuredMemory& rank = ranks.emplace_back();
      numbers >> rank.process;
      for (std::int64_t& bytes : rank.categories) numbers >> bytes;
    }
    recorder_->record_memory(ranks);
  }

  void evaluate(std::int64_t step) {
    validation_loss_ = session_.evaluate(options_.train.eval_batches);
    session_.player().times().take();
    if (recorder_ != nullptr) recorder_->record_evaluation(step, validation_loss_);
  }

  World& world_;
  const Options& options_;
  const Invocation& invocation_;
  TrainingSession& session_;
  RunRecorder* recorder_;
  std::int64_t memory_before_;
  double validation_loss_ = std::nan(""), loss_ = std::nan("");
};

RunFacts run_facts(World& world, const Invocation& invocation) {
  RunFacts facts;
  facts.command_line = invocation.words;
  facts.start_unix_time = invocation.unix_start;
  facts.hosts = world.control().gather(world.host());
  facts.libraries = {{"mpi", mpi_version()}, {"hdf5", hdf5_version()}};
  return facts;
}

std::string summary(const Options& options, const TrainLoop& loop, TrainingSession& session, double seconds) {
  const auto tokens = static_cast<double>(session.steps()) * static_cast<double>(session.global_tokens());
  std::string text = fmt::format("done       {} steps in {}, {} tokens/s; loss {:.4f}", session.steps(),
                                 format_seconds(seconds), format_rate(tokens / seconds), loop.last_loss());
  if (!std::isnan(loop.last_validation_loss()))
    text += fmt::format(", validation loss {:.4f}", loop.last_validation_loss());
  if (session.optimizer().skipped_steps() > 0)
    text += fmt::format(", {} steps skipped", session.optimizer().skipped_steps());
  const std::string folder = run_folder(options).string();
  text += fmt::format(
      "\nwritten    {0}/metrics.h5 (curves), {0}/log.jsonl (lines), {0}/status.json, {0}/config.ini (repeats the run)",
      folder);
  if (options.run.dump > 0) text += fmt::format(", {}/dump-{:08}.h5", folder, options.run.dump);
  return text;
}

/// Everything after the run folder was taken: a failure is noted in status.json before it is passed on.
void train(World& world, const Options& options, const Invocation& invocation, const PreparedRun& prepared,
           RunRecorder* recorder) {
  const Log log(static_cast<int>(world.rank()), static_cast<int>(world.size()));
  const std::int64_t memory_before = proportional_set_size();
  const auto opened = prepared.open(world, options);
  TrainingSession& session = *opened;
  const RunFacts facts = run_facts(world, invocation);
  if (recorder != nullptr) {
    log.info(account_before(options, prepared.planned(), prepared.data(), session, prepared.machine()));
    recorder->begin(prepared.planned(), session.steps(), facts);
  }
  const auto start = Clock::now();
  TrainLoop loop(world, options, invocation, session, recorder, memory_before);
  loop.run();
  if (recorder == nullptr) return;
  recorder->finish(RunState::finished, ExitCode::finished, "");
  log.info(summary(options, loop, session, seconds_since(start)));
}

}  // namespace

int run_train(World& world, const Options& options, const Invocation& invocation) {
  const MachineShape machine = settle_grid(world, options);
  const PreparedRun prepared(world, options, machine);
  world.control().barrier();  // bad input on any rank leaves no run folder behind
  std::unique_ptr<RunRecorder> recorder;
  const Options resolved = prepared.resolved(options);
  if (world.rank() == 0) recorder = std::make_unique<RunRecorder>(resolved, run_folder(options));
  world.control().barrier();  // nobody goes on before the folder is known to be free
  try {
    train(world, options, invocation, prepared, recorder.get());
  } catch (const Error& error) {
    if (recorder != nullptr) recorder->finish(RunState::failed, error.code(), error.what());
    throw;
  } catch (const std::exception& error) {
    if (recorder != nullptr) recorder->finish(RunState::failed, ExitCode::internal, error.what());
    throw;
  }
  return static_cast<int>(ExitCode::finished);
}

}  // namespace tessera
