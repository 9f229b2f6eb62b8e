// Playing on a GPU: operations are submitted to streams and the host goes on. A segment that was played before is
// captured as a graph and replayed, unless the step is one that is timed; where collectives are the host's work, as the
// graphs between them.

#include <algorithm>
#include <map>
#include <set>

#include "engine/bound_operation.hpp"
#include "engine/device_times.hpp"
#include "engine/exchange.hpp"
#include "engine/lanes.hpp"
#include "engine/pieces.hpp"

namespace tessera {

namespace {

CommunicationCounts difference(CommunicationCounts counts, const CommunicationCounts& before) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i].calls -= before[i].calls;
    counts[i].bytes -= before[i].bytes;
  }
  return counts;
}

}  // namespace

/// Cuts a segment into as few pieces as do not wait for a collective earlier than one of their operations has to. What
/// happens before what stays as it was: an operation comes after those that it waits for and after those before it on
/// its stream, only that here their pieces stand for them.
void Player::bind_pieces(const Segment& segment) {
  auto& pieces = pieces_.emplace_back();
  std::map<OperationId, std::size_t> piece_of;
  std::map<const Stream*, std::size_t> last_on;  // the last piece with an operation that belongs to a stream
  std::set<std::size_t> behind;                  // pieces that compute's stream has waited for
  for (OperationId id = segment.first; id < segment.first + segment.count; ++id) {
    const Operation& op = s_.operation(id);
    if (op.kind == OperationKind::load) continue;
    const bool on_host = s_.communicates(op) && !resources_.captures_collectives();
    const Stream* const own = &lanes_->of(op.lane);
    const Stream* const stream = on_host ? own : &lanes_->compute();
    std::set<std::size_t> waits;
    const auto comes_after = [&](std::size_t piece) {
      const bool in_order = &stream_of(*pieces[piece]) == stream || (!on_host && behind.contains(piece));
      if (!in_order) waits.insert(piece);
    };
    for (const OperationId other : bound_[static_cast<std::size_t>(id)]->waits) comes_after(piece_of.at(other));
    if (const auto last = last_on.find(own); last != last_on.end()) comes_after(last->second);

    const bool goes_on = !on_host && waits.empty() && !pieces.empty() && !pieces.back()->on_host;
    if (!goes_on) {
      pieces.push_back(std::make_unique<Piece>());
      pieces.back()->first = id;
      pieces.back()->on_host = on_host;
      pieces.back()->waits.assign(waits.begin(), waits.end());
      pieces.back()->end = resources_.device().make_event();
      if (!on_host) behind.insert(waits.begin(), waits.end());
    }
    pieces.back()->count = id - pieces.back()->first + 1;
    piece_of[id] = last_on[own] = pieces.size() - 1;
  }
}

Stream& Player::stream_of(const Piece& piece) {
  return piece.on_host ? lanes_->of(s_.operation(piece.first).lane) : lanes_->compute();
}

void Player::issue_on_device(const Play& play, const TokenFeed& feed) {
  const auto number = static_cast<std::size_t>(play.segment);
  const Segment& segment = s_.segments[number];
  Stream& compute = lanes_->compute();
  for (OperationId id = segment.first; id < segment.first + segment.count; ++id) {
    const Operation& op = s_.operation(id);
    if (op.kind != OperationKind::load) continue;
    const TimeScope scope(times_, TimeCategory::data);
    auto* const tokens = reinterpret_cast<std::int32_t*>(at(op.writes[0]));
    exchange_->load(compute, feed, tokens, &scalars_->first_sample);
  }
  if (measures_) {
    device_times_->begin_segment(compute);
    submit(segment.first, segment.count);
    device_times_->end_segment(compute);
    lanes_->synchronize();
    device_times_->collect(
        segment, times_, [&](OperationId id) { return &lanes_->of(s_.operation(id).lane) == &compute; },
        [&](OperationId id) -> const std::vector<OperationId>& { return bound_[static_cast<std::size_t>(id)]->waits; });
  } else {
    times_.leave_out();
    if (played_[number] && settings_.graph) {
      play_pieces(number);
    } else {
      submit(segment.first, segment.count);
    }
  }
  resources_.follow(compute, segment.name);
  played_[number] = true;
}

/// Operations of a segment but its loads, from compute's stream to compute's stream.
void Player::submit(OperationId first, OperationId count) {
  lanes_->fork();
  for (OperationId id = first; id < first + count; ++id) {
    const Operation& op = s_.operation(id);
    if (op.kind == OperationKind::load) continue;
    const Bound& bound = *bound_[static_cast<std::size_t>(id)];
    Stream& stream = lanes_->of(op.lane);
    for (const OperationId other : bound.waits) {
      if (other >= first) stream.wait(*bound_[static_cast<std::size_t>(other)]->event);
    }
    if (measures_) device_times_->begin(id, stream);
    stream.submit({&Player::run_task, this, id});
    if (measures_) device_times_->end(id, stream);
    if (bound.event != nullptr) stream.record(*bound.event);
  }
  lanes_->join();
}

/// A graph comes after all that compute's stream has and before all that it is given, so one alone needs no events.
void Player::play_pieces(std::size_t segment) {
  const auto& pieces = pieces_[segment];
  const bool between = !resources_.captures_collectives();
  if (between) lanes_->fork();
  for (const auto& piece : pieces) {
    Stream& stream = stream_of(*piece);
    for (const std::size_t other : piece->waits) stream.wait(*pieces[other]->end);
    if (piece->on_host) {
      stream.submit({&Player::run_task, this, piece->first});
    } else {
      launch(*piece, s_.segments[segment].name);
    }
    if (between) stream.record(*piece->end);
  }
  if (between) lanes_->join();
}

void Player::launch(Piece& piece, const std::string& name) {
  Stream& compute = lanes_->compute();
  Device& device = resources_.device();
  if (piece.graph == nullptr) {
    const CommunicationCounts before = resources_.counts();
    device.begin_capture(compute);
    submit(piece.first, piece.count);
    piece.graph = device.end_capture(compute);
    // So is the first launch counted. (What goes through the host meanwhile is none of the graph's.)
    if (resources_.captures_collectives()) piece.sends = difference(resources_.counts(), before);
  } else {
    resources_.count_replay(piece.sends);
  }
  device.begin_range(name.c_str());
  piece.graph->launch(compute);
  device.end_range();
}

}  // namespace tessera
