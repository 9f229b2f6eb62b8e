#pragma once
// A GPU's part of the flight recorder. The host submits work and goes on, so the streams themselves write how far they
// have come: which play of a segment runs, and which of its collectives and copies has begun or is done. Any thread
// can read these words without the driver, also while the host is stuck in a call of it.

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/queues.hpp"
#include "tessera/comm/notice.hpp"
#include "tessera/flight/recorder.hpp"

namespace tessera {

class StreamFlight {
 public:
  /// `flight` may be null; then nothing is written. All must outlive this, and streams be empty at its end.
  StreamFlight(const StepSchedule& schedule, Device& device, Queues& queues, FailureNotice& notice,
               FlightRecorder* flight);
  ~StreamFlight();
  StreamFlight(const StreamFlight&) = delete;
  StreamFlight& operator=(const StreamFlight&) = delete;

  /// Have the streams write that a segment begins and that it is done. Called before and after it is submitted.
  void begin_segment(SegmentId segment);
  void end_segment();
  /// Have a stream write that it has come to an operation and that it is past it, if that is one of those to be noted.
  /// Called before and after it is submitted, also while it is captured.
  void begin(OperationId id, Stream& stream) { write(id, stream, 1); }
  void end(OperationId id, Stream& stream) { write(id, stream, 0); }

  /// Brings the recorder up to date. Any thread. After a failure nothing more is noted, because streams may run on past
  /// what has failed.
  void look();

 private:
  static constexpr auto kSegments = static_cast<std::size_t>(kFlightSegments);
  /// An operation that is written: its ring, and its place among those of its segment there, from 1 on. 0: it is not.
  struct Mark {
    std::size_t ring = 0;
    std::uint32_t place = 0;
  };
  struct Play {
    SegmentId segment;
    std::int64_t step;
    std::uint64_t number;  ///< from 1 on, also of its record
  };

  void write(OperationId id, Stream& stream, std::uint32_t back);
  void note(std::size_t ring, const Play& play, std::uint32_t word, std::int64_t now);
  void finish(const Play& play, std::int64_t now);

  Device& device_;
  Stream& compute_;
  FailureNotice& notice_;
  FlightRecorder* flight_;
  std::int64_t first_segment_;  ///< row of the recorder's table
  std::unique_ptr<DeviceMemory> memory_;
  /// Of segments: 2 * play - 1 while a play runs, 2 * play after it. Of the others, 2 * place - 1 while an operation
  /// of the play runs, 2 * place after it, and 0 before the first.
  std::span<std::uint32_t> words_;
  IndexedVector<OperationId, Mark> marks_;
  /// Operations that are written, by segment, ring and place.
  IndexedVector<SegmentId, std::array<std::vector<OperationId>, kFlightRings>> marked_;

  std::mutex mutex_;        ///< of what follows
  std::deque<Play> plays_;  ///< that were submitted and are not known to be done
  std::uint64_t submitted_ = 0;
  std::array<std::uint64_t, kFlightRings> before_{};  ///< operations of plays that are done
  std::array<std::uint64_t, kFlightRings> begun_{};   ///< the last that was noted, and whether its end was
  std::array<bool, kFlightRings> is_under_way_{};
};

}  // namespace tessera
