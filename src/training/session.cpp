#include "tessera/training/session.hpp"

#include <algorithm>

#include "tessera/base/refuse.hpp"
#include "tessera/engine/backend.hpp"
#include "tessera/model/initialize.hpp"
#include "tessera/training/stop.hpp"
#include "training/nan_search.hpp"
#include "training/replay.hpp"
#include "training/state_check.hpp"

namespace tessera {

std::int64_t steps_between_timed(const Options& options, DeviceKind device, std::int64_t steps, std::int64_t wanted) {
  const std::int64_t every = options.metrics.time_every > 0 ? options.metrics.time_every : traits_of(device).time_every;
  return wanted == 0 ? every : std::clamp<std::int64_t>(steps / wanted, 1, every);
}

namespace {

static_assert(kUncounted == kUncountedToken, "kernels and data agree on targets that do not count");

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
  compare_plans(context);
  const StepSchedule& schedule = planned.schedule;
  const std::int64_t micro_batches = schedule.grid.world() * schedule.accumulation;
  TESSERA_ASSERT(!schedule.model.documents || data.source().has_documents(), "{} has no documents",
                 data.source().describe());
  row_.resize(static_cast<std::size_t>(schedule.model.sequence) + 1);

  const Backend& backend = backend_of(schedule.model.device);
  resources_ =
      std::make_unique<Resources>(backend, context, schedule, planned.plan, resource_settings(options, machine));
  set_constants(schedule, *resources_);
  OptimizerSettings settings;
  settings.options = options.optim;
  settings.global_tokens = micro_batches * schedule.model.tokens();
  settings.skips_failures = options.run.on_bad_step == OnError::skip;
  settings.scales_loss = schedule.compute == DType::fp16 || schedule.reduce == DType::fp16;
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
  if (const auto start = load ? load(schedule, *resources_) : std::nullopt) {
    from_ = start->position;
    step_ = from_.step;
    optimizer_->restore(start->optimizer);
  } else {
    set_masters(schedule, *resources_, weights ? weights : initial);
  }
  length_ = length_from();
  checked_ = step_;
  if (schedule.state_sums) check_ = std::make_unique<StateCheck>(schedule, *resources_);
  if (schedule.replay_sums) replay_ = std::make_unique<Replay>(schedule, *resources_, *player_);
  replayed_ = step_;
  player_->send_scalars();
  player_->play(schedule.prologue, PlayPurpose::aside);
  reader_ = std::make_unique<BatchReader>(data.source(), data.train(), data.vocab(), schedule.model.batch,
                                          [this](std::int64_t q) { return first_sample(q, context_.rank()); });
}

TrainingSession::~TrainingSession() = default;

/// Maps request q of a rank's reader to micro-step q mod K of step q div K, counted from where the session started.
std::int64_t TrainingSession::first_sample(std::int64_t request, std::int64_t rank) const {
  const StepSchedule& schedule = planned_.schedule;
  const std::int64_t K = schedule.accumulation;
  const std::int64_t number = schedule.micro_batches.micro_batch(schedule.grid, K, rank, request % K);
  return from_.next_sample + first_sample_of(request / K, schedule.grid.world() * K, number, schedule.model.batch);
}

std::int64_t TrainingSession::next_sample_after(std::int64_t step) const {
  return from_.next_sample + (step - from_.step) * global_batch();
}

DataPosition TrainingSession::data_position() const {
  const StepSchedule& schedule = planned_.schedule;
  DataPosition position;
  position.known = true;
  position.fingerprint = fmt::format("{:016x}", data_.fingerprint());
  position.order = name_of(data_.train().order());
  position.sequence = schedule.model.sequence;
  position.global_batch = global_batch();
  position.data_seed = options_.data.seed;
  position.run_seed = options_.run.seed;
  position.next_sample = next_sample_after(step_);
  position.first_batch = from_.first_batch > 0 ? from_.first_batch : global_batch();
  return position;
}

std::string TrainingSession::places_of_samples() const {
  const std::int64_t first = first_sample_of_step();
  std::string lines;
  for (std::int64_t sample = first; sample < first + global_batch(); ++sample) {
    const std::int64_t token = data_.train().first_token(sample);
    lines += fmt::format("sample {}: {}\n", sample, data_.source().place(token, planned_.schedule.model.sequence + 1));
  }
  return lines;
}

/// Finds ranks that would compute something different from rank 0, before anything runs.
void TrainingSession::compare_plans(RankContext& context) const {
  const std::array<std::pair<const char*, std::string>, 4> facts{{
      {"options", write_ini(options_)},
      {"schedule", fmt::format("{:016x}", planned_.schedule.hash())},
      {"data", fmt::format("{:016x}", data_.fingerprint())},
      {"instruction set", name_of(best_instruction_set())},
  }};
  for (const auto& [what, mine] : facts) {
    const std::vector<std::string> all = context.control().all_gather(mine);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      throw refusal("rank {} differs from rank 0 in its {}", rank, what)
          .hint("All ranks must start with the same options, data, build and kind of processor");
    }
  }
}

/// Counts the targets of the coming step's global batch: every rank reads the masks of all its samples.
std::int64_t TrainingSession::counted_tokens_of_step() {
  return counted_targets(data_.source(), data_.train(), next_sample_after(step_), global_batch(), row_);
}

