#include "tessera/engine/player.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "engine/bound_operation.hpp"
#include "engine/device_times.hpp"
#include "engine/exchange.hpp"
#include "engine/lanes.hpp"
#include "engine/pieces.hpp"
#include "engine/touch_guard.hpp"
#include "tessera/base/counter_rng.hpp"
#include "tessera/engine/categories.hpp"
#include "tessera/engine/tell_peers.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

std::int64_t nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

}  // namespace

Player::Player(const StepSchedule& schedule, Resources& resources, Optimizer& optimizer, const PlayerSettings& settings)
    : s_(schedule),
      resources_(resources),
      optimizer_(optimizer),
      settings_(settings),
      lanes_(std::make_unique<Lanes>(resources.device(), resources.settings().lanes)),
      exchange_(std::make_unique<Exchange>(resources.device(), schedule.model.tokens(),
                                           schedule.exchange >= 0 ? resources.address(schedule.exchange) : nullptr)),
      ring_(1024),
      touches_left_(schedule.storages.size()) {
  bind_scalars();
  for (OperationId id = 0; id < static_cast<OperationId>(s_.operations.size()); ++id)
    bound_.push_back(std::make_unique<Bound>());
  for (OperationId id = 0; id < static_cast<OperationId>(s_.operations.size()); ++id) {
    bind(id);
    Bound& bound = *bound_[static_cast<std::size_t>(id)];
    std::erase_if(bound.waits, [&](OperationId other) {
      return &lanes_->of(s_.operation(other).lane) == &lanes_->of(s_.operation(id).lane);
    });
    for (const OperationId other : bound.waits) {
      auto& event = bound_[static_cast<std::size_t>(other)]->event;
      if (event == nullptr) event = resources_.device().make_event();
    }
  }
  bind_tails();
  for (const Segment& segment : s_.segments) {
    for (OperationId id = segment.first; id < segment.first + segment.count; ++id) {
      Bound& bound = *bound_[static_cast<std::size_t>(id)];
      bound.buffers.evaluation = segment.role == SegmentRole::evaluation;
    }
  }
  bind_names();
  if (resources_.device().kind() != DeviceKind::cpu) {
    for (const Segment& segment : s_.segments) bind_pieces(segment);
    played_.resize(s_.segments.size());
    settings_.graph = settings_.graph && resources_.obstacle_to_graphs().empty();
    device_times_ = std::make_unique<DeviceTimes>(resources_.device(), s_);
    resources_.warm_up(lanes_->compute());
  }
  if (settings_.poison) {
    bind_poison();
    if (!resources_.host_reaches_memory()) bind_device_poison();
  }
  if (settings_.poison || resources_.measures()) {
    resources_.device().fill_pattern(lanes_->compute(), resources_.bytes(RegionKind::private_));
    resources_.device().fill_pattern(lanes_->compute(), resources_.bytes(RegionKind::shared));
  }
}

std::string Player::manner() const {
  if (resources_.device().kind() == DeviceKind::cpu) return {};
  if (settings_.graph) {
    return fmt::format("segments replayed as graphs{}, except in steps that are timed",
                       resources_.captures_collectives() ? "" : " between staged collectives");
  }
  const std::string obstacle = resources_.obstacle_to_graphs();
  return fmt::format("segments played eagerly ({})", obstacle.empty() ? "run.graph = false" : obstacle);
}

/// Lanes end before what their work touches.
Player::~Player() {
  lanes_->drain();
  lanes_.reset();
}

/// Per segment: the last operation of each kind of collective that runs beside the caller, in list order.
void Player::bind_tails() {
  for (const Segment& segment : s_.segments) {
    std::map<TimeCategory, OperationId> last;
    const bool on_host = resources_.host_reaches_memory();  // a GPU's borders are on the GPU
    for (OperationId id = segment.first; on_host && id < segment.first + segment.count; ++id) {
      if (!lanes_->on_caller(s_.operation(id).lane)) last[category_of(s_, s_.operation(id))] = id;
    }
    std::vector<OperationId> tails;
    for (const auto& [category, id] : last) {
      tails.push_back(id);
      auto& event = bound_[static_cast<std::size_t>(id)]->event;
      if (event == nullptr) event = resources_.device().make_event();
    }
    std::sort(tails.begin(), tails.end());
    tails_.push_back(std::move(tails));
  }
}

const ScalarPayload& Player::payload() const { return exchange_->payload(); }

void Player::send_scalars() {
  guarded([&] { exchange_->send(lanes_->compute(), optimizer_.scalars(), scalars_); });
}

void Player::send_inputs() {
  const std::int64_t step = optimizer_.scalars().step;
  measures_ = step <= 2 || step % settings_.measure_every == 0;
  guarded([&] { exchange_->send_inputs(lanes_->compute(), optimizer_.scalars(), scalars_); });
}

void Player::receive_scalars() {
  guarded([&] {
    exchange_->receive(lanes_->compute(), scalars_, payload_);
    resources_.check();
  });
  optimizer_.scalars() = exchange_->scalars();
}

void Player::synchronize() {
  guarded([&] {
    lanes_->synchronize();
    resources_.check();
  });
}

