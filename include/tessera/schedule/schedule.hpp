#pragma once
// The step as data. A StepSchedule lists every operation of an optimizer step before the first step runs: what it
// reads, writes and updates, and its queue and group. The builder (build.hpp) makes it; the verifier, the memory plan,
// the printer and the engine only read it. It names no rank, no address, no time and no backend, and it is the same on
// every rank.
//
// Reading guide: a Storage is memory. A Value is what one operation left in a storage (it never changes; an update
// makes a new value in the same storage). An Operation reads and makes values. A Segment is a run of operations that is
// played several times at the same addresses. A Play says which segment is played for which micro-step.
// Order: list order is issue order, and a queue is first-in first-out. An operation waits for the makers of what it
// reads and updates, and for its `after` edges, which always point backwards. All queues join at a segment's
// border.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/dtype.hpp"
#include "tessera/comm/exchange_run.hpp"
#include "tessera/config/options.hpp"
#include "tessera/grid/grid.hpp"
#include "tessera/model/parts.hpp"
#include "tessera/optimizer/matrices.hpp"
#include "tessera/optimizer/state_slice.hpp"
#include "tessera/schedule/placement.hpp"
#include "tessera/shard/units.hpp"

namespace tessera {

using ValueId = Id<struct Value>;
using StorageId = Id<struct Storage>;
using OperationId = Id<struct Operation>;
using SegmentId = Id<struct Segment>;

enum class OperationKind : std::uint8_t {
  load,
  store,
  gather,
  slice,
  forward,
  recompute,
  backward,
  reduce_scatter,
  all_reduce,
  accumulate,
  norm,
  clip,
  update,
  direction,  ///< what an optimizer makes of gradient and state before it works on whole matrices
  exchange,
  orthogonalize
};
enum class Queue : std::uint8_t { compute, gather, reduce, replica, load, store, host };
inline constexpr int kQueues = 7;

/// The region follows from what peers may access; "at rest" lives as long as the run.
enum class RegionKind : std::uint8_t { at_rest, shared, private_ };
inline constexpr int kRegions = 3;
/// The memory in which the device computes, and the memory of the machine (pinned on a GPU's machine). Only loads,
/// stores and the operations of the host's queue touch the latter. Each memory space has its own regions; on the host,
/// peers can access only the staging buffers of collectives.
enum class MemorySpace : std::uint8_t { device, host };
inline constexpr int kMemorySpaces = 2;

/// The categories of the memory account.
enum class Category : std::uint8_t {
  parameters,
  gradients,
  optimizer_state,
  gathered_units,
  activations,
  communication,
  workspace
};
inline constexpr int kCategories = 7;

/// A piece of memory; the memory plan gives it an address inside its region.
struct Storage {
  std::string name;
  std::int64_t bytes = 0;
  RegionKind region = RegionKind::private_;
  MemorySpace space = MemorySpace::device;
  Category category = Category::workspace;
  bool carried = false;      ///< its content crosses segment borders
  bool always_live = false;  ///< holds something at every border: state at rest
};

enum class ValueKind : std::uint8_t {
  master,
  parameter,
  gradient,
  moments,
  activation,
  activation_gradient,
  saved,
  scalar,
  tokens,
  scratch,
  constant,
  snapshot,
  cache,
  logits,
  token_losses,
  wish,
  direction,  ///< of a slice's matrices: before they are orthogonalized, or after
  matrices    ///< of a unit on their owner, likewise
};

/// The result that one operation left in a storage.
struct Value {
  ValueKind kind = ValueKind::scratch;
  Placement placement;
  StorageId storage;
  UnitId unit;
  PartId part;
  std::int32_t slot = -1;      ///< saved: index in Part::saved; constant: in ModelParts::constants
  std::int64_t elements = 0;   ///< on this rank
  std::int64_t first = -1;     ///< a bucket: its first element in the rank's slice of the unit; -1: not a bucket
  std::vector<PartId> covers;  ///< gradients: the parts whose contributions of this micro-step are in it
  std::int32_t version = 0;    ///< masters, moments and copies: 0 = this step's parameters, 1 = after the update
  OperationId maker;           ///< none: carried in at the segment's start

