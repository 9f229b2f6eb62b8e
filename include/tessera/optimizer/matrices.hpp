#pragma once
// Matrices that an optimizer updates as a whole (Muon's): which of them a tensor holds, and which member of the group
// that shares the state owns each tensor. An owner has whole tensors for as long as their update takes. Everything here
// follows from model, layout and number of members alone, so it is the same on all ranks.

#include <cstdint>
#include <vector>

#include "tessera/config/enums.hpp"
#include "tessera/shard/units.hpp"

namespace tessera {

/// A matrix in a tensor's memory, row-major.
struct TensorMatrix {
  std::int64_t rows = 0, columns = 0;
  std::int64_t offset = 0, stride = 0;   ///< elements from the tensor's start, and from row to row
  std::int64_t inputs = 0, outputs = 0;  ///< of the linear; rows and columns in one order or the other
};

/// Returns the matrices of a block's tensor: itself, or queries, keys and values of a fused one.
std::vector<TensorMatrix> matrices_of(const ParameterTensor& tensor, const Architecture& architecture);

/// Returns the factor by which Muon's rate is multiplied for a matrix.
float muon_scale(const TensorMatrix& matrix, MuonScale scale);

/// A tensor in its owner's memory.
struct OwnedTensor {
  TensorId tensor;
  std::int64_t owner = 0;   ///< a member
  std::int64_t offset = 0;  ///< elements from the start of the owner's memory for the unit, a multiple of 64
};

/// The owners of the tensors of one unit.
struct UnitOwners {
  std::vector<OwnedTensor> tensors;  ///< in the unit's order
  std::int64_t elements = 0;         ///< of the fullest member's memory
};

/// Gives each matrix of a block to a member. The work, rows x columns x the shorter of both, is balanced over the
/// model: the largest matrix goes first, to the member that has the least so far (Graham 1969).
IndexedVector<UnitId, UnitOwners> owners_of(const ModelParts& model, const UnitLayout& layout, std::int64_t members);

}  // namespace tessera
