#pragma once
// Segments as graphs: captured once, replayed later. If collectives are the host's work, graphs cannot contain them;
// then a segment is several graphs with collectives between them.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/gpu/submitter.hpp"

namespace tessera {

class SegmentGraphs {
 public:
  /// All must outlive the graphs.
  SegmentGraphs(const StepSchedule& schedule, const Resources& resources, Queues& queues, const StreamOrder& order,
                Submitter& submitter, StreamFlight& flight);

  /// Plays a segment except its loads, from compute stream to compute stream. It must have been played before (so that
  /// libraries have done their one-time work). Captures the graphs that were not captured yet.
  void play(SegmentId segment);
  /// Returns whether collectives are part of the graphs.
  bool has_collectives() const { return has_collectives_; }

 private:
  /// A stretch of a segment in list order: either one collective of the host's on its queue, or operations that form a
  /// graph on the compute stream.
  struct Piece {
    OperationId first;
    std::int64_t count = 0;
    bool on_host = false;
    std::vector<std::size_t> waits;      ///< pieces on other streams that this one comes after, by number
    std::unique_ptr<Event> end;          ///< if a segment has several
    std::unique_ptr<DeviceGraph> graph;  ///< once captured
    CommunicationCounts sends{};         ///< of a graph
  };

  void split(const Segment& segment, const StreamOrder& order);
  Stream& stream_of(const Piece& piece);
  void launch(Piece& piece, const std::string& name);

  const StepSchedule& schedule_;
  const Resources& resources_;
  Queues& queues_;
  Submitter& submitter_;
  StreamFlight& flight_;
  bool has_collectives_;
  IndexedVector<SegmentId, std::vector<Piece>> pieces_;
};

}  // namespace tessera
