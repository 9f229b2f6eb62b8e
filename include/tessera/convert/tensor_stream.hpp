#pragma once
// A tensor of a checkpoint, piece by piece.

#include <functional>
#include <span>
#include <vector>

#include "tessera/base/dtype.hpp"
#include "tessera/checkpoint/reader.hpp"
#include "tessera/files/fresh_output.hpp"

namespace tessera {

/// Takes pieces of a tensor: values from element `first` on.
using UsePiece = std::function<void(std::int64_t first, std::span<const float> values)>;

/// Tensors, and how to read one: use(first, values) for pieces of it in ascending order.
struct TensorStream {
  std::vector<TensorRecord> tensors;
  std::function<void(std::size_t tensor, const UsePiece& use)> read;
};

/// Returns the parameters in a checkpoint, which must outlive them.
TensorStream stream_of(const CheckpointReader& checkpoint);

/// Calls use(first, values) for pieces of a tensor in ascending order.
void stream_tensor(const CheckpointReader& checkpoint, StateKind kind, std::size_t tensor, const UsePiece& use);

/// Appends values rounded to nearest even.
void append_as(SequentialFile& file, DType dtype, std::span<const float> values);

}  // namespace tessera
