#include "schedule/liveness.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace tessera {

namespace {

struct SegmentTouch {
  std::map<StorageId, std::vector<OperationId>> touches;
  std::set<StorageId> carried_in;
};

using StoragesOfSegments = IndexedVector<SegmentId, std::set<StorageId>>;

IndexedVector<SegmentId, SegmentTouch> touches_of(const StepSchedule& schedule) {
  IndexedVector<SegmentId, SegmentTouch> result;
  for (const Segment& segment : schedule.segments) {
    SegmentTouch touch;
    for (const OperationId id : segment.operations()) {
      for (const ValueId value : touched_values(schedule.operation(id))) {
        auto& list = touch.touches[schedule.value(value).storage];
        if (list.empty() || list.back() != id) list.push_back(id);
      }
    }
    for (const ValueId value : segment.carried_in) touch.carried_in.insert(schedule.value(value).storage);
    result.push_back(std::move(touch));
  }
  return result;
}

/// Runs backward data flow over a sequence of plays, cyclic where it repeats itself. `later` is live at its end. Marks
/// entry and exit per segment; returns what is live at its start.
std::set<StorageId> flow(const std::vector<Play>& plays, bool cyclic, const std::set<StorageId>& later,
                         const IndexedVector<SegmentId, SegmentTouch>& touches, StoragesOfSegments& entry,
                         StoragesOfSegments& exit) {
  const std::vector<Play> backwards(plays.rbegin(), plays.rend());
  std::set<StorageId> live;  // at the point between plays
  for (int pass = 0; pass < (cyclic ? 2 : 1); ++pass) {
    live.insert(later.begin(), later.end());
    for (const Play& play : backwards) {
      exit[play.segment].insert(live.begin(), live.end());
      for (const auto& [storage, list] : touches[play.segment].touches) live.erase(storage);
      live.insert(touches[play.segment].carried_in.begin(), touches[play.segment].carried_in.end());
      entry[play.segment].insert(live.begin(), live.end());
    }
  }
  return live;
}

/// Adds how a storage is present: once for each operation that writes it afresh, if it crosses borders for a while.
void add_contents(const StepSchedule& schedule, const Presence& whole, std::vector<Presence>& present) {
  const Storage& storage = schedule.storage(whole.storage);
  const auto writes = [&](OperationId id) {
    return std::ranges::any_of(schedule.operation(id).writes,
                               [&](ValueId v) { return schedule.value(v).storage == whole.storage; });
  };
  Presence content{whole.storage, whole.live_at_entry, false, {}};
  for (const OperationId id : whole.touches) {
    const bool ends = storage.carried && !storage.always_live && !content.touches.empty() && writes(id);
    if (ends) present.push_back(std::exchange(content, {whole.storage, false, false, {}}));
    content.touches.push_back(id);
  }
  content.live_at_exit = whole.live_at_exit;
  present.push_back(std::move(content));
}

}  // namespace

IndexedVector<SegmentId, std::vector<Presence>> presence_of(const StepSchedule& schedule) {
  const IndexedVector<SegmentId, SegmentTouch> touches = touches_of(schedule);
  StoragesOfSegments entry(schedule.segments.size()), exit(schedule.segments.size());
  // What a step finds is there before the first one, and survives all that is played between two.
  const std::set<StorageId> found = flow(schedule.step, true, {}, touches, entry, exit);
  flow(schedule.prologue, false, found, touches, entry, exit);
  flow(schedule.evaluation, false, found, touches, entry, exit);
  flow(schedule.snapshot, false, found, touches, entry, exit);
  flow(schedule.generation, true, found, touches, entry, exit);  // each segment again and again

  IndexedVector<SegmentId, std::vector<Presence>> result(schedule.segments.size());
  for (const SegmentId i : schedule.segments.ids()) {
    std::map<StorageId, Presence> present;
    for (const auto& [storage, list] : touches[i].touches) present[storage] = {storage, false, false, list};
    for (const StorageId storage : entry[i]) present[storage].storage = storage, present[storage].live_at_entry = true;
    for (const StorageId storage : exit[i]) present[storage].storage = storage, present[storage].live_at_exit = true;
    for (const StorageId id : schedule.storages.ids()) {
      if (!schedule.storage(id).always_live) continue;
      Presence& p = present[id];
      p.storage = id;
      p.live_at_entry = p.live_at_exit = true;
    }
    for (const auto& [storage, presence] : present) add_contents(schedule, presence, result[i]);
  }
  return result;
}

void fill_carried_out(StepSchedule& schedule) {
  const auto presence = presence_of(schedule);
  for (const SegmentId i : schedule.segments.ids()) {
    Segment& segment = schedule.segments[i];
    segment.carried_out.clear();
    for (const Presence& p : presence[i]) {
      if (!p.live_at_exit || p.touches.empty()) continue;
      ValueId last;
      for (const ValueId value : touched_values(schedule.operation(p.touches.back()))) {
        if (schedule.value(value).storage == p.storage) last = std::max(last, value);
      }
      segment.carried_out.push_back(last);
    }
  }
}

}  // namespace tessera