  DType dtype() const { return placement.dtype; }
  std::int64_t bytes() const { return elements * size_of(dtype()); }  ///< on this rank
};

/// Checksums of a unit's state on this rank (kernels/arguments.hpp), by kind. Updates keep them.
using StateSums = std::array<std::uint64_t, kStateKinds>;
/// The same as found in memory, and of the full parameters at rest next to the master.
struct FoundSums {
  StateSums state{};
  std::uint64_t copy = 0;
};

/// Where a unit's state is, noted by the passes that decide it; the operations say the same.
struct UnitState {
  StorageId master;           ///< of a unit that does not train: the parameters, in the compute type
  std::int64_t elements = 0;  ///< of it on this rank
  StorageId moments;          ///< the optimizer's states of these elements (state_spans), end to end
  StorageId snapshot;         ///< on the host: this rank's share of all that, end to end; none if no snapshot is taken
  ValueId gradient;           ///< the finished gradient, which the update reads
};

/// Elements [first, first + count) of a rank's slice of a unit. Offloaded state is updated and copied back bucket by
/// bucket, so that the two overlap.
struct Bucket {
  std::int64_t first = 0, count = 0;  ///< 0 elements: not a bucket, the whole slice
  std::int64_t end() const { return first + count; }
  bool operator==(const Bucket&) const = default;
};

enum class EdgeReason : std::uint8_t { prefetch, gather_limit, staging };

/// A wait that no data asks for, with the reason for it.
struct Edge {
  OperationId operation;
  EdgeReason reason = EdgeReason::prefetch;
  bool operator==(const Edge&) const = default;
};

struct Update {
  ValueId before, after;  ///< the same storage
};

struct Operation {
  OperationKind kind = OperationKind::forward;
  Queue queue = Queue::compute;
  Group group = Group::self;
  UnitId unit;
  PartId part;
  std::vector<ValueId> reads, writes;
  std::vector<Update> updates;
  std::vector<Edge> after;
  std::int64_t wire_bytes = 0;  ///< sent per rank: (n-1)/n of the collective's size; of an exchange who sends most
  Bucket bucket;                ///< the part of the slices that it works on
  std::vector<ExchangeRun> runs = {};  ///< exchange: what goes from which rank to which
};

enum class SegmentRole : std::uint8_t { prologue, micro_step, update, evaluation, snapshot, prefill, decode };

/// Returns whether a segment generates text.
constexpr bool generates(SegmentRole role) { return role == SegmentRole::prefill || role == SegmentRole::decode; }

/// Operations [first, first + count), which are played together.
struct Segment {
  SegmentRole role = SegmentRole::micro_step;
  std::string name;
  OperationId first{0};
  std::int64_t count = 0;
  std::vector<ValueId> carried_in;   ///< values that the operations find there
  std::vector<ValueId> carried_out;  ///< values that they leave behind for later segments

  IdRange<OperationId> operations() const { return IdRange<OperationId>(first, first + count); }
  OperationId last() const { return first + (count - 1); }
};

struct Play {
  SegmentId segment;
  std::int32_t micro_step = 0;
};

/// Communication that the formula counts but the schedule avoids, by name.
struct Saving {
  std::string name;
  std::int64_t bytes = 0;  ///< per step and rank
};

/// The model as generation plays it: the same tensors and parts, in other shapes.
struct GenerationParts {
  ModelParts prefill;  ///< a chunk of each prompt
  ModelParts decode;   ///< one token of each sequence
};

struct StepSchedule {
  ModelParts model;  ///< of a micro-batch; without training GenerationParts::prefill
  std::optional<GenerationParts> generation_parts;
  UnitLayout layout;
  ProcessGrid grid;  ///< sizes; which ranks a group has is known only when the schedule is bound to a rank
  Strategy strategy = Strategy::zero3;
  DType compute = DType::fp32, reduce = DType::fp32;
  std::int64_t accumulation = 1;
  bool deterministic = true;
  MicroBatchAssignment micro_batches;
  std::int64_t gather_limit = 0;  ///< block units gathered at a time; 0 = no limit
  std::int64_t gradient_limit =
      0;  ///< full gradients of block units between backward and their reduction; 0 = no limit
  std::int64_t prefetch_forward = 0,
               prefetch_backward = 0;  ///< how many block units before its first reader a gather may be issued
  Offload offload = Offload::none;
  UnitId offloaded_from;  ///< the state of this unit and of all after it that train is on the host; none: no unit's is
  std::int64_t offloaded_inputs = 0;  ///< of recomputed blocks: those that wait for a micro-step's backward on the host
  std::int64_t inputs_in_flight = 0;  ///< of these: may wait to be copied out at a time, and be back at a time

