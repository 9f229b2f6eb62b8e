#pragma once
// The pass over parameters. Masters and moments are at rest, on the device or on the host. Full copies exist for as
// long as the strategy keeps them.

#include "schedule/passes/bucket_buffers.hpp"
#include "schedule/passes/gathers.hpp"

namespace tessera {

class Parameters {
 public:
  /// Adds the storages that outlive a segment: masters, moments and copies that stay; of units that do not train,
  /// parameters.
  explicit Parameters(Writer& writer);

  /// Returns the placement of masters and moments.
  const Placement& sharded() const { return sharded_; }
  /// Returns the current fp32 master of a unit (moments: the optimizer's states). If it does not train: its parameters
  /// at rest.
  ValueId master(UnitId unit) { return w_.current(w_.state(unit).master); }
  ValueId moments(UnitId unit) { return w_.current(w_.state(unit).moments); }
  /// Lets full copies of units cross the borders of segments: they are gathered before the first step and after their
  /// update, and found by segments that compute.
  void carry(const std::vector<UnitId>& units);
  /// Returns those units, in the order of their first readers.
  const std::vector<UnitId>& carried() const { return carried_; }
  /// Brings a unit from where it is kept to the placement that compute reads, not before the ends of `after`. For its
  /// own readers, a slice that the open segment holds is nearer.
  void gather(UnitId unit, std::vector<Edge> after, CopyUse use = CopyUse::here);
  /// Emits the slice of the full parameters that stays when they end.
  OperationId slice(UnitId unit);
  /// Returns the full parameters that compute reads.
  ValueId full(UnitId unit);
  /// Returns the largest magnitudes of a unit's weights in fp8; nothing if it has no such weights.
  ValueId magnitudes(UnitId unit) {
    const StorageId kept = w_.state(unit).magnitudes;
    return kept ? w_.current(kept) : ValueId();
  }
  /// Returns whether full parameters are there without a gather in this micro-step: because they are kept as compute
  /// reads them, always stay, or stay since the first micro-step of the step.
  bool are_there(UnitId unit, bool after_first_micro_step) const;

  /// Emits the update of a unit, if it trains, and the operations that bring its parameters to where they are kept.
  /// `direction` is the one of its matrices, where they are updated as a whole.
  void update(UnitId unit, ValueId gradient, ValueId clipped, ValueId direction);
  /// Returns whether copies that live from step to step have to be made of the masters before the first step.
  bool need_prologue() const;
  /// Appends the segment that makes those copies.
  SegmentId write_prologue();

 private:
  struct OfUnit {
    StorageId on_host;               ///< offloaded params of 16 bits: the master's cast, which is loaded
    StorageId shard;                 ///< offloaded: on the device in the compute type; gathers read it
    StorageId for_ever, for_a_step;  ///< copies that outlive a segment
    StorageId for_next;              ///< a copy for the segment that is played next
    StorageId gathered;              ///< the latest copy of a segment
    StorageId slice;                 ///< the slice of it that stays in that segment
    Placement rests, full;           ///< of what a gather reads, and of what compute reads
    bool offloaded = false;
    bool shard_rests = false;
  };

  /// Emits the gathers of what outlives the update, or the prologue.
  void gather_what_stays(UnitId unit);
  /// Emits the search for the largest magnitudes of a unit's weights in fp8, over all ranks that share its state, if it
  /// trains.
  void find_magnitudes(UnitId unit);
  /// Adds the state of a unit that does not train.
  void add_parameters(OfUnit& of, UnitId unit);
  /// Returns the largest magnitudes of a unit's weights in fp8.
  Value magnitudes_of(UnitId unit) const;
  /// Returns a full copy of a unit, as compute reads it.
  Value full_copy(UnitId unit) const;
  /// Emits the operations that bring a value of a unit to the placement that compute reads.
  void gather_from(ValueId value, std::vector<Edge> after, CopyUse use);
  void add_state(OfUnit& of, UnitId id);
  /// Returns the value that a gather reads.
  ValueId source(UnitId unit) { return units_[unit].shard ? w_.current(units_[unit].shard) : master(unit); }
  /// Returns whether compute reads the same value that a gather would read.
  bool is_full(const OfUnit& of) const { return redistribute(of.rests, of.full).empty(); }
  /// Returns whether a unit's shard is loaded each time it is gathered.
  bool is_loaded_to_gather(const OfUnit& of) const { return of.offloaded && w_.policy().offload == Offload::params; }

  // offload.cpp: state on the host
  std::vector<Bucket> buckets_of(UnitId unit) const;
  /// Emits the update of a unit from its gradient on the host, and the copy of the parameters back.
  void update_on_host(UnitId unit, ValueId gradient, ValueId clipped);
  /// Makes a bucket of the master into parameters as they are gathered, before the first step.
  void bring_up_first(UnitId unit, const Bucket& bucket);
  /// Lets `op` write its bucket of the master in the type that is loaded, and returns it: none if that is the master's.
  ValueId write_cast(Operation& op);
  /// Emits the load of a bucket, from its cast or from the master, unless each gather loads.
  void bring_up(UnitId unit, const Bucket& bucket, ValueId cast);
  /// Emits the load of the whole slice, to be gathered.
  void load_slice(UnitId unit, std::vector<Edge> after);
  OperationId load(UnitId unit, const Bucket& bucket, ValueId source, std::vector<Edge> after);
  /// Lets `op` write its bucket of a slice of parameters in `storage`: into the value that is there, or as its first.
  ValueId write_bucket(Operation& op, StorageId storage, const Placement& placement);

  Writer& w_;
  Placement sharded_;
  Placement loaded_;  ///< of a slice in the compute type: an offloaded unit's on the device, or an update's copy
  IndexedVector<UnitId, OfUnit> units_;
  std::vector<UnitId> carried_;
  BucketBuffers parameter_buffers_;
};

}  // namespace tessera
