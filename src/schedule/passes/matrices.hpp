#pragma once
// The pass over matrices that are updated as a whole (Muon's). Each has an owner in the group that shares the state. An
// exchange brings the directions of a unit to their owners, who make them orthogonal, and another brings them back to
// where the slices are. If the state is not shared, there is nothing to exchange.

#include "schedule/writer.hpp"

namespace tessera {

class Matrices {
 public:
  /// `sharded`: the placement of masters and states.
  Matrices(Writer& writer, const Placement& sharded);

  /// Returns whether a unit has such matrices.
  bool has(UnitId unit) const { return w_.schedule().unit(unit).matrices_end > 0; }
  /// Emits the direction of a unit, which is made orthogonal later, and its exchange to the owners.
  void direct(UnitId unit, ValueId gradient, ValueId clipped, ValueId moments);
  /// Emits the work of a unit's owners, and the exchange back to the slices.
  void orthogonalize(UnitId unit);
  /// Notes by how much these exchanges differ from the even share of the formula.
  void note_saving() const;
  /// Returns the orthogonal direction that the update of a unit reads; none for a unit without matrices.
  ValueId orthogonal(UnitId unit) const { return found_[unit]; }

 private:
  bool is_shared() const { return !sharded_.shard.empty(); }
  Group group() const { return rules_of(w_.schedule().policy.strategy).state; }
  /// Returns a value for the direction of this rank's slice.
  Value direction(UnitId unit) const;
  Value matrices(UnitId unit) const;
  std::int64_t scratch_bytes(UnitId unit) const;
  ValueId exchange(UnitId unit, ValueId from, Value result, std::vector<ExchangeRun> runs, const char* name);

  Writer& w_;
  Placement sharded_;
  IndexedVector<UnitId, ValueId> found_;  ///< the latest of each unit
  std::int64_t sent_ = 0;                 ///< bytes
};

}  // namespace tessera
