#include <catch2/catch.hpp>

#include "schedule/liveness.hpp"
#include "small_schedule.hpp"

using namespace tessera;
using tessera::testing::SmallSchedule;

namespace {

/// Returns how a storage is present in a segment: "i" at its entry, "o" at its exit, and the operations that touch it.
/// "-" says that it is not present.
std::string presence(const IndexedVector<SegmentId, std::vector<Presence>>& all, int segment, StorageId storage) {
  for (const Presence& p : all[SegmentId(segment)]) {
    if (p.storage != storage) continue;
    std::string text = std::string(p.live_at_entry ? "i" : "") + (p.live_at_exit ? "o" : "");
    for (const OperationId id : p.touches) text += fmt::format(" {}", id);
    return text;
  }
  return "-";
}

}  // namespace

TEST_CASE("a storage is live where a later play still wants what it holds") {
  const SmallSchedule s;
  const auto all = presence_of(s.schedule);
  const auto in = [&](int segment, StorageId storage) { return presence(all, segment, storage); };
  CHECK(in(0, s.sum) == "o 1");
  CHECK(in(1, s.sum) == "io 2");
  CHECK(in(2, s.sum) == "i 3");
  CHECK(in(0, s.scratch) == " 0 1");
  CHECK(in(1, s.scratch) == "-");
  CHECK(in(0, s.copy) == "i 0");  // of the step before
  CHECK(in(1, s.copy) == "-");
  CHECK(in(2, s.copy) == "o 3");
  CHECK(in(0, s.host) == "io 1");  // read again in the next step
  CHECK(in(2, s.host) == "io");
  for (const int segment : {0, 1, 2}) CHECK(in(segment, s.unused) == "-");
  CHECK((in(0, s.rest) == "io 1" && in(1, s.rest) == "io" && in(2, s.rest) == "io"));
}

TEST_CASE("only a step repeats itself: what an evaluation leaves is wanted by nobody") {
  SmallSchedule s;
  std::swap(s.schedule.step, s.schedule.evaluation);
  const auto all = presence_of(s.schedule);
  CHECK(presence(all, 0, s.copy) == "i 0");
  CHECK(presence(all, 2, s.copy) == " 3");
  CHECK(presence(all, 2, s.host) == "-");
}

TEST_CASE("a storage is in use from its first to its last operation, or to the border that it is carried over") {
  const SmallSchedule s;
  const auto all = presence_of(s.schedule);
  const Segment& first = s.schedule.segments[SegmentId(0)];
  const auto of = [&](StorageId storage) {
    for (const Presence& p : all[SegmentId(0)])
      if (p.storage == storage) return std::pair(p.first_in(first).number(), p.last_in(first).number());
    return std::pair(-1, -1);
  };
  CHECK(of(s.copy) == std::pair(0, 0));
  CHECK(of(s.scratch) == std::pair(0, 1));
  CHECK(of(s.sum) == std::pair(1, 1));
  CHECK(of(s.rest) == std::pair(0, 1));
}

TEST_CASE("a segment hands on the last value of each storage that it touches and others want") {
  SmallSchedule s;
  fill_carried_out(s.schedule);
  const auto out = [&](int segment) { return s.schedule.segments[SegmentId(segment)].carried_out; };
  CHECK(out(0) == std::vector<ValueId>{s.weights, s.first_sum, s.on_host});
  CHECK(out(1) == std::vector<ValueId>{s.next_sum});
  CHECK(out(2) == std::vector<ValueId>{s.next_copy});
}
