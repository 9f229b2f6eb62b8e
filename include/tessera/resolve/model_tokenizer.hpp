#pragma once
// The tokenizer that goes with a model.

#include <memory>
#include <string>

#include "tessera/resolve/model_weights.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

/// Returns the name of the tokenizer of a model that was trained, as data.tokenizer would have it. First of:
/// data.tokenizer, what its run used, the one next to its weights, bytes for a vocabulary of 256. UsageError if there
/// is none.
std::string tokenizer_name_of(const Options& options, const ModelWeights& weights);
/// Opens it.
std::unique_ptr<Tokenizer> tokenizer_of(const Options& options, const ModelWeights& weights);

/// Returns the tokenizer of the run that wrote these weights: the copy that it kept, or what its data.tokenizer names.
/// "bytes" if that was its default. Empty if there was no such run, or it left none.
std::string tokenizer_of_run(const ModelWeights& weights);

/// Returns the tokenizer with which a training reads its text, for samples of what the model writes. UsageError if its
/// data are tokens and nothing says of which tokenizer.
std::unique_ptr<Tokenizer> tokenizer_of_training(const Options& options, std::int64_t vocab);

}  // namespace tessera
