#pragma once
// A tensor of a checkpoint, piece by piece.

#include <functional>
#include <span>

#include "tessera/base/dtype.hpp"
#include "tessera/checkpoint/reader.hpp"
#include "tessera/files/fresh_output.hpp"

namespace tessera {

/// Calls use(first, values) for pieces of a tensor in ascending order.
void stream_tensor(const CheckpointReader& checkpoint, StateKind kind, std::size_t tensor,
                   const std::function<void(std::int64_t first, std::span<const float> values)>& use);

/// Appends values rounded to nearest even.
void append_as(SequentialFile& file, DType dtype, std::span<const float> values);

}  // namespace tessera
