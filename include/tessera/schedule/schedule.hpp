#pragma once
// The step as data. A StepSchedule lists every operation of an optimizer step before the first step runs: what it
// reads, writes and updates, and its queue and group (operation.hpp has the words). The builder (build.hpp) makes it;
// the verifier, the memory plan, the printer and the engine only read it. It names no rank, no address, no time and no
// backend, and it is the same on every rank.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/model/parts.hpp"
#include "tessera/optimizer/matrices.hpp"
#include "tessera/optimizer/state_slice.hpp"
#include "tessera/schedule/operation.hpp"
#include "tessera/schedule/policy.hpp"

namespace tessera {

/// Checksums of a unit's state on this rank (kernels/arguments/elements.hpp), by kind. Updates keep them.
using StateSums = std::array<std::uint64_t, kStateKinds>;
/// The same as found in memory, and of the full parameters at rest next to the master.
struct FoundSums {
  StateSums state{};
  std::uint64_t copy = 0;
};

/// Where a unit's state is, noted by the passes that decide it; the operations say the same.
struct UnitState {
  StorageId master;           ///< of a unit that does not train: the parameters, in the type that is gathered
  std::int64_t elements = 0;  ///< of it on this rank
  StorageId magnitudes;       ///< of weights in fp8; those of a unit that does not train come with it
  StorageId moments;          ///< the optimizer's states of these elements (state_spans), end to end
  StorageId snapshot;         ///< on the host: this rank's share of all that, end to end; none if no snapshot is taken
  ValueId gradient;           ///< the finished gradient, which the update reads
};

/// Memory that lives as long as the run, and that the engine looks up by its purpose.
enum class Reserved : std::uint8_t {
  sums,              ///< of a step, over micro-batches and ranks: ReducedScalars (kernels/reduced_scalars.hpp)
  wish,              ///< StepWish, if micro-steps begin with a sum of it
  kernel_workspace,  ///< what kernels keep for themselves
  scalars,           ///< StepScalars (kernels/step_scalars.hpp); none if the run only generates text
  unit_sums,         ///< with metrics.layer_norms: the squared norm after each unit
  sample_losses,     ///< of a mixture: SampleLosses (kernels/arguments/account.hpp)
  state_sums,        ///< with run.check_every: a StateSums for each unit, then a FoundSums for each
  host_state_sums,   ///< if state is offloaded, on the host: a StateSums for each unit
  replay_sums,       ///< with run.replay_every: a checksum for each made value of a micro-step
  exchange,          ///< on the host: what host and GPU pass to each other (kernels/host_exchange.hpp)
  staging,           ///< on the host, shared: staged collectives pass through it one at a time
  messages           ///< on the host: sums of staged collectives between nodes
};
inline constexpr int kReserved = 12;

/// Communication that the formula counts but the schedule avoids.
struct Saving {
  std::string reason;
  std::int64_t bytes = 0;  ///< per step and rank
  std::string unit = {};   ///< empty: all units
  /// Returns "h.11: kept from forward to backward", or the reason alone.
  std::string name() const { return unit.empty() ? reason : unit + ": " + reason; }
};

/// The model as generation plays it: the same tensors and parts, in other shapes.
struct GenerationParts {
  ModelParts prefill;  ///< a chunk of each prompt
  ModelParts decode;   ///< one token of each sequence
};

struct StepSchedule {
  SchedulePolicy policy;  ///< as built: nothing is offloaded, or limited, where that has no effect
  ModelParts model;       ///< of a micro-batch; without training GenerationParts::prefill
  std::optional<GenerationParts> generation_parts;
  UnitLayout layout;
  ProcessGrid grid;  ///< sizes; which ranks a group has is known only when the schedule is bound to a rank
  std::int64_t gradient_limit = 0;  ///< full gradients of block units between backward and reduction; 0 = no limit
  UnitId offloaded_from;  ///< the state of this unit and of all after it that train is on the host; none: no unit's is
  std::int64_t offloaded_inputs = 0;  ///< of recomputed blocks: those that wait for a micro-step's backward on the host

  IndexedVector<StorageId, Storage> storages;
  IndexedVector<ValueId, Value> values;
  IndexedVector<OperationId, Operation> operations;
  IndexedVector<SegmentId, Segment> segments;
  std::vector<Play> prologue;  ///< once, before the first step and after a resume
  std::vector<Play> step;      ///< every step
  /// With state on the host its updates are left to the next step, whose first segment does them ahead of each use.
  /// Where anything but a step comes next, `finish` does them, and the step after it begins with `fresh` instead, like
  /// the first step.
  std::vector<Play> finish;
  SegmentId fresh;
  std::vector<Play> evaluation;  ///< one evaluation batch
  std::vector<Play> snapshot;    ///< between two steps: this rank's share of the state, copied to the host
  std::vector<Play> generation;  ///< chunks of prompts, as many as needed; then a token of each sequence, repeatedly
  std::vector<Saving> savings;
  std::vector<Saving> copy_savings;  ///< loads of parameters that copy_terms() counts but the schedule avoids
  IndexedVector<UnitId, UnitState> state;
  IndexedVector<UnitId, UnitOwners>
      owners;  ///< of matrices that are updated as a whole, in the group that shares state
  std::array<StorageId, kReserved> reserves;  ///< by Reserved; none: not needed

