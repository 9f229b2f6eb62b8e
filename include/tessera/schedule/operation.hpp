#pragma once
// The language of schedules: storages, values, operations, and segments of them.
//
// Reading guide: a Storage is memory. A Value is what one operation left in a storage (it never changes; an update
// makes a new value in the same storage). An Operation reads and makes values. A Segment is a run of operations that is
// played several times at the same addresses. A Play says which segment is played for which micro-step.
// Order: list order is issue order, and a queue is first-in first-out. An operation waits for the makers of what it
// reads and updates, and for its `after` edges, which always point backwards. All queues join at a segment's
// border.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/dtype.hpp"
#include "tessera/comm/exchange_run.hpp"
#include "tessera/grid/grid.hpp"
#include "tessera/schedule/placement.hpp"
#include "tessera/shard/units.hpp"

namespace tessera {

using ValueId = Id<struct Value>;
using StorageId = Id<struct Storage>;
using OperationId = Id<struct Operation>;
using SegmentId = Id<struct Segment>;

enum class OperationKind : std::uint8_t {
  load_input,  ///< brings in what only the host knows: tokens, or this rank's wish to stop
  load,        ///< copies from host to device
  store,       ///< copies from device to host
  gather,
  cast,  ///< within one rank
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
  orthogonalize,
  magnitudes  ///< of weights that linears read in fp8: the largest ones of this rank's slice
};
inline constexpr int kOperationKinds = 19;
/// A queue runs its operations in order, next to the other queues.
enum class Queue : std::uint8_t {
  compute,  ///< kernels, and casts and sums within a rank
  gather,   ///< all-gathers of parameters, under the computation before
  reduce,   ///< sums of gradients over the shard group and of scalars, under the backward of the next part
  replica,  ///< sums over replicas, under reductions inside the groups
  load,     ///< copies from the host: tokens, and what is offloaded, ahead of its use
  store,    ///< copies to the host, under the computation after
  host      ///< updates of offloaded state by cores, under copies and the next forward
};
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
  std::string use = {};      ///< on the host: what it is for, as plans sum it up: "snapshot"
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
  matrices,   ///< of a unit on their owner, likewise
  magnitudes  ///< the largest one of each of Unit::fp8_weights: a float in the lower half of an integer
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

/// Returns whether an operation brings in what only the host knows.
inline bool takes_input(const Operation& op) { return op.kind == OperationKind::load_input; }

/// Returns whether an operation computes a direction of a part.
inline bool computes_part(const Operation& op) {
  return op.kind == OperationKind::forward || op.kind == OperationKind::recompute || op.kind == OperationKind::backward;
}

/// Returns all values that an operation touches, each once: reads, writes, both ends of updates.
std::vector<ValueId> touched_values(const Operation& operation);
/// Returns the values that an operation writes: fresh, or the new end of an update.
std::vector<ValueId> written_values(const Operation& operation);

std::string_view name_of(OperationKind kind);  ///< in plans, traces and records; that of load_input is "load", too
std::string_view name_of(Queue queue);
std::string_view name_of(Category category);
std::string_view name_of(MemorySpace space);
std::string_view name_of(EdgeReason reason);
std::string_view name_of(SegmentRole role);
std::string_view name_of(RegionKind region);

}  // namespace tessera
