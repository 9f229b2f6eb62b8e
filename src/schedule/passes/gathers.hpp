#pragma once
// When units are gathered, for one run of compute operations: from where to where a unit is full, and where in the
// list its gather is issued. Prefetch distance and the limit on gathered units hold over the border to the next run,
// too.

#include <cstdint>
#include <vector>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// One compute operation to come, and the units that it reads in full.
struct ComputeStep {
  OperationKind kind = OperationKind::forward;  ///< forward, recompute or backward
  PartId part;
  bool backward_phase = false;  ///< the head and all after it
  bool is_head = false, is_embedding = false;
  bool writes_output = true;  ///< forward, recompute: whether the output is written; a recompute may leave it out
  std::vector<UnitId> units;
};

/// Returns the compute operations of a training micro-step (with `training` false, of an evaluation: forward only).
std::vector<ComputeStep> compute_order(const StepSchedule& schedule, bool training);

/// Where a full copy is read: in its own segment, in the next one too, or in the next one alone.
enum class CopyUse : std::uint8_t { here, here_and_next, next };

/// A full copy of a unit: gathered, read, released.
struct GatherInstance {
  UnitId unit;
  std::int64_t first_use = 0, last_use = 0;  ///< indices of compute steps
  std::int64_t position = 0;                 ///< its gather is issued just before this compute step
  bool counts = false;                       ///< in the limit and in prefetch distances
  EdgeReason reason = EdgeReason::prefetch;  ///< why it waits for compute step position - 1
  bool is_sliced = false;                    ///< a slice of it stays, from which the unit is gathered again
  bool is_there = false;                     ///< the previous segment has left it, so it is not gathered here
  CopyUse use = CopyUse::here;
};

/// What crosses the borders of a run of compute operations.
struct Border {
  std::vector<UnitId> carried;  ///< units whose full copies are there at its start, in the order of their first readers
  bool hands_on = false;        ///< leaves copies of them for the next run, which begins as this one does
};

/// How a unit's gathers are fewer than one gather per phase.
struct KeptUnit {
  UnitId unit;
  bool read_once = false;  ///< false: kept from forward to backward; true: only one phase reads it
};

struct GatherPlan {
  std::vector<GatherInstance> instances;  ///< in issue order
  std::vector<KeptUnit> kept;
  std::vector<UnitId> kept_for_next;  ///< handed on without another gather
};

/// Places the gathers. Throws UsageError where the limit is below what one compute step needs.
GatherPlan plan_gathers(const StepSchedule& schedule, SchedulePolicy::Prefetch prefetch,
                        const std::vector<ComputeStep>& steps, const Border& border = {});

}  // namespace tessera
