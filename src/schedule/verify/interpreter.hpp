#pragma once
// Plays a schedule on descriptions instead of data. The contents of each storage are tracked as (placement, coverage,
// version, content), and every operation's demands on them are checked.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/schedule/schedule.hpp"
#include "tessera/schedule/verify.hpp"

namespace tessera {

class Interpreter {
 public:
  /// `poll` is called before each play; it outlives the object.
  Interpreter(const StepSchedule& schedule, const Poll& poll);

  /// Sets the state before the prologue: masters, moments and constants are there, and nothing else.
  void start();
  void play_prologue();
  void play_step();
  /// Plays the updates that the last step has left, if any.
  void play_finish();
  void play_evaluation();
  void play_snapshot();
  /// Plays a chunk of prompts twice and then two tokens, from empty caches.
  void play_generation();

  const std::vector<std::string>& problems() const { return problems_; }

 private:
  /// Identifies an activation, saved value, gradient of an activation, constant or logits.
  struct Content {
    ValueKind kind = ValueKind::scratch;
    PartId part{};
    std::int32_t slot = -1;
    std::int64_t play = -1;  ///< number of the micro-step, counted over all plays
    bool operator==(const Content&) const = default;
  };
  /// What a storage holds.
  struct State {
    Value type{};  ///< kind, unit, elements, placement
    std::set<PartId> covers{};
    std::int64_t from = 0, to = 0;  ///< gradients: micro-steps [from, to) are in it
    std::int64_t version = 0;       ///< absolute: steps done; of a cache: plays that are in it
    Content content{};
    std::set<UnitId> norms{};    ///< the reduced scalars: units measured
    std::int64_t losses = 0;     ///< the reduced scalars: micro-steps counted
    bool has_wish = false;       ///< the reduced scalars: the ranks' wish to stop is in them
    bool is_orthogonal = false;  ///< a direction
    /// Of a slice that is changed bucket by bucket: how many of its first elements are one version ahead of `version`.
    std::int64_t advanced = 0;
  };

  void play(const Play& play);
  /// Demands that a step, or `finish`, has updated all units whose state is in the memory spaces that it should work
  /// on.
  void need_updated(bool on_device, bool on_host);
  /// Demands that all state is up to date, except what is left to the next step.
  void need_current();
  void execute(OperationId id);
  void need_space(const Operation& op);
  void load_input(const Operation& op);
  void load(const Operation& op);
  void store(const Operation& op);
  void store_snapshot(const Operation& op);
  void store_gradient(const Operation& op);
  void store_scalars(const Operation& op);
  /// Copies an activation to the host, or back.
  void copy_activation(const Operation& op);
  void load_bucket(const Operation& op);
  void cast(const Operation& op);
  /// Returns the version of an operation's bucket in a slice (or bucket) that it reads; none if it has several.
  std::optional<std::int64_t> version_of_bucket(const State& source, const Operation& op);
  /// Sets the version of an operation's bucket in the slice that it writes or updates; buckets come in order.
  void write_bucket(const Operation& op, const Update& to, ValueKind kind, std::int64_t version);
  /// Writes the cast of a master of `version`: of an operation's bucket into a buffer or a slice, or of the whole slice
  /// at its place in a full copy.
  void write_cast(const Operation& op, const Update& to, const Value& master, std::int64_t version);
  void store_result(const Operation& op);
  void gather(const Operation& op);
  void slice(const Operation& op);
  void compute(const Operation& op);
  void write_scratch(const Operation& op, std::size_t first);
  void reduce_scatter(const Operation& op);
  void all_reduce(const Operation& op);
  void accumulate(const Operation& op);
  void norm(const Operation& op);
  void clip(const Operation& op);
  void update(const Operation& op);
  void direct(const Operation& op);
  void exchange(const Operation& op);
  /// Returns how many of a slice's elements have a direction, for the fullest member.
  std::int64_t directions_of(UnitId unit) const;
  void orthogonalize(const Operation& op);
  void find_magnitudes(const Operation& op);
  /// Returns whether an operation makes codes of what it reads, and demands the magnitudes of that.
  bool need_codes(const Operation& op, const State& source);
  /// Copies magnitudes to the device.
  void load_magnitudes(const Operation& op);
  /// Demands that an exchange moves each element of a unit's matrices once, between its slice and its owner.
  void need_all_matrices(const Operation& op, bool to_owners);
  /// Demands the gradient that an update applies: complete, of all micro-steps, measured, clipped.
  const State* finished_gradient(const Operation& op);

  void need_parameters(const Operation& op, const Part& part);
  /// Demands the largest magnitudes of the very parameters that a part reads.
  void need_magnitudes(const Operation& op, UnitId unit);
  void need_content(const Operation& op, const Content& wanted);
  void contribute(const Operation& op, const Part& part);
  void accumulate_loss(const Operation& op, bool training);
  void need_evaluated_loss();
  /// Demands that a part's operation takes its cache one play further.
  void extend_cache(const Operation& op);
  void need_generated();
  /// Demands that each micro-step of several knows the wishes of all ranks.
  void need_wish();
  std::set<PartId> parts_of(UnitId unit) const;
  /// Returns over how many ranks one copy of a value is split.
  std::int64_t owners_of(const Value& value) const;
  /// Returns the version of a unit's parameters that compute must read: frozen ones keep the first.
  std::int64_t version_of(UnitId unit) const { return !unit || schedule_.unit(unit).trains ? step_ : 0; }

  State* read(ValueId id);
  void write(ValueId id, State state);
  const State* find_read(const Operation& op, ValueKind kind, UnitId unit);
  void complain(const std::string& what);
  void demand(bool condition, const std::string& what) {
    if (!condition) complain(what);
  }

  const StepSchedule& schedule_;
  const Poll& poll_;
  std::map<StorageId, State> holds_;
  std::map<StorageId, ValueId> holder_;  ///< the value that a storage holds in this play
  std::vector<std::string> problems_;
  const Segment* segment_ = nullptr;
  OperationId operation_;
  std::int32_t micro_step_ = 0;
  std::int64_t micro_steps_played_ = 0;
  std::int64_t step_ = 0;              ///< version that compute must read
  std::int64_t applied_ = 0;           ///< version that the updates of the segment in play must find
  bool has_left_ = false;              ///< the last step has left updates to the next one
  std::int64_t generation_plays_ = 0;  ///< since the caches were empty
  std::set<UnitId> updated_;
  std::set<UnitId> stored_;
  std::map<UnitId, DType> measured_;  ///< the type in which the norm saw a unit's gradient
};

}  // namespace tessera
