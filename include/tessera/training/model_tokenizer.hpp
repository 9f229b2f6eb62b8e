#pragma once
// The tokenizer that goes with a model.

#include <memory>

#include "tessera/tokenizer/tokenizer.hpp"
#include "tessera/training/model_weights.hpp"

namespace tessera {

/// Returns the tokenizer of a model: what its run used, or the one beside its weights, or bytes for a vocabulary of
/// 256. UsageError if there is none.
std::unique_ptr<Tokenizer> tokenizer_of(const ModelWeights& weights);

}  // namespace tessera
