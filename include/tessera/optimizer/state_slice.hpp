#pragma once
// A rank's share of the state of a unit: its masters and the optimizer's states. An optimizer may keep less for
// matrices than for other elements, so a state may cover only a part of the slice.

#include <cstdint>
#include <vector>

#include "tessera/optimizer/rules.hpp"
#include "tessera/shard/units.hpp"

namespace tessera {

/// The elements [first, first + count) of a slice that have one kind of state.
struct StateSpan {
  StateKind kind = StateKind::parameter;
  std::int64_t first = 0, count = 0;
  bool operator==(const StateSpan&) const = default;
};

/// Returns what an optimizer keeps of elements [first, first + count) of a unit, by kind, the master first.
std::vector<StateSpan> state_spans(OptimizerName name, const Unit& unit, std::int64_t first, std::int64_t count);

/// Returns how many numbers the optimizer keeps besides masters on the fullest of `members` members that share a unit.
std::int64_t state_elements(OptimizerName name, const Unit& unit, std::int64_t members);
/// Returns the size of masters and states together, end to end, in numbers of the states' type.
std::int64_t snapshot_elements(OptimizerName name, DType moments, const Unit& unit, std::int64_t members);

/// One kind of state, and where it is.
struct StateVector : StateSpan {
  std::byte* data = nullptr;  ///< of element `first`
  DType dtype = DType::fp32;

  /// Returns the address of an element of the slice.
  std::byte* at(std::int64_t element) const { return data + (element - first) * size_of(dtype); }
};

/// State of elements [first, first + count) of a unit's flat parameter, or of another slice.
struct StateSlice {
  UnitId unit;
  std::int64_t first = 0, count = 0;
  std::vector<StateVector> vectors;  ///< the master first
  std::vector<TensorRun> runs;       ///< tensor elements in the slice; offsets from its start

  float* master() const { return reinterpret_cast<float*>(vectors.front().data); }
};

/// Adds kinds of state that lie end to end from `data` on, the optimizer's in `moments`.
void add_vectors(StateSlice& slice, std::span<const StateSpan> spans, std::byte* data, DType moments);

/// Calls function(run) with the part of each of the slice's runs that has such a state.
template <class Function>
void each_run(const StateSlice& slice, const StateSpan& span, const Function& function) {
  for (TensorRun run : slice.runs) {
    const std::int64_t begin = std::max(run.offset, span.first);
    const std::int64_t end = std::min(run.offset + run.count, span.first + span.count);
    if (begin >= end) continue;
    run.first += begin - run.offset, run.offset = begin, run.count = end - begin;
    function(run);
  }
}

}  // namespace tessera
