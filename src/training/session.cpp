#include "tessera/training/session.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/base/exact_sum.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/engine/backend.hpp"
#include "tessera/engine/peers.hpp"
#include "tessera/model/initialize.hpp"
#include "tessera/training/stop.hpp"
#include "training/integrity/integrity.hpp"
#include "training/step_samples.hpp"

namespace tessera {

std::int64_t steps_between_timed(const Options& options, DeviceKind device, std::int64_t steps, std::int64_t wanted) {
  const std::int64_t every = options.metrics.time_every > 0 ? options.metrics.time_every : traits_of(device).time_every;
  return wanted == 0 ? every : std::clamp<std::int64_t>(steps / wanted, 1, every);
}

namespace {

PlayerSettings player_settings(const Options& options, const MachineShape& machine, DeviceKind device,
                               std::int64_t steps) {
  PlayerSettings settings;
  settings.measure_every = steps_between_timed(options, device, steps, machine.timed_steps);
  settings.chaos_seed = machine.chaos_seed;
  settings.poison = machine.poison;
  settings.graph = options.run.graph;
  return settings;
}

}  // namespace

std::unique_ptr<TrainingSession> open_session(RankContext& context, const ResolvedRun& run, const StateLoader& load,
                                              FlightRecorder* flight) {
  return std::make_unique<TrainingSession>(context, run.options, run.planned, *run.data, run.machine,
                                           run.weights->source(), load, flight);
}

TrainingSession::TrainingSession(RankContext& context, const Options& options, const PlannedRun& planned,
                                 const Dataset& data, const MachineShape& machine, const TensorSource& weights,
                                 const StateLoader& load, FlightRecorder* flight)
    : options_(options), planned_(planned), data_(data), context_(context), flight_(flight) {
  require_equal_options(context.control(), options);
  require_equal(context, {{"schedule", fmt::format("{:016x}", planned.schedule.hash())},
                          {"data", fmt::format("{:016x}", data.fingerprint())},
                          {"instruction set", name_of(best_instruction_set())}});
  const StepSchedule& schedule = planned.schedule;
  const std::int64_t micro_batches = schedule.grid.world() * schedule.policy.accumulation;
  TESSERA_ASSERT(!schedule.model.documents || data.source().has_documents(), "{} has no documents",
                 data.source().describe());

  const Backend& backend = backend_of(schedule.model.device);
  resources_ =
      std::make_unique<Resources>(backend, context, schedule, planned.plan, resource_settings(options, machine));
  set_constants(schedule, *resources_);
  OptimizerSettings settings;
  settings.options = options.optim;
  settings.global_tokens = micro_batches * schedule.model.tokens();
  settings.skips_failures = options.run.on_bad_step == OnError::skip;
  settings.scales_loss = schedule.policy.compute == DType::fp16 || schedule.policy.reduce == DType::fp16;
  const auto seed = static_cast<std::uint64_t>(options.run.seed);
  optimizer_ = std::make_unique<Optimizer>(settings, seed);
  const auto length_from = [&] { return length_of_run(options.train, data, schedule.samples_per_step(), from_); };
  PlayerSettings playing = player_settings(options, machine, schedule.model.device, length_from().steps());
  if (options.run.trace.on())
    trace_ = std::make_unique<StepTrace>(schedule, options.run.trace.first, options.run.trace.last);
  playing.trace = trace_.get();
  playing.flight = flight;
  player_ = backend.make_player(schedule, *resources_, *optimizer_, playing);
  const TensorSource initial = [&](TensorId tensor, std::int64_t first, std::span<float> out) {
    initialize_slice(schedule.model.tensors[tensor], tensor, seed, first, out);
  };
  const TensorSource source = weights ? weights : initial;
  if (const auto start = load ? load(schedule, *resources_) : std::nullopt) {
    from_ = in_samples_of(schedule.model.sequence, start->position);
    step_ = from_.step;
    optimizer_->restore(start->optimizer);
    set_frozen_weights(schedule, *resources_, source);
  } else {
    set_weights(schedule, *resources_, source);
  }
  length_ = length_from();
  samples_ = std::make_unique<StepSamples>(options, schedule, data, from_, context.rank());
  integrity_ = std::make_unique<Integrity>(options.run, schedule, *resources_, *player_, *samples_, step_);
  context.control().barrier();  // a file system may keep a rank waiting for longer than a collective waits
  player_->send_scalars();
  player_->play(schedule.prologue, PlayPurpose::aside);
}

TrainingSession::~TrainingSession() = default;

std::int64_t TrainingSession::next_sample() const { return samples_->first_of(step_ + 1); }

void TrainingSession::ask(std::function<StepWish(std::int64_t begun)> source) {
  player_->ask([this, source = std::move(source)] { return source(begun_); });
}

/// The decision is the same on every rank, because it uses the wishes before a micro-step that was played.
bool TrainingSession::is_given_up(const Play& play) {
  if (play.micro_step == 0) return false;  // no sum of wishes yet
  const StepWish all = player_->summed_wish();
  return StepRequests::stop(all.requests) && all.long_rest > 0;
}

StepResult TrainingSession::train_step(const std::function<void()>& before_update) {
  const StepSchedule& schedule = planned_.schedule;
  samples_->counted_targets_of(step_ + 1, counted_);
  optimizer_->begin_step(step_ + 1, length_.progress(step_ + 1), std::reduce(counted_.begin(), counted_.end()));
  player_->send_inputs();
  const TokenFeed feed = [this](std::int32_t* tokens, std::int32_t* targets) {
    return samples_->feed(tokens, targets);
  };
  for (const Play& play : schedule.step) {
    const bool updates = schedule.segments[play.segment].role == SegmentRole::update;
    begun_ = updates ? schedule.policy.accumulation : play.micro_step;
    if (!updates && is_given_up(play)) {
      player_->synchronize();
      StepResult result;
      result.given_up = true;
      return result;
    }
    if (updates && before_update) {
      player_->synchronize();
      before_update();
    }
    if (updates && integrity_->checks(step_ + 1)) check_state();
    const bool replays = &play == schedule.step.data() && integrity_->replays(step_ + 1);
    if (replays && !(trace_ && trace_->wants(step_ + 1))) {  // a trace shows each operation once
      integrity_->play_twice(step_ + 1, feed);
    } else {
      player_->play(play, PlayPurpose::step, feed);
    }
  }
  player_->receive_scalars();
  ++step_;
  return optimizer_->result();
}

/// A sample's loss is a sum of one rank, and sources are sums that have no order: the same bits on all worlds.
std::vector<SourceLoss> TrainingSession::source_losses() {
  const StepSchedule& schedule = planned_.schedule;
  const StorageId storage = schedule.reserved(Reserved::sample_losses);
  if (!storage) return {};
  std::vector<double> mine(static_cast<std::size_t>(schedule.storage(storage).bytes) / sizeof(double));
  resources_->device->copy(mine.data(), resources_->address(storage), schedule.storage(storage).bytes);
  std::vector<ExactSum> sums(counted_.size());
  for (std::int64_t rank = 0; std::vector<double> & numbers : context_.control().gather(mine)) {
    const SampleLosses losses{numbers.data(), schedule.model.batch};
    for (std::int64_t k = 0; k < schedule.policy.accumulation; ++k)
      for (std::int64_t i = 0; i < losses.samples; ++i)
        sums[data_.train().source_of(samples_->first_of(step_, k, rank) + i)].add(losses.of(k)[i]);
    ++rank;
  }
  std::vector<SourceLoss> sources;
  if (context_.rank() == 0)
    for (std::size_t i = 0; i < sums.size(); ++i)
      sources.push_back({sums[i].value() / static_cast<double>(counted_[i]), counted_[i]});
  return sources;
}

std::string TrainingSession::locate_nan() { return integrity_->locate_nan(step_); }

void TrainingSession::check_state() { integrity_->check_state(step_); }

std::int64_t TrainingSession::trusted_step() const { return integrity_->trusted_step(); }

void TrainingSession::take_snapshot() {
  TESSERA_ASSERT(!planned_.schedule.snapshot.empty(), "the schedule has no snapshot");
  player_->play(planned_.schedule.snapshot, PlayPurpose::aside);
  player_->synchronize();
}

std::vector<Evaluation> TrainingSession::evaluate(std::int64_t micro_batches) {
  TESSERA_ASSERT(!data_.validation().empty(), "there is a validation set");
  if (evaluator_ == nullptr)
    evaluator_ = std::make_unique<Evaluator>(context_, planned_.schedule, *optimizer_, *player_, data_.vocab());
  std::vector<Evaluation> evaluations;
  for (const ValidationSet& set : data_.validation()) evaluations.push_back(evaluator_->evaluate(set, micro_batches));
  return evaluations;
}

}  // namespace tessera
