#pragma once
// Schedules with one thing wrong: an operation left out, an edge left out, two neighbours swapped.

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>

#include "tessera/schedule/schedule.hpp"
#include "tessera/schedule/verify.hpp"

namespace tessera::testing {

/// Returns whether the verifier gives a reason, in these words among others. A failed check shows all of them.
inline bool rejected(const StepSchedule& s, const std::string& reason) {
  const auto problems = verify_schedule(s);
  for (const std::string& problem : problems) UNSCOPED_INFO(problem);
  return std::ranges::any_of(problems, [&](const std::string& one) { return one.find(reason) != std::string::npos; });
}

/// Returns the bytes that a schedule sends less than the formula of its strategy says.
inline std::int64_t saved_bytes(const StepSchedule& s) {
  std::int64_t saved = 0;
  for (const Saving& saving : s.savings) saved += saving.bytes;
  return saved;
}

/// Gives every reference to an operation its new number, none if it is gone (edges to it are dropped).
inline void renumber(StepSchedule& s, const IndexedVector<OperationId, OperationId>& number) {
  for (Value& value : s.values) {
    if (value.maker) value.maker = number[value.maker];
  }
  for (Operation& op : s.operations) {
    for (Edge& edge : op.after) edge.operation = number[edge.operation];
    std::erase_if(op.after, [](const Edge& edge) { return !edge.operation; });
  }
}

/// Makes all users of value `from` use `to`.
inline void redirect(StepSchedule& s, ValueId from, ValueId to) {
  for (Operation& op : s.operations) {
    std::replace(op.reads.begin(), op.reads.end(), from, to);
    for (Update& u : op.updates) {
      if (u.before == from) u.before = to;
    }
  }
  for (Segment& segment : s.segments) std::replace(segment.carried_out.begin(), segment.carried_out.end(), from, to);
}

/// Returns the schedule without operation `id`; its results are missing.
inline StepSchedule without_operation(StepSchedule s, OperationId id) {
  IndexedVector<OperationId, OperationId> number;
  for (const OperationId i : s.operations.ids()) number.push_back(i < id ? i : i == id ? OperationId() : i - 1);
  for (Segment& segment : s.segments) {
    if (id < segment.first)
      --segment.first;
    else if (id < segment.first + segment.count)
      --segment.count;
  }
  s.operations.erase(s.operations.begin() + id.number());
  renumber(s, number);
  return s;
}

/// The same, but the users of its results use its inputs: the forgotten operation that leaves no gap. Nothing if the
/// operation has no such pair of values.
inline std::optional<StepSchedule> bridged_operation(StepSchedule s, OperationId id) {
  const Operation op = s.operation(id);
  bool bridged = false;
  for (const Update& u : op.updates) redirect(s, u.after, u.before), bridged = true;
  if (op.writes.size() == 1 && !op.reads.empty()) redirect(s, op.writes[0], op.reads[0]), bridged = true;
  if (op.kind == OperationKind::recompute) {  // uses the values that forward saved
    for (const ValueId written : op.writes) {
      const Value& v = s.value(written);
      for (const ValueId other : std::views::iota(ValueId(0), written)) {
        const Value& o = s.value(other);
        const bool alike =
            o.kind == v.kind && o.part == v.part && o.slot == v.slot && o.maker && o.kind != ValueKind::scratch;
        if (alike && s.operation(o.maker).kind == OperationKind::forward) redirect(s, written, other), bridged = true;
      }
    }
  }
  if (!bridged) return std::nullopt;
  return without_operation(std::move(s), id);
}

inline StepSchedule without_edge(StepSchedule s, OperationId id, std::size_t edge) {
  auto& after = s.operations[id].after;
  after.erase(after.begin() + static_cast<std::ptrdiff_t>(edge));
  return s;
}

/// Returns the schedule with operations a and b swapped.
inline StepSchedule swapped(StepSchedule s, OperationId a, OperationId b) {
  IndexedVector<OperationId, OperationId> number;
  for (const OperationId i : s.operations.ids()) number.push_back(i == a ? b : i == b ? a : i);
  std::swap(s.operations[a], s.operations[b]);
  renumber(s, number);
  return s;
}

/// Returns the storages that an operation touches, and whether it changes them.
inline std::map<StorageId, bool> touched_storages(const StepSchedule& s, const Operation& op) {
  std::map<StorageId, bool> touched;
  for (const ValueId v : op.reads) touched[s.value(v).storage] |= false;
  for (const ValueId v : op.writes) touched[s.value(v).storage] = true;
  for (const Update& u : op.updates) touched[s.value(u.after).storage] = true;
  return touched;
}

/// Returns whether two operations may be played in either order: no storage that one of them changes is touched by
/// both.
inline bool independent(const StepSchedule& s, OperationId a, OperationId b) {
  const auto of_b = touched_storages(s, s.operation(b));
  for (const auto& [storage, changes] : touched_storages(s, s.operation(a))) {
    const auto other = of_b.find(storage);
    if (other != of_b.end() && (changes || other->second)) return false;
  }
  return true;
}

/// Returns whether a < b may be swapped: every pair whose order changes with them is independent, and neither waits for
/// the other.
inline bool may_change_places(const StepSchedule& s, OperationId a, OperationId b) {
  auto ordered = [&](OperationId x, OperationId y) {
    const auto& after = s.operation(y).after;
    const bool waits = std::any_of(after.begin(), after.end(), [&](const Edge& edge) { return edge.operation == x; });
    return waits || !independent(s, x, y);
  };
  for (const OperationId m : std::views::iota(a + 1, b)) {
    if (ordered(a, m) || ordered(m, b)) return false;
  }
  return !ordered(a, b);
}

}  // namespace tessera::testing
