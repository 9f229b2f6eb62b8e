#include "schedule/liveness.hpp"

#include <algorithm>
#include <boost/dynamic_bitset.hpp>
#include <map>
#include <set>
#include <utility>

#include "tessera/schedule/memory_plan.hpp"

namespace tessera {

namespace {

struct SegmentTouch {
  std::map<StorageId, std::vector<OperationId>> touches;
  std::set<StorageId> carried_in;
};

IndexedVector<SegmentId, SegmentTouch> touches_of(const StepSchedule& schedule) {
  IndexedVector<SegmentId, SegmentTouch> result;
  for (const Segment& segment : schedule.segments) {
    SegmentTouch touch;
    touch.touches = touches_of(schedule, segment);
    for (const ValueId value : segment.carried_in) touch.carried_in.insert(schedule.value(value).storage);
    result.push_back(std::move(touch));
  }
  return result;
}

/// One bit per storage, because a step may have a million plays, and each one changes what is live.
using StorageSet = boost::dynamic_bitset<>;

std::size_t bit_of(StorageId storage) { return static_cast<std::size_t>(storage.number()); }

/// What is live when a segment begins and when it ends, in any of its plays.
struct SegmentBorders {
  StorageSet touched, found, entry, exit;
};

using Borders = IndexedVector<SegmentId, SegmentBorders>;

Borders borders_of(const StepSchedule& schedule, const IndexedVector<SegmentId, SegmentTouch>& touches) {
  const StorageSet none(schedule.storages.size());
  Borders borders;
  for (const SegmentTouch& touch : touches) {
    SegmentBorders border{none, none, none, none};
    for (const auto& [storage, list] : touch.touches) border.touched.set(bit_of(storage));
    for (const StorageId storage : touch.carried_in) border.found.set(bit_of(storage));
    borders.push_back(std::move(border));
  }
  return borders;
}

/// Runs backward data flow over a sequence of plays, which is cyclic if it repeats. `later` is live at its end. Marks
/// entry and exit per segment, and returns what is live at the start.
StorageSet flow(const std::vector<Play>& plays, bool cyclic, const StorageSet& later, Borders& borders) {
  StorageSet live = later;
  for (int pass = 0; pass < (cyclic ? 2 : 1); ++pass) {
    live |= later;
    for (auto play = plays.rbegin(); play != plays.rend(); ++play) {
      SegmentBorders& border = borders[play->segment];
      border.exit |= live;
      live -= border.touched;
      live |= border.found;
      border.entry |= live;
    }
  }
  return live;
}

/// Adds how a storage is present. One that crosses borders only for a while is added once for each operation that
/// writes it afresh. A gather in place goes on with what is there.
void add_contents(const StepSchedule& schedule, const Presence& whole, std::vector<Presence>& present) {
  const Storage& storage = schedule.storage(whole.storage);
  const auto writes = [&](OperationId id) {
    const Operation& op = schedule.operation(id);
    return !schedule.gathers_in_place(op) &&
           std::ranges::any_of(op.writes, [&](ValueId v) { return schedule.value(v).storage == whole.storage; });
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
  Borders borders = borders_of(schedule, touches);
  const StorageSet none(schedule.storages.size());
  // Everything that a step finds is there before the first step, and survives all that is played between two steps.
  StorageSet found = flow(schedule.step, true, none, borders);
  if (schedule.fresh) {  // what is left to the next step is done by `finish`, or found by that step
    std::vector<Play> first_step = schedule.step;
    first_step.front().segment = schedule.fresh;
    found = flow(first_step, false, found, borders);
    flow(schedule.finish, false, found, borders);
  }
  flow(schedule.prologue, false, found, borders);
  flow(schedule.evaluation, false, found, borders);
  flow(schedule.snapshot, false, found, borders);
  flow(schedule.generation, true, found, borders);  // each segment again and again

  IndexedVector<SegmentId, std::vector<Presence>> result(schedule.segments.size());
  for (const SegmentId i : schedule.segments.ids()) {
    std::map<StorageId, Presence> present;
    for (const auto& [storage, list] : touches[i].touches) present[storage] = {storage, false, false, list};
    for (const StorageId id : schedule.storages.ids()) {
      const bool rests = schedule.storage(id).always_live;
      const bool at_entry = rests || borders[i].entry[bit_of(id)], at_exit = rests || borders[i].exit[bit_of(id)];
      if (!at_entry && !at_exit) continue;
      Presence& p = present[id];
      p.storage = id;
      p.live_at_entry = at_entry, p.live_at_exit = at_exit;
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

IndexedVector<OperationId, CategoryBytes> alive_categories(const StepSchedule& schedule, MemorySpace space) {
  IndexedVector<OperationId, CategoryBytes> alive(schedule.operations.size(), CategoryBytes{});
  const auto presence = presence_of(schedule);
  for (const SegmentId i : schedule.segments.ids()) {
    const Segment& segment = schedule.segments[i];
    for (const Presence& present : presence[i]) {
      const Storage& storage = schedule.storage(present.storage);
      if (storage.space != space) continue;
      const IdRange<OperationId> holds(present.first_in(segment), present.last_in(segment) + 1);
      for (const OperationId id : holds) alive[id][static_cast<std::size_t>(storage.category)] += storage.bytes;
    }
  }
  return alive;
}

SegmentLife::SegmentLife(const StepSchedule& schedule, const Segment& segment, const std::vector<Presence>& present)
    : first_(segment.first), alive_(alive_in(segment, present, [&](StorageId id) {
        const Storage& storage = schedule.storage(id);
        return storage.space == MemorySpace::device ? storage.bytes : 0;
      })) {
  for (const Presence& p : present) {
    if (!p.live_at_exit && !p.touches.empty()) released_by_.emplace(p.storage, p.touches.back());
  }
}

std::int64_t SegmentLife::alive_bytes(OperationId id) const { return alive_[static_cast<std::size_t>(id - first_)]; }

bool SegmentLife::releases(OperationId id, StorageId storage) const { return released_by_.contains({storage, id}); }

OperationNames names_of(const StepSchedule& schedule, const SegmentLife& life, OperationId id,
                        const std::function<std::string(ValueId)>& name) {
  const Operation& op = schedule.operation(id);
  OperationNames names;
  std::vector<std::string> kept;
  const auto add = [&](std::vector<std::string>& to, ValueId v) {
    if (const std::string text = name(v); std::ranges::find(to, text) == to.end()) to.push_back(text);
  };
  for (const ValueId v : op.reads) {
    add(names.reads, v);
    add(life.releases(id, schedule.value(v).storage) ? names.releases : kept, v);
  }
  for (const ValueId v : op.writes) {
    if (schedule.value(v).kind != ValueKind::scratch) add(names.writes, v);
  }
  for (const Update& update : op.updates) {
    add(names.reads, update.before);
    add(kept, update.before);
    add(names.writes, update.after);
  }
  std::erase_if(names.releases, [&](const std::string& one) { return std::ranges::find(kept, one) != kept.end(); });
  return names;
}

}  // namespace tessera