  const Value& value(ValueId id) const { return values[id]; }
  const Storage& storage(StorageId id) const { return storages[id]; }
  const Storage& storage_of(ValueId id) const { return storage(value(id).storage); }
  StorageId& reserved(Reserved which) { return reserves[static_cast<std::size_t>(which)]; }
  StorageId reserved(Reserved which) const { return reserves[static_cast<std::size_t>(which)]; }
  const Operation& operation(OperationId id) const { return operations[id]; }
  const Unit& unit(UnitId id) const { return layout.units[id]; }
  const Part& part(PartId id) const { return model.parts[id]; }
  /// Returns the shapes in which a segment's parts compute.
  const ModelParts& model_of(SegmentRole role) const {
    if (!generates(role)) return model;
    return role == SegmentRole::prefill ? generation_parts->prefill : generation_parts->decode;
  }
  bool is_offloaded(UnitId id) const { return offloaded_from && id >= offloaded_from && unit(id).trains; }
  /// Returns the type of a unit's full parameters: codes of what linears read in fp8.
  DType gathered_type(UnitId id) const { return unit(id).is_fp8() ? DType::e4m3 : policy.compute; }
  /// Returns the most integers that any segment loads at once.
  std::int64_t most_input_integers() const {
    std::int64_t most = model.input_integers();
    if (generation_parts) most = std::max(most, generation_parts->prefill.input_integers());
    return most;
  }
  /// Returns the global batch: the samples that all ranks read in a step.
  std::int64_t samples_per_step() const { return grid.world() * policy.accumulation * model.batch; }
  /// Returns which micro-batch of a step a rank reads in a micro-step.
  MicroBatchAssignment micro_batches() const {
    return {rules_of(policy.strategy).inner, policy.reduce_each_micro_step};
  }
  /// Returns whether there are steps. If not, there are only parameters, and segments of evaluation or generation.
  bool trains() const { return !step.empty(); }

  /// Returns whether an operation is a collective of more than one rank. The others have the group `self`, or slice
  /// within one rank.
  bool communicates(const Operation& op) const { return op.kind != OperationKind::slice && grid.size(op.group) > 1; }
  /// Returns whether a gather finds its slice at its place in the full copy, where the update has written it.
  bool gathers_in_place(const Operation& op) const {
    return op.kind == OperationKind::gather && !op.reads.empty() && !op.writes.empty() &&
           value(op.reads[0]).storage == value(op.writes[0]).storage;
  }
  /// Returns bytes sent per rank and step over parameters and gradients (scalar reductions apart).
  std::int64_t wire_bytes_per_step() const;
  /// Returns bytes copied between device and host per rank and step for what is offloaded.
  std::int64_t copied_bytes_per_step() const;
  /// Returns a hash of everything above except names and what follows from the rest. It is equal on all ranks, which
  /// compare it before step 1.
  std::uint64_t hash() const;
};

/// Returns the operations on other queues that must have finished before `id` starts: those that make what it reads or
/// updates, and its `after` edges. They are deduplicated and reduced to the last of each queue.
std::vector<OperationId> waits_of(const StepSchedule& schedule, OperationId id);

/// Returns whether device and host copy, and the host computes, in parallel with the device's work.
inline bool copies_in_steps(const StepSchedule& schedule) {
  return schedule.policy.offload != Offload::none || schedule.offloaded_inputs > 0;
}

/// Returns the bytes that an operation copies between device and host for what is offloaded; 0 for all others.
std::int64_t copied_bytes(const StepSchedule& schedule, const Operation& operation);

/// Returns whether an operation brings in the tokens of a micro-batch.
bool takes_tokens(const StepSchedule& schedule, const Operation& op);

/// Returns the operations of a segment that touch each storage, ascending.
std::map<StorageId, std::vector<OperationId>> touches_of(const StepSchedule& schedule, const Segment& segment);

/// Returns the scratch that an operation has, if any.
ValueId scratch_of(const StepSchedule& schedule, const Operation& operation);

/// Returns whether a part's operation leaves its output behind; a recompute may leave it out.
bool writes_output(const StepSchedule& schedule, const Operation& operation);

/// Returns the cost of a part's operation. A recompute that writes the part's output again costs what forward does.
const PartCost& cost_of(const StepSchedule& schedule, const Operation& operation);

std::string name_of_value(const StepSchedule& schedule, ValueId id);  ///< "full h.0", "saved h.1.attn qkv", ...

}  // namespace tessera