void TrainingSession::ask(std::function<StepWish(std::int64_t begun)> source) {
  player_->ask([this, source = std::move(source)] { return source(begun_); });
}

/// The decision is the same on every rank, because it uses the wishes before a micro-step that was played.
bool TrainingSession::is_given_up(const Play& play) {
  const bool knows_wishes = play.micro_step > 0;
  if (!knows_wishes) return false;
  const StepWish all = player_->summed_wish();
  return StepRequests::stop(all.requests) && all.long_rest > 0;
}

StepResult TrainingSession::train_step(const std::function<void()>& before_update) {
  const StepSchedule& schedule = planned_.schedule;
  optimizer_->begin_step(step_ + 1, length_.progress(step_ + 1), counted_tokens_of_step());
  player_->send_inputs();
  const TokenFeed feed = [this](std::int32_t* tokens, std::int32_t* targets) {
    const Batch batch = reader_->take();
    std::copy(batch.tokens.begin(), batch.tokens.end(), tokens);
    std::copy(batch.targets.begin(), batch.targets.end(), targets);
    if (planned_.schedule.model.documents)
      std::copy(batch.positions.begin(), batch.positions.end(), targets + batch.targets.size());
    if (options_.run.locate_nan) fed_.push_back(fed_again(batch.first_sample, tokens, targets));
    return batch.first_sample;
  };
  fed_.clear();
  for (const Play& play : schedule.step) {
    const bool updates = schedule.segments[play.segment].role == SegmentRole::update;
    begun_ = updates ? schedule.accumulation : play.micro_step;
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
    if (updates && check_ && (step_ + 1) % options_.run.check_every == 0) check_state();
    const bool replays = replay_ && &play == schedule.step.data() && (step_ + 1) % options_.run.replay_every == 0;
    if (replays && !(trace_ && trace_->wants(step_ + 1))) {  // a trace shows each operation once
      play_twice(feed);
    } else {
      player_->play(play, PlayPurpose::step, feed);
    }
  }
  player_->receive_scalars();
  ++step_;
  return optimizer_->result();
}

/// Plays the first micro-step, after another rank's, and throws CorruptionError if two ranks make different bits.
void TrainingSession::play_twice(const TokenFeed& own) {
  const StepSchedule& schedule = planned_.schedule;
  const auto feed_of = [&](std::int64_t ahead) -> TokenFeed {
    const std::int64_t request = (step_ - from_.step) * schedule.accumulation;
    const std::int64_t first = first_sample(request, (context_.rank() + ahead) % schedule.grid.world());
    return [this, first](std::int32_t* tokens, std::int32_t* targets) {
      const ModelParts& model = planned_.schedule.model;
      fill_batch(data_.source(), data_.train(), data_.vocab(), first, model.batch, row_, tokens, targets,
                 model.documents ? targets + model.tokens() : nullptr);
      return first;
    };
  };
  replay_->play(1, feed_of(1));
  replay_->play(0, own);
  const std::string found = replay_->difference([&] { replay_->play(2, feed_of(2)); });
  if (!found.empty()) {
    trusted_ = replayed_;
    throw CorruptionError("a processor or memory made wrong bits in the first micro-step of step {}: {}", step_ + 1,
                          found);
  }
  replayed_ = step_ + 1;
}

/// Returns a feed of the same micro-batch.
TokenFeed TrainingSession::fed_again(std::int64_t first_sample, const std::int32_t* tokens,
                                     const std::int32_t* targets) const {
  const ModelParts& model = planned_.schedule.model;
  const std::int64_t count = model.tokens(), behind = model.documents ? 2 * count : count;
  return [first_sample, fed = std::vector(tokens, tokens + count), wanted = std::vector(targets, targets + behind)](
             std::int32_t* to_tokens, std::int32_t* to_targets) {
    std::ranges::copy(fed, to_tokens);
    std::ranges::copy(wanted, to_targets);
    return first_sample;
  };
}

std::string TrainingSession::locate_nan() {
  NanSearch search(planned_.schedule, *resources_);
  const StepScalars after = optimizer_->scalars();  // the inputs are still those of the step
  std::size_t next = 0;
  player_->watch([&](OperationId id) { search.look(id); });
  player_->send_inputs();
  for (const Play& play : planned_.schedule.step) {
    search.begin(play);
    player_->play(play, PlayPurpose::aside,
                  [&](std::int32_t* tokens, std::int32_t* targets) { return fed_[next++](tokens, targets); });
    player_->synchronize();
  }
  player_->receive_scalars();
  player_->watch({});
  optimizer_->scalars() = after;
  player_->send_scalars();
  return search.found(context_, first_sample_of_step());
}

void TrainingSession::check_state() {
  if (!check_) return;
  player_->finish_step();
  player_->synchronize();
  const std::vector<std::string> found = check_->differences();
  if (found.empty()) {
    checked_ = step_;
    return;
  }
  constexpr std::size_t kNamed = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, found.size()); ++i) text += (i > 0 ? "; " : "") + found[i];
  if (found.size() > kNamed) text += fmt::format("; and {} more", found.size() - kNamed);
  throw CorruptionError("memory or a processor changed bits, after step {} and at the latest in step {}: {}", checked_,
                        step_ + 1, text);
}

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
