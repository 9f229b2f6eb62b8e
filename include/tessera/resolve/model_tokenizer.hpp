#pragma once
// The tokenizer that belongs to a model.

#include <memory>
#include <string>

#include "tessera/resolve/model_weights.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

/// Returns the name of the tokenizer of a trained model, as data.tokenizer would have it. The first that exists of:
/// data.tokenizer, the one of its run, the one next to its weights, bytes for a vocabulary of 256. Throws UsageError if
/// there is none.
std::string tokenizer_name_of(const Options& options, const ModelWeights& weights);
/// Opens that tokenizer.
std::unique_ptr<Tokenizer> tokenizer_of(const Options& options, const ModelWeights& weights);

/// Returns the tokenizer of the run that wrote these weights: the copy that it kept, or the one that its data.tokenizer
/// names, or "bytes" if that was its default. Empty if there was no such run, or it left none.
std::string tokenizer_of_run(const ModelWeights& weights);

/// Returns the tokenizer with which a training run reads its text, for samples of what the model writes. Throws
/// UsageError if its data are tokens and nothing says which tokenizer made them.
std::unique_ptr<Tokenizer> tokenizer_of_training(const Options& options, std::int64_t vocab);

}  // namespace tessera