void Player::play(const std::vector<Play>& plays, const TokenFeed& feed) {
  for (const Play& play : plays) play_segment(play, feed);
}

void Player::play_segment(const Play& play, const TokenFeed& feed) {
  guarded([&] { issue(play, feed); });
}

/// What fails here is told to the other ranks before lanes are joined: they may wait for peers that wait for us.
template <class Work>
void Player::guarded(Work&& work) {
  try {
    work();
  } catch (...) {
    tell_peers(resources_.context());
    lanes_->drain();
    throw;
  }
}

void Player::issue(const Play& play, const TokenFeed& feed) {
  ++plays_;
  if (resources_.host_reaches_memory()) return issue_on_host(play, feed);
  issue_on_device(play, feed);
}

void Player::issue_on_host(const Play& play, const TokenFeed& feed) {
  const Segment& segment = s_.segments[static_cast<std::size_t>(play.segment)];
  const SegmentGuard guard(resources_.bytes(RegionKind::private_), resources_.settings().lanes == LaneMode::serial);
  if (settings_.poison) {
    for (OperationId id = segment.first; id < segment.first + segment.count; ++id) {
      for (const StorageId storage : bound_[static_cast<std::size_t>(id)]->touched)
        ++touches_left_[static_cast<std::size_t>(storage)];
    }
  }
  for (OperationId id = segment.first; id < segment.first + segment.count; ++id) {
    const Operation& op = s_.operation(id);
    Bound& bound = *bound_[static_cast<std::size_t>(id)];
    Stream& stream = lanes_->of(op.lane);
    for (const OperationId other : bound.waits) {
      const auto start = Clock::now();
      stream.wait(*bound_[static_cast<std::size_t>(other)]->event);
      if (lanes_->on_caller(op.lane)) times_.add(category_of(s_, s_.operation(other)), nanoseconds_since(start));
    }
    if (op.kind == OperationKind::load) {
      const TimeScope scope(times_, TimeCategory::data);
      auto* tokens = reinterpret_cast<std::int32_t*>(at(op.writes[0]));
      const TouchGuard touch(guard, s_, resources_, op);
      exchange_->load(stream, feed, tokens, &scalars_->first_sample);
    } else {
      stream.submit({&Player::run_task, this, id});
    }
    if (bound.event != nullptr) stream.record(*bound.event);
  }
  // What the border waits for is booked to the kind of collective that is waited for.
  for (const OperationId id : tails_[static_cast<std::size_t>(play.segment)]) {
    const auto start = Clock::now();
    bound_[static_cast<std::size_t>(id)]->event->synchronize();
    times_.add(category_of(s_, s_.operation(id)), nanoseconds_since(start));
  }
  lanes_->join();
  if (!measures_) times_.leave_out();
}

void Player::run_task(void* self, std::int64_t argument, Stream& stream) {
  auto& player = *static_cast<Player*>(self);
  try {
    player.execute(static_cast<OperationId>(argument), stream);
  } catch (...) {
    tell_peers(player.resources_.context());  // at once: the caller may wait for a peer and not see that a lane failed
    throw;
  }
}

void Player::execute(OperationId id, Stream& stream) {
  const Operation& op = s_.operation(id);
  if (resources_.settings().lanes == LaneMode::chaos) delay(id);
  const auto start = Clock::now();
  resources_.device().begin_range(bound_[static_cast<std::size_t>(id)]->name.c_str());
  const std::uint64_t sequence =
      ring_.begin(id, static_cast<std::int32_t>(op.kind), op.unit >= 0 ? op.unit : op.part, op.wire_bytes);
  {
    const TouchGuard touch(SegmentGuard::current(), s_, resources_, op);
    switch (op.kind) {
      case OperationKind::gather:
        execute_gather(op, stream);
        break;
      case OperationKind::forward:
      case OperationKind::recompute:
      case OperationKind::backward:
        execute_part(id, stream);
        break;
      case OperationKind::reduce_scatter: {
        const Value& source = s_.value(op.reads[0]);
        const Value& sum = s_.value(op.writes[0]);
        summing_communicator(id).reduce_scatter(stream, at(op.reads[0]), source.dtype, at(op.writes[0]), sum.dtype,
                                                sum.elements);
        break;
      }
      case OperationKind::all_reduce:
        summing_communicator(id).all_reduce_sum(stream, reinterpret_cast<std::int64_t*>(at(op.updates[0].after)),
                                                s_.value(op.updates[0].after).elements);
        break;
      case OperationKind::accumulate:
        execute_accumulate(op, stream);
        break;
      case OperationKind::norm: {
        const Value& gradient = s_.value(op.reads[0]);
        resources_.kernels(op.lane).square_sum(stream, at(op.reads[0]), gradient.dtype, gradient.elements,
                                               &payload_->square_norm);
        break;
      }
      case OperationKind::clip:
        resources_.kernels(op.lane).clip(stream, optimizer_.clip_arguments(payload_, scalars_));
        break;
      case OperationKind::update:
        resources_.kernels(op.lane).adamw(stream, bound_[static_cast<std::size_t>(id)]->adamw);
        break;
      case OperationKind::store:
        execute_store(id, stream);
        break;
      case OperationKind::load:
      case OperationKind::slice:
        throw InternalError("operation {} ({}) cannot be played", id, name_of(op.kind));
    }
    if (settings_.poison) release(id, stream);  // while its storages are open to it
  }
  resources_.device().end_range();
  ring_.end(sequence);
  if (lanes_->on_caller(op.lane)) times_.add(category_of(s_, op), nanoseconds_since(start));
}

