#pragma once
// When units are gathered, for one run of compute operations. Says from where to where a unit is full, and where in the
// list its gather is issued. Prefetch distance and the limit on gathered units hold.

#include <cstdint>
#include <vector>

#include "tessera/schedule/build.hpp"

namespace tessera {

/// One compute operation to come, and the units that it reads in full.
struct ComputeStep {
  OperationKind kind = OperationKind::forward;  ///< forward, recompute or backward
  PartId part;
  bool backward_phase = false;  ///< the head and all after it
  bool is_head = false;
  bool writes_output = true;  ///< forward and recompute: what is read after it; a recompute may leave it out
  std::vector<UnitId> units;
};

/// Returns the compute operations of a training micro-step (with `training` false, of an evaluation: forward only).
std::vector<ComputeStep> compute_order(const ModelParts& model, const UnitLayout& layout,
                                       const Recomputation& recomputation, bool training);

/// A full copy of a unit: gathered, read, released.
struct GatherInstance {
  UnitId unit;
  std::int64_t first_use = 0, last_use = 0;  ///< indices of compute steps
  std::int64_t position = 0;                 ///< issued just before this compute step
  bool counts = false;                       ///< in the limit and in prefetch distances
  EdgeReason reason = EdgeReason::prefetch;  ///< why it waits for compute step position - 1
  bool is_sliced = false;                    ///< a slice of it stays, of which the unit is gathered again
};

/// What a unit's schedule leaves out compared with one gather a phase.
struct KeptUnit {
  UnitId unit;
  bool read_once = false;  ///< false: kept from forward to backward; true: only one phase reads it
};

struct GatherPlan {
  std::vector<GatherInstance> instances;  ///< in issue order
  std::vector<KeptUnit> kept;
};

/// Places the gathers. Throws UsageError where the limit is below what one compute step needs.
GatherPlan plan_gathers(const StepSchedule& schedule, const SchedulePolicy& policy,
                        const std::vector<ComputeStep>& steps);

}  // namespace tessera
