#pragma once
// A rank's share of the state of a unit: its masters and the optimizer's states.

#include <cstdint>
#include <vector>

#include "tessera/optimizer/rules.hpp"
#include "tessera/shard/units.hpp"

namespace tessera {

/// One kind of state of a slice's elements.
struct StateVector {
  StateKind kind = StateKind::parameter;
  float* data = nullptr;
};

/// State of elements [first, first + count) of a unit's flat parameter, or of another slice.
struct StateSlice {
  UnitId unit;
  std::int64_t first = 0, count = 0;
  std::vector<StateVector> vectors;  ///< the master, then the states in the order of OptimizerRules::keeps
  std::vector<TensorRun> runs;       ///< tensor elements in the slice; offsets from its start

  float* master() const { return vectors.front().data; }
};

/// Adds states of `slice.count` elements each, which lie end to end from `data` on.
void add_vectors(StateSlice& slice, std::span<const StateKind> kinds, float* data);

}  // namespace tessera