/// The communicator of a sum, with the scratch that it has in the plan.
Communicator& Player::summing_communicator(OperationId id) {
  const Operation& op = s_.operation(id);
  Communicator& communicator = resources_.communicator(op.lane, op.group);
  communicator.lend(bound_[static_cast<std::size_t>(id)]->scratch);
  return communicator;
}

void Player::execute_gather(const Operation& op, Stream& stream) {
  const Value& source = s_.value(op.reads[0]);
  const Value& whole = s_.value(op.writes[0]);
  const std::int64_t slice = whole.elements / s_.grid.size(op.group);
  std::byte* mine = at(op.writes[0]) + resources_.index_in(op.group) * slice * size_of(whole.dtype);
  resources_.kernels(op.lane).cast(stream, at(op.reads[0]), source.dtype, mine, whole.dtype, slice);
  if (s_.communicates(op))
    resources_.communicator(op.lane, op.group).all_gather(stream, at(op.writes[0]), slice, whole.dtype);
}

void Player::execute_part(OperationId id, Stream& stream) {
  const Operation& op = s_.operation(id);
  const Part& part = s_.part(op.part);
  Bound& bound = *bound_[static_cast<std::size_t>(id)];
  Kernels& kernels = resources_.kernels(op.lane);
  for (const auto& [address, bytes] : bound.gaps) kernels.fill_zero(stream, address, bytes);
  switch (op.kind) {
    case OperationKind::forward:
      part_forward(kernels, stream, s_.model, part, bound.buffers);
      break;
    case OperationKind::recompute:
      part_recompute(kernels, stream, s_.model, part, bound.buffers);
      break;
    default:
      part_backward(kernels, stream, s_.model, part, bound.buffers);
      break;
  }
  if (part.kind != PartKind::head) return;
  kernels.account_loss(stream, {scalars_, payload_, bound.starts_account});
}

void Player::execute_accumulate(const Operation& op, Stream& stream) {
  Kernels& kernels = resources_.kernels(op.lane);
  const Value& first = s_.value(op.reads[0]);
  if (!op.updates.empty()) {
    const Value& sum = s_.value(op.updates[0].after);
    kernels.add(stream, at(op.updates[0].after), sum.dtype, at(op.reads[0]), first.dtype, at(op.updates[0].after),
                sum.dtype, sum.elements);
  } else if (op.reads.size() == 2) {
    const Value& second = s_.value(op.reads[1]);
    const Value& sum = s_.value(op.writes[0]);
    kernels.add(stream, at(op.reads[1]), second.dtype, at(op.reads[0]), first.dtype, at(op.writes[0]), sum.dtype,
                sum.elements);
  } else {
    const Value& copy = s_.value(op.writes[0]);
    kernels.cast(stream, at(op.reads[0]), first.dtype, at(op.writes[0]), copy.dtype, copy.elements);
  }
}

/// Cores copy by all threads, a GPU by itself.
void Player::execute_store(OperationId id, Stream& stream) {
  const Bound& bound = *bound_[static_cast<std::size_t>(id)];
  for (const Bound::Copy& copy : bound.copies) {
    if (resources_.host_reaches_memory()) {
      resources_.kernels(Lane::store).cast(stream, copy.from, DType::fp32, copy.to, DType::fp32, bound.copied_elements);
    } else {
      resources_.device().copy(stream, copy.to, copy.from, bound.copied_elements * size_of(DType::fp32));
    }
  }
}

/// Poisons the storages whose last operation in this segment this was.
void Player::release(OperationId id, Stream& stream) {
  if (!resources_.host_reaches_memory()) {
    for (const StorageId storage : bound_[static_cast<std::size_t>(id)]->poisons)
      resources_.device().fill_pattern(
          stream, {resources_.address(storage), static_cast<std::size_t>(s_.storage(storage).bytes)});
    return;
  }
  for (const StorageId storage : bound_[static_cast<std::size_t>(id)]->touched) {
    if (--touches_left_[static_cast<std::size_t>(storage)] > 0) continue;
    resources_.device().fill_pattern(
        stream, {resources_.address(storage), static_cast<std::size_t>(s_.storage(storage).bytes)});
  }
}

/// Chaos: some operations start late, by seed.
void Player::delay(OperationId id) {
  const auto bits =
      philox(settings_.chaos_seed, RandomUse::chaos, static_cast<std::uint32_t>(resources_.context().rank()),
             static_cast<std::uint64_t>(plays_) << 32 | static_cast<std::uint32_t>(id));
  if (bits[0] % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(bits[1] % 300));
}

}  // namespace tessera
