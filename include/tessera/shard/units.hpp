#pragma once
// Units: which parameters are gathered and released together, and where each element lies in the unit's flat parameter.
//
// A flat parameter lays a unit's tensors end to end, each starting on a multiple of 64 elements, except those that
// follow another without a gap (ParameterTensor::follows); a table has rows of zeros at its end (kTableRows). It is
// padded to a multiple of world x 64, so that it splits evenly over any group of the world. Padding is zero and stays
// zero.

#include <cstdint>
#include <ranges>
#include <string>
#include <vector>

#include "tessera/config/enums.hpp"
#include "tessera/model/parts.hpp"

namespace tessera {

using UnitId = Id<struct Unit>;

/// Where a tensor lies in its unit's flat parameter.
struct TensorPlace {
  TensorId tensor;
  std::int64_t offset = 0;  ///< elements
};

/// The weight of a linear in fp8: tensors that lie end to end, and have one scale.
struct Fp8Weight {
  TensorId tensor;            ///< the first one
  std::int64_t offset = 0;    ///< elements, in its unit
  std::int64_t elements = 0;  ///< with the padding up to the next one
};

struct Unit {
  std::string name;                  ///< "wte", "h.0", "h.3.mlp", "model"
  std::vector<TensorPlace> tensors;  ///< ascending offsets
  std::int64_t elements = 0;         ///< of the tensors alone
  std::int64_t padded = 0;           ///< of the flat parameter; a multiple of world x 64
  std::int64_t matrices_end = 0;     ///< elements before this are matrices of blocks, where these come first; else 0
  bool is_block = false;  ///< holds block tensors: counts in shard.limit_all_gathers and in prefetch distances
  bool trains = true;     ///< as all of its tensors do, or none. If not, only the parameters are kept of it
  std::vector<Fp8Weight> fp8_weights = {};  ///< ascending offsets; where there are some, the unit has nothing else

  bool is_fp8() const { return !fp8_weights.empty(); }
  /// Elements of one member's share of a group of `members` ranks that divides the world.
  std::int64_t share(std::int64_t members) const { return padded / members; }
};

/// All units in forward order of first use; every tensor is in exactly one.
struct UnitLayout {
  IndexedVector<UnitId, Unit> units;
  IndexedVector<TensorId, UnitId> unit_of;
  IndexedVector<TensorId, std::int64_t> offset_of;  ///< elements from the start of its unit
  std::int64_t world = 1;

  /// The units of some tensors, each once, in the tensors' order.
  std::vector<UnitId> units_of(const std::vector<TensorId>& tensors) const;
  /// Returns the numbers of those that train, in order.
  auto trained() const {
    return units.ids() | std::views::filter([this](UnitId id) { return units[id].trains; });
  }
  std::int64_t padded_elements() const;   ///< P of the volume formulas: the sum over the units
  std::int64_t trained_elements() const;  ///< the same over those that train
};

/// Divides a model into units. `block`: a block each; `size`: neighbouring parts merged until they hold min_params
/// elements (a remainder joins the unit before it); `model`: one unit. Except under `model`, vocabulary tables and the
/// position table are separate units. Tensors of one unit all train, or none of them does: a block with adapters is two
/// units, and the small one that trains counts in no limit. With `matrices_first` the
/// matrices of blocks lie before a unit's other tensors. The weights of linears in fp8 are units of their own, and what
/// is left of their blocks counts in no limit.
UnitLayout divide_into_units(const ModelParts& model, Wrap wrap, std::int64_t min_params, std::int64_t world,
                             bool matrices_first = false);

/// A run of elements of one tensor inside a slice of a flat parameter.
struct TensorRun {
  TensorId tensor;
  std::int64_t first = 0;  ///< first element in the tensor
  std::int64_t count = 0;
  std::int64_t offset = 0;  ///< where the run starts, in elements from the start of the slice
};

/// The tensor elements in flat elements [first, first + count) of a unit, padding left out, in ascending order.
std::vector<TensorRun> runs_in_slice(const ModelParts& model, const Unit& unit, std::int64_t first, std::int64_t count);

}  // namespace tessera
