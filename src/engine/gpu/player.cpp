#include "engine/gpu/player.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "engine/poison.hpp"

namespace tessera {

namespace {

constexpr auto kAskEvery = std::chrono::microseconds(20);

std::string why_no_graphs(const Device& device, const PlayerSettings& settings) {
  if (!device.can_capture()) return "the device has no graphs";
  return settings.graph ? "" : "run.graph = false";
}

}  // namespace

GpuPlayer::GpuPlayer(const StepSchedule& schedule, Resources& resources, Optimizer& optimizer,
                     const PlayerSettings& settings)
    : Player(schedule, resources, optimizer, settings),
      exchange_(*resources.device, schedule.most_input_integers(),
                resources.address(schedule.reserved(Reserved::exchange))),
      queues_(*resources.device, resources.settings.queue_mode, false, copies_in_steps(schedule)),
      order_(schedule, *resources.device, queues_),
      flight_(schedule, *resources.device, queues_, resources.context.notice(), settings.flight),
      submitter_(schedule, resources, runner_, queues_, order_, flight_, settings.poison),
      graphs_(schedule, resources, queues_, order_, submitter_, flight_),
      operation_times_(schedule, *resources.device, queues_, order_),
      why_no_graphs_(why_no_graphs(*resources.device, settings)),
      played_(schedule.segments.size()) {
  if (auto* const transport = resources.communicators->transport()) transport->warm_up(queues_.compute());
  if (settings.poison) poison_regions(resources, queues_.compute());
}

std::string GpuPlayer::execution_mode() const {
  if (!why_no_graphs_.empty()) return fmt::format("segments played eagerly ({})", why_no_graphs_);
  const bool has_host_work =
      std::ranges::any_of(schedule_.segments, [&](const Segment& segment) { return works_on_host(segment); });
  return fmt::format("segments replayed as graphs{}, except in steps that are timed{}",
                     graphs_.has_collectives() ? "" : " between staged collectives",
                     has_host_work ? ", and those with the host's AdamW" : "");
}

void GpuPlayer::send_scalars() {
  guarded([&] { exchange_.send(queues_.compute(), optimizer_.scalars(), bound_.scalars); });
}

void GpuPlayer::send_inputs() {
  measures_ = settings_.measures(optimizer_.scalars().step);
  wishes_ = 0;
  log_.begin_step(optimizer_.scalars().step);
  guarded([&] { exchange_.send_inputs(queues_.compute(), optimizer_.scalars(), bound_.scalars); });
}

void GpuPlayer::receive_scalars() {
  guarded([&] {
    exchange_.receive(queues_.compute(), bound_.scalars, bound_.reduced, [&] { refresh(); });
    flight_.look();
    check();
  });
  optimizer_.scalars() = exchange_.scalars();
}

/// Asks for the wish again while the host waits.
void GpuPlayer::refresh() {
  exchange_.note(wish().requests);
  look();
}

/// Notes how far the streams have come, and rests.
void GpuPlayer::look() {
  flight_.look();
  std::this_thread::sleep_for(kAskEvery);
}

StepWish GpuPlayer::summed_wish() {
  StepWish summed;
  if (wishes_ < kWishSlots) return summed;
  guarded([&] { summed = exchange_.summed_wish(wishes_ - kWishSlots, [&] { look(); }); });
  return summed;
}

void GpuPlayer::synchronize() {
  guarded([&] {
    queues_.synchronize();
    flight_.look();
    check();
  });
}

/// Throws the errors of collectives, after they were waited for.
void GpuPlayer::check() {
  if (auto* const transport = resources_.communicators->transport()) transport->check();
}

void GpuPlayer::play_segment(const Play& segment, const TokenFeed& feed) {
  guarded([&] { submit(segment, feed); });
}

/// Returns whether the host has a part in a segment, which then cannot be replayed without it.
bool GpuPlayer::works_on_host(const Segment& segment) const {
  return std::ranges::any_of(segment.operations(),
                             [&](OperationId id) { return schedule_.operation(id).queue == Queue::host; });
}

void GpuPlayer::submit(const Play& play, const TokenFeed& feed) {
  runner_.begin_segment();
  log_.begin_play(play.segment);
  const Segment& segment = schedule_.segments[play.segment];
  // The host works on what earlier segments have copied to it.
  if (works_on_host(segment)) exchange_.wait(queues_.compute(), [&] { refresh(); });
  const std::int64_t wishes = wishes_;
  for (const OperationId id : segment.operations()) {
    if (takes_input(schedule_.operation(id))) load(id, schedule_.model_of(segment.role), feed);
  }
  flight_.begin_segment(play.segment);
  if (seen()) {
    log_.leave_out();
    submitter_.submit(segment.operations(), nullptr, seen());
  } else if (measures_) {
    queues_.synchronize();
    operation_times_.begin_segment();
    submitter_.submit(segment.operations(), &operation_times_);
    operation_times_.end_segment();
    queues_.synchronize();
    operation_times_.collect(segment, log_);
  } else {
    log_.leave_out();
    if (played_[play.segment] && why_no_graphs_.empty() && !works_on_host(segment)) {
      graphs_.play(play.segment);
    } else {
      submitter_.submit(segment.operations(), nullptr);
    }
  }
  // The time-out also holds for a graph with collectives.
  if (auto* const transport = resources_.communicators->transport())
    transport->watch_until_done(queues_.compute(), segment.name);
  if (wishes_ > wishes) exchange_.read_wish(queues_.compute(), wishes, bound_.wish);
  flight_.end_segment();
  played_[play.segment] = true;
}

void GpuPlayer::load(OperationId id, const ModelParts& model, const TokenFeed& feed) {
  const Operation& op = schedule_.operation(id);
  Stream& stream = queues_.compute();
  const std::int64_t start = steady_nanoseconds();
  log_.begins(id, 0, start);
  if (takes_tokens(schedule_, op)) {
    auto* const tokens = reinterpret_cast<std::int32_t*>(resources_.address(schedule_.value(op.writes[0]).storage));
    std::int64_t* const first_sample = bound_.scalars == nullptr ? nullptr : &bound_.scalars->first_sample;
    exchange_.load(stream, feed, model, tokens, first_sample);
  } else if (op.updates.empty()) {
    exchange_.send_wish(stream, wishes_++, wish(), bound_.wish);
  } else {
    exchange_.note(wish().requests);
    exchange_.send_requests(stream, &bound_.reduced->stop_requested);
  }
  const std::int64_t end = steady_nanoseconds();
  log_.done(0, end);
  log_.ran(id, 0, start, end);
}

}  // namespace tessera
