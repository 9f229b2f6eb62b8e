#pragma once
// The pass over parameters: masters and moments at rest, and full copies as long as the strategy lets them live.

#include "schedule/writer.hpp"

namespace tessera {

class Parameters {
 public:
  /// Adds the storages that outlive a segment: masters, moments, copies that stay. Without training: parameters.
  Parameters(Writer& writer, const SchedulePolicy& policy);

  /// Returns the placement of masters and moments.
  const Placement& sharded() const { return sharded_; }
  /// Returns the fp32 master of a unit (moments: both moments) as it is now. Without training: its parameters at rest.
  ValueId master(UnitId unit) { return w_.current(units_.at(unit).master); }
  ValueId moments(UnitId unit) { return w_.current(units_.at(unit).moments); }
  /// Brings a unit from its master's placement to the one that compute reads, not before the ends of `after`.
  void gather(UnitId unit, std::vector<Edge> after);
  /// Returns the full parameters that compute reads.
  ValueId full(UnitId unit);
  /// Returns whether full parameters are there without a gather in this micro-step. They are the master, stay for ever,
  /// or stay since the first micro-step of the step.
  bool are_there(UnitId unit, bool after_first_micro_step) const;

  /// Returns whether copies live from step to step, which are gathered once before the first one.
  bool stay_for_ever() const;
  /// Appends the segment that gathers those copies.
  SegmentId write_prologue();

 private:
  void add_parameters(ParameterLife life, Group state);

  struct OfUnit {
    StorageId master, moments;       ///< without training: the parameters, and none
    StorageId for_ever, for_a_step;  ///< copies that outlive a segment
    StorageId gathered;              ///< the latest copy of a segment
  };

  Writer& w_;
  Placement sharded_, full_;
  IndexedVector<UnitId, OfUnit> units_;
};

}  // namespace tessera
