#pragma once
// A rank's share of the state as a stream of elements, kind after kind. It is read from memory, sent to the rank that
// writes it, and received there.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/comm/control_plane.hpp"
#include "tessera/engine/resources.hpp"
#include "training/checkpoint_slices.hpp"

namespace tessera {

/// The memory of the state to write.
struct StateView {
  struct Slice {
    const std::byte* data = nullptr;
    DType dtype = DType::fp32;
    std::int64_t first = 0;  ///< element of the rank's slice of the unit, at the start of `data`
  };
  std::array<IndexedVector<UnitId, Slice>, kStateKinds> slices;  ///< by kind
  Device* device = nullptr;                                      ///< whose memory it is; none: host memory
};

/// Returns a view of the state itself.
StateView state_view(const StepSchedule& schedule, const Resources& resources);
/// Returns a view of the last snapshot of this rank's share of it.
StateView snapshot_view(const StepSchedule& schedule, const Resources& resources);

class StateReader {
 public:
  StateReader(const StateView& view, const StepSchedule& schedule, std::int64_t rank);
  /// Reads elements [first, first + out.size()) of this rank's output.
  void read(StateKind kind, std::int64_t first, std::span<float> out) const;
  std::int64_t elements(StateKind kind) const;

 private:
  void copy_floats(const std::byte* from, DType dtype, std::span<float> out) const;

  const StateView& view_;
  std::array<std::vector<OwnedRun>, kStateKinds> owned_;  ///< by kind
};

/// Sends all elements to rank `to` of the plane, in messages of one size.
void send_stream(ControlPlane& plane, int to, const StateReader& reader);

/// The writer's side, for all ranks that it writes for except itself (members[0]).
class StreamReceiver {
 public:
  /// `counts`: elements of each member, by kind.
  StreamReceiver(ControlPlane& plane, const std::vector<std::int64_t>& members,
                 const std::array<std::vector<std::int64_t>, kStateKinds>& counts);
  /// Reads the next elements of a kind, which must be those from `first` on, counted from the first other member's.
  void read(StateKind kind, std::int64_t first, std::span<float> out);

 private:
  struct Sender {
    int rank = 0;
    std::int64_t begin = 0, end = 0;  ///< elements, over all other members
  };
  ControlPlane& plane_;
  std::array<std::vector<Sender>, kStateKinds> senders_;
  StateKind kind_ = StateKind::parameter;
  std::vector<float> message_;
  std::int64_t message_first_ = 0;  ///< the element that message_ starts with
};

}  // namespace tessera
