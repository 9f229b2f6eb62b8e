#include "training/checkpoint_stream.hpp"

#include <algorithm>

#include "tessera/engine/state.hpp"

namespace tessera {

namespace {

/// Elements of one message.
constexpr std::int64_t kMessage = 1 << 18;

std::int64_t message_size(std::int64_t done, std::int64_t all) { return std::min(kMessage, all - done); }

/// Views the state of every unit that trains; slice_of(unit) returns it, and the element at which it starts in the
/// rank's slice.
template <class SliceOf>
StateView view_of(const StepSchedule& schedule, const SliceOf& slice_of) {
  StateView view;
  for (const UnitId unit : schedule.layout.units.ids()) {
    if (!schedule.unit(unit).trains) {
      for (auto& slices : view.slices) slices.emplace_back();
      continue;
    }
    const auto [slice, first] = slice_of(unit);
    for (const StateVector& vector : slice.vectors)
      view.slices[static_cast<std::size_t>(vector.kind)].push_back({vector.data, vector.dtype, first + vector.first});
  }
  return view;
}

}  // namespace

StateView state_view(const StepSchedule& schedule, const Resources& resources) {
  StateView view = view_of(
      schedule, [&](UnitId unit) { return std::pair(state_slice(schedule, resources, unit), std::int64_t{0}); });
  view.device = resources.device.get();
  return view;
}

StateView snapshot_view(const StepSchedule& schedule, const Resources& resources) {
  return view_of(schedule, [&](UnitId unit) {
    const StateSlice slice = snapshot_slice(schedule, resources, unit);
    return std::pair(slice, slice.first);
  });
}

StateReader::StateReader(const StateView& view, const StepSchedule& schedule, std::int64_t rank) : view_(view) {
  for (std::size_t kind = 0; kind < kStateKinds; ++kind)
    owned_[kind] = owned_runs(schedule, rank, static_cast<StateKind>(kind));
}

std::int64_t StateReader::elements(StateKind kind) const {
  const std::vector<OwnedRun>& owned = owned_[static_cast<std::size_t>(kind)];
  return owned.empty() ? 0 : owned.back().file_offset + owned.back().run.count;
}

void StateReader::read(StateKind kind, std::int64_t first, std::span<float> out) const {
  const std::vector<OwnedRun>& owned = owned_[static_cast<std::size_t>(kind)];
  auto one = std::upper_bound(owned.begin(), owned.end(), first,
                              [](std::int64_t f, const OwnedRun& o) { return f < o.file_offset; });
  if (one != owned.begin()) --one;
  for (std::int64_t done = 0; done < static_cast<std::int64_t>(out.size()); ++one) {
    TESSERA_ASSERT(one != owned.end(), "element {} of {} that this rank writes", first + done, elements(kind));
    const std::int64_t into = first + done - one->file_offset;
    const std::int64_t count = std::min(one->run.count - into, static_cast<std::int64_t>(out.size()) - done);
    const auto& slice = view_.slices[static_cast<std::size_t>(kind)][one->unit];
    const std::byte* const from = slice.data + (one->offset - slice.first + into) * size_of(slice.dtype);
    copy_floats(from, slice.dtype, out.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count)));
    done += count;
  }
}

/// Copies numbers of the state, and widens them, which is exact.
void StateReader::copy_floats(const std::byte* from, DType dtype, std::span<float> out) const {
  if (view_.device == nullptr) return convert(from, dtype, out.data(), DType::fp32, std::ssize(out));
  const std::int64_t bytes = std::ssize(out) * size_of(dtype);
  if (dtype == DType::fp32) return view_.device->copy(out.data(), from, bytes);
  std::vector<std::byte> here(static_cast<std::size_t>(bytes));
  view_.device->copy(here.data(), from, bytes);
  convert(here.data(), dtype, out.data(), DType::fp32, std::ssize(out));
}

void send_stream(ControlPlane& plane, int to, const StateReader& reader) {
  std::vector<float> message;
  for (const StateKind kind : kinds_of(StateContent::full)) {
    const std::int64_t all = reader.elements(kind);
    for (std::int64_t done = 0; done < all; done += static_cast<std::int64_t>(message.size())) {
      message.resize(static_cast<std::size_t>(message_size(done, all)));
      reader.read(kind, done, message);
      plane.send(to, std::as_bytes(std::span(message)));
    }
  }
}

StreamReceiver::StreamReceiver(ControlPlane& plane, const std::vector<std::int64_t>& members,
                               const std::array<std::vector<std::int64_t>, kStateKinds>& counts)
    : plane_(plane) {
  for (std::size_t kind = 0; kind < kStateKinds; ++kind) {
    std::int64_t begin = 0;
    for (std::size_t i = 1; i < members.size(); ++i) {
      senders_[kind].push_back({static_cast<int>(members[i]), begin, begin + counts[kind][i]});
      begin += counts[kind][i];
    }
  }
}

void StreamReceiver::read(StateKind kind, std::int64_t first, std::span<float> out) {
  if (kind != kind_) message_.clear();
  kind_ = kind;
  for (std::int64_t done = 0; done < static_cast<std::int64_t>(out.size());) {
    const std::int64_t at = first + done;
    if (at < message_first_ || at >= message_first_ + static_cast<std::int64_t>(message_.size())) {
      const std::vector<Sender>& senders = senders_[static_cast<std::size_t>(kind)];
      const auto sender = std::ranges::find_if(senders, [&](const Sender& m) { return at < m.end; });
      TESSERA_ASSERT(sender != senders.end() && (at - sender->begin) % kMessage == 0, "element {} out of order", at);
      message_first_ = at;
      message_.resize(static_cast<std::size_t>(message_size(at - sender->begin, sender->end - sender->begin)));
      plane_.receive(sender->rank, std::as_writable_bytes(std::span(message_)));
    }
    const std::int64_t into = at - message_first_;
    const std::int64_t count =
        std::min(static_cast<std::int64_t>(message_.size()) - into, static_cast<std::int64_t>(out.size()) - done);
    std::copy_n(message_.begin() + into, count, out.begin() + done);
    done += count;
  }
}

}  // namespace tessera
