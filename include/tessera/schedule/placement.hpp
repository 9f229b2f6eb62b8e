#pragma once
// Where the elements of a value are, and which collectives bring them to where a reader needs them. This is the only
// place that decides about collectives of parameters, gradients and scalars.

#include <cstdint>
#include <vector>

#include "tessera/base/dtype.hpp"
#include "tessera/grid/grid.hpp"

namespace tessera {

enum class OperationKind : std::uint8_t;

struct Placement {
  Groups shard;    ///< this rank's slice over these groups (shard, then replica; or sub); empty: full
  Groups partial;  ///< groups whose sum is still missing
  DType dtype = DType::byte;
  bool operator==(const Placement&) const = default;
};

/// One collective, or a slice or cast of what the rank has, and the placement of its result.
struct Redistribution {
  OperationKind kind;  ///< reduce_scatter, all_reduce, gather, slice or cast
  Group group;
  Placement result;
};

/// Returns the collectives from one placement to another, in order; none where they are equal. Sums go over the inner
/// group first, and what was sharded last is gathered first. Over sub-groups, a value is only sliced. The last
/// collective changes the type.
std::vector<Redistribution> redistribute(const Placement& from, const Placement& to);

}  // namespace tessera
