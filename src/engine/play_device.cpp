// Playing on a GPU: operations are submitted to streams and the host goes on. A segment that was played before is
// captured as a graph and replayed, unless the step is one that is timed.

#include "engine/bound_operation.hpp"
#include "engine/device_times.hpp"
#include "engine/exchange.hpp"
#include "engine/lanes.hpp"

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
  if (measures_ || !played_[number] || !settings_.graph) {
    if (measures_) device_times_->begin_segment(compute);
    submit_segment(segment);
    if (measures_) {
      device_times_->end_segment(compute);
      lanes_->synchronize();
      device_times_->collect(
          segment, times_, [&](OperationId id) { return &lanes_->of(s_.operation(id).lane) == &compute; },
          [&](OperationId id) -> const std::vector<OperationId>& {
            return bound_[static_cast<std::size_t>(id)]->waits;
          });
    } else {
      times_.leave_out();
    }
    resources_.follow(compute, segment.name);
    played_[number] = true;
    return;
  }
  times_.leave_out();
  if (graphs_[number] == nullptr) {
    const CommunicationCounts before = resources_.counts();
    resources_.device().begin_capture(compute);
    submit_segment(segment);
    graphs_[number] = resources_.device().end_capture(compute);
    replays_[number] = difference(resources_.counts(), before);  // and so is the first launch counted
  } else {
    resources_.count_replay(replays_[number]);
  }
  resources_.device().begin_range(segment.name.c_str());
  graphs_[number]->launch(compute);
  resources_.device().end_range();
  resources_.follow(compute, segment.name);
}

/// Everything of a segment but its loads, from compute's stream to compute's stream.
void Player::submit_segment(const Segment& segment) {
  lanes_->fork();
  for (OperationId id = segment.first; id < segment.first + segment.count; ++id) {
    const Operation& op = s_.operation(id);
    if (op.kind == OperationKind::load) continue;
    const Bound& bound = *bound_[static_cast<std::size_t>(id)];
    Stream& stream = lanes_->of(op.lane);
    for (const OperationId other : bound.waits) stream.wait(*bound_[static_cast<std::size_t>(other)]->event);
    if (measures_) device_times_->begin(id, stream);
    stream.submit({&Player::run_task, this, id});
    if (measures_) device_times_->end(id, stream);
    if (bound.event != nullptr) stream.record(*bound.event);
  }
  lanes_->join();
}

}  // namespace tessera
