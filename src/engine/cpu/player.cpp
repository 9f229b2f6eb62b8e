#include "engine/cpu/player.hpp"

#include <algorithm>
#include <map>

#include "engine/cpu/touch_guard.hpp"
#include "engine/poison.hpp"

namespace tessera {

CpuPlayer::CpuPlayer(const StepSchedule& schedule, Resources& resources, Optimizer& optimizer,
                     const PlayerSettings& settings)
    : Player(schedule, resources, optimizer, settings),
      queues_(*resources.device, resources.settings.queue_mode, resources.settings.queue_mode != QueueMode::chaos,
              copies_in_steps(schedule)),
      order_(schedule, *resources.device, queues_),
      touches_left_(schedule.storages.size()) {
  find_border_waits();
  if (!settings.poison) return;
  passing_ = passing_storages(schedule);
  poison_regions(resources, queues_.compute());
}

void CpuPlayer::find_border_waits() {
  for (const Segment& segment : schedule_.segments) {
    std::map<TimeCategory, OperationId> last;
    for (const OperationId id : segment.operations()) {
      const Operation& op = schedule_.operation(id);
      if (!queues_.on_compute(op.queue)) last[category_of(op)] = id;
    }
    std::vector<OperationId>& waits = border_waits_.emplace_back();
    for (const auto& [category, id] : last) {
      waits.push_back(id);
      order_.record_after(id);
    }
    std::sort(waits.begin(), waits.end());
  }
}

void CpuPlayer::send_scalars() { *bound_.scalars = optimizer_.scalars(); }

void CpuPlayer::send_inputs() {
  measures_ = settings_.measures(optimizer_.scalars().step);
  log_.begin_step(optimizer_.scalars().step);
  static_cast<StepInputs&>(*bound_.scalars) = optimizer_.scalars();
}

void CpuPlayer::receive_scalars() {
  optimizer_.scalars() = *bound_.scalars;
  reduced_ = *bound_.reduced;
}

void CpuPlayer::synchronize() {
  play_guarded(resources_.context, queues_, [&] { queues_.synchronize(); });
}

void CpuPlayer::play_segment(const Play& segment, const TokenFeed& feed) {
  play_guarded(resources_.context, queues_, [&] { issue(segment, feed); });
}

void CpuPlayer::issue(const Play& play, const TokenFeed& feed) {
  runner_.begin_segment();
  log_.begin_play(play.segment);
  const Segment& segment = schedule_.segments[play.segment];
  const SegmentGuard guard(resources_.memory->region(RegionKind::private_),
                           resources_.settings.queue_mode == QueueMode::serial);
  if (settings_.poison) {
    for (const OperationId id : segment.operations()) {
      for (const StorageId storage : passing_[id]) ++touches_left_[storage];
    }
  }
  for (const OperationId id : segment.operations()) {
    const Operation& op = schedule_.operation(id);
    Stream& stream = queues_.of(op.queue);
    for (const OperationId other : order_.waits(id)) {
      const std::int64_t start = steady_nanoseconds();
      stream.wait(order_.event(other));
      if (queues_.on_compute(op.queue)) log_.waited(id, other, start, steady_nanoseconds());
    }
    if (takes_input(op)) {
      const TouchGuard touch(&guard, schedule_, *resources_.memory, op);
      load(id, schedule_.model_of(segment.role), feed);
    } else {
      stream.submit({&CpuPlayer::run_task, this, id.number()});
    }
    order_.submitted(id, stream);
  }
  // The time for which the segment's end waits is booked to the kind of collective that it waits for.
  for (const OperationId id : border_waits_[play.segment]) {
    const std::int64_t start = steady_nanoseconds();
    order_.event(id).synchronize();
    log_.waited({}, id, start, steady_nanoseconds());
  }
  queues_.synchronize();
  if (!measures_) log_.leave_out();
}

void CpuPlayer::load(OperationId id, const ModelParts& model, const TokenFeed& feed) {
  const Operation& op = schedule_.operation(id);
  const std::int64_t start = steady_nanoseconds();
  log_.begins(id, 0, start);
  if (takes_tokens(schedule_, op)) {
    auto* const tokens = reinterpret_cast<std::int32_t*>(resources_.address(schedule_.value(op.writes[0]).storage));
    const std::int64_t first_sample = feed(tokens, tokens + model.tokens());
    if (bound_.scalars != nullptr) bound_.scalars->first_sample = first_sample;
  } else if (op.updates.empty()) {
    *bound_.wish = wish();
  } else {
    bound_.reduced->stop_requested = wish().requests;
  }
  const std::int64_t end = steady_nanoseconds();
  log_.done(0, end);
  log_.ran(id, 0, start, end);
}

void CpuPlayer::run_task(void* self, std::int64_t argument, Stream& stream) {
  auto& player = *static_cast<CpuPlayer*>(self);
  try {
    player.execute(OperationId(argument), stream);
  } catch (...) {
    tell_peers(player.resources_.context);  // at once: the caller may wait for a peer and not see that a queue failed
    throw;
  }
}

void CpuPlayer::execute(OperationId id, Stream& stream) {
  const Operation& op = schedule_.operation(id);
  runner_.delay(id);
  const int stream_number = queues_.stream_number(op.queue);
  const std::int64_t start = steady_nanoseconds();
  log_.begins(id, stream_number, start);
  {
    const TouchGuard touch(SegmentGuard::current(), schedule_, *resources_.memory, op);
    runner_.run(id, stream);
    if (seen()) seen()(id);
    if (settings_.poison) release(id, stream);  // while its storages are open to it
  }
  const std::int64_t end = steady_nanoseconds();
  log_.done(stream_number, end);
  log_.ran(id, stream_number, start, end);
}

/// Poisons the storages whose last operation in this segment this was.
void CpuPlayer::release(OperationId id, Stream& stream) {
  for (const StorageId storage : passing_[id]) {
    if (--touches_left_[storage] > 0) continue;
    resources_.device->fill_nan(stream, resources_.memory->bytes_of(schedule_, storage));
  }
}

}  // namespace tessera