  OptimizerName optimizer = OptimizerName::adamw;

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
      owners;      ///< of matrices that are updated as a whole, in the group that shares state
  StorageId sums;  ///< of a step, over micro-batches and ranks: ReducedScalars (kernels/reduced_scalars.hpp)
  StorageId wish;  ///< StepWish, if micro-steps begin with a sum of it
  /// Memory that no operation names and that lives as long as the run; none: not needed.
  StorageId kernel_workspace;  ///< what kernels keep for themselves, at rest
  StorageId scalars;           ///< StepScalars, at rest (kernels/step_scalars.hpp); none if the run only generates text
  StorageId unit_sums;         ///< with metrics.layer_norms: the squared norm after each unit, at rest
  StorageId state_sums;        ///< with run.check_every, at rest: a StateSums for each unit, then a FoundSums for each
  StorageId host_state_sums;   ///< if state is offloaded, at rest on the host: a StateSums for each unit
  StorageId replay_sums;       ///< with run.replay_every, at rest: a checksum for each made value of a micro-step
  StorageId exchange;          ///< on the host: what host and GPU pass to each other (kernels/host_exchange.hpp)
  StorageId staging;           ///< on the host, shared: staged collectives pass through it one at a time
  StorageId messages;          ///< on the host: sums of staged collectives between nodes

  const Value& value(ValueId id) const { return values[id]; }
  const Storage& storage(StorageId id) const { return storages[id]; }
  const Storage& storage_of(ValueId id) const { return storage(value(id).storage); }
  const Operation& operation(OperationId id) const { return operations[id]; }
  const Unit& unit(UnitId id) const { return layout.units[id]; }
  const Part& part(PartId id) const { return model.parts[id]; }
  /// Returns the shapes in which a segment's parts compute.
  const ModelParts& model_of(SegmentRole role) const {
    if (!generates(role)) return model;
    return role == SegmentRole::prefill ? generation_parts->prefill : generation_parts->decode;
  }
  bool is_offloaded(UnitId id) const { return offloaded_from && id >= offloaded_from && unit(id).trains; }
  /// Returns the most integers that any segment loads at once.
  std::int64_t most_input_integers() const {
    std::int64_t most = model.input_integers();
    if (generation_parts) most = std::max(most, generation_parts->prefill.input_integers());
    return most;
  }
  /// Returns the global batch: the samples that all ranks read in a step.
  std::int64_t samples_per_step() const { return grid.world() * accumulation * model.batch; }
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
  return schedule.offload != Offload::none || schedule.offloaded_inputs > 0;
}

/// Returns the bytes that an operation copies between device and host for what is offloaded; 0 for all others.
std::int64_t copied_bytes(const StepSchedule& schedule, const Operation& operation);

/// Returns whether an operation is a load that reads no value. It brings in what only the host knows: the tokens of a
/// micro-batch, or this rank's wish to stop.
inline bool takes_input(const Operation& op) { return op.kind == OperationKind::load && op.reads.empty(); }

/// Returns whether an operation computes a direction of a part.
inline bool computes_part(const Operation& op) {
  return op.kind == OperationKind::forward || op.kind == OperationKind::recompute || op.kind == OperationKind::backward;
}

/// Returns whether an operation brings in the tokens of a micro-batch.
bool takes_tokens(const StepSchedule& schedule, const Operation& op);

/// Returns all values that an operation touches, each once: reads, writes, both ends of updates.
std::vector<ValueId> touched_values(const Operation& operation);

/// Returns the operations of a segment that touch each storage, ascending.
std::map<StorageId, std::vector<OperationId>> touches_of(const StepSchedule& schedule, const Segment& segment);

/// Returns the scratch that an operation has, if any.
ValueId scratch_of(const StepSchedule& schedule, const Operation& operation);

/// Returns whether a part's operation leaves its output behind; a recompute may leave it out.
bool writes_output(const StepSchedule& schedule, const Operation& operation);

/// Returns the cost of a part's operation. A recompute that writes the part's output again costs what forward does.
const PartCost& cost_of(const StepSchedule& schedule, const Operation& operation);

std::string_view name_of(OperationKind kind);
std::string_view name_of(Queue queue);
std::string_view name_of(Category category);
std::string_view name_of(MemorySpace space);
std::string_view name_of(EdgeReason reason);
std::string_view name_of(SegmentRole role);
std::string_view name_of(RegionKind region);
std::string name_of_value(const StepSchedule& schedule, ValueId id);  ///< "full h.0", "saved h.1.attn qkv", ...

}  // namespace tessera
