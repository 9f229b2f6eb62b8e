#include "engine/gpu/segment_graphs.hpp"

#include <map>
#include <set>

namespace tessera {

namespace {

bool captures_all(const DeviceCommBackend* transport) {
  return transport == nullptr || transport->backend() == CommBackend::nccl;
}

}  // namespace

SegmentGraphs::SegmentGraphs(const StepSchedule& schedule, const Resources& resources, Queues& queues,
                             const StreamOrder& order, Submitter& submitter, StreamFlight& flight)
    : schedule_(schedule),
      resources_(resources),
      queues_(queues),
      submitter_(submitter),
      flight_(flight),
      has_collectives_(captures_all(resources.communicators->transport())) {
  for (const Segment& segment : schedule.segments) split(segment, order);
}

/// Splits a segment into the fewest pieces such that no operation waits for a collective that it does not depend on.
/// Dependencies are unchanged: an operation comes after those that it waits for and after those before it on its
/// stream, with their pieces in place of them.
void SegmentGraphs::split(const Segment& segment, const StreamOrder& order) {
  auto& pieces = pieces_.emplace_back();
  std::map<OperationId, std::size_t> piece_of;
  std::map<const Stream*, std::size_t> last_on;  // the last piece with an operation that belongs to a stream
  std::set<std::size_t> behind;                  // pieces that the compute stream has waited for
  for (const OperationId id : segment.operations()) {
    const Operation& op = schedule_.operation(id);
    if (takes_input(op)) continue;
    const bool on_host = schedule_.communicates(op) && !has_collectives_;
    const Stream* const own = &queues_.of(op.queue);
    const Stream* const stream = on_host ? own : &queues_.compute();
    std::set<std::size_t> waits;
    const auto comes_after = [&](std::size_t piece) {
      const bool in_order = &stream_of(pieces[piece]) == stream || (!on_host && behind.contains(piece));
      if (!in_order) waits.insert(piece);
    };
    for (const OperationId other : order.waits(id)) comes_after(piece_of.at(other));
    if (const auto last = last_on.find(own); last != last_on.end()) comes_after(last->second);

    const bool goes_on = !on_host && waits.empty() && !pieces.empty() && !pieces.back().on_host;
    if (!goes_on) {
      Piece& piece = pieces.emplace_back();
      piece.first = id;
      piece.on_host = on_host;
      piece.waits.assign(waits.begin(), waits.end());
      piece.end = resources_.device->make_event();
      if (!on_host) behind.insert(waits.begin(), waits.end());
    }
    pieces.back().count = id - pieces.back().first + 1;
    piece_of[id] = last_on[own] = pieces.size() - 1;
  }
}

Stream& SegmentGraphs::stream_of(const Piece& piece) {
  return piece.on_host ? queues_.of(schedule_.operation(piece.first).queue) : queues_.compute();
}

/// A graph comes after all earlier work of the compute stream and before all later work, so one alone needs no events.
void SegmentGraphs::play(SegmentId segment) {
  if (!has_collectives_) submitter_.fork();
  for (Piece& piece : pieces_[segment]) {
    Stream& stream = stream_of(piece);
    for (const std::size_t other : piece.waits) stream.wait(*pieces_[segment][other].end);
    if (piece.on_host) {
      flight_.begin(piece.first, stream);
      submitter_.run(piece.first, stream);
    } else {
      launch(piece, schedule_.segments[segment].name);
    }
    if (!has_collectives_) stream.record(*piece.end);
    if (piece.on_host) flight_.end(piece.first, stream);
  }
  if (!has_collectives_) submitter_.join();
}

void SegmentGraphs::launch(Piece& piece, const std::string& name) {
  Stream& compute = queues_.compute();
  Device& device = *resources_.device;
  if (piece.graph == nullptr) {
    const CommunicationCounts before = resources_.communicators->counts();
    device.begin_capture(compute);
    submitter_.submit(IdRange<OperationId>(piece.first, piece.first + piece.count), nullptr);
    piece.graph = device.end_capture(compute);
    // Counts the first launch. Collectives issued by the host are not part of the graph.
    if (has_collectives_) piece.sends = difference(resources_.communicators->counts(), before);
  } else {
    resources_.communicators->count_replay(piece.sends);
  }
  device.begin_range(name.c_str());
  piece.graph->launch(compute);
  device.end_range();
}

}  // namespace tessera
