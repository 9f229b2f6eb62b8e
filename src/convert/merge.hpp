#pragma once
// A model with its adapters added to its weights.

#include "tessera/convert/tensor_stream.hpp"

namespace tessera {

/// Returns the weights of a checkpoint of adapters, W + scale B A in fp32, tensor by tensor, each to be read once.
/// UsageError if the model is not there any more; from the last tensor's reading, if it is another one.
TensorStream merged_stream(const CheckpointReader& adapters);

}  // namespace tessera
