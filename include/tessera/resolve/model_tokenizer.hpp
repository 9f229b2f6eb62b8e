#pragma once
// The tokenizer that belongs to a model.

#include <memory>
#include <string>
#include <vector>

#include "tessera/resolve/model_weights.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

/// Returns the name of the tokenizer of a trained model, as data.tokenizer would have it. The first that exists of:
/// data.tokenizer, the one of its run, the one next to its weights, bytes for a vocabulary of 256. Throws UsageError if
/// there is none.
std::string tokenizer_name_of(const Options& options, const ModelWeights& weights);
/// Opens that tokenizer.
std::unique_ptr<Tokenizer> tokenizer_of(const Options& options, const ModelWeights& weights);

/// Returns the data.begin with which a model is asked: as given, or that of its run. A run from before that option
/// had none before its text.
std::string begin_for(const Options& options, const ModelWeights& weights);

/// Returns the file of the chat template by which a model is asked: as given, or that of its run; empty for the one in
/// its tokenizer's folder, where a run keeps a copy of its own. UsageError if it is nowhere.
std::string chat_template_for(const Options& options, const ModelWeights& weights);

/// Returns the tokenizer of the run that wrote these weights: the copy that it kept, or the one that its data.tokenizer
/// names, or "bytes" if that was its default. Empty if there was no such run, or it left none.
std::string tokenizer_of_run(const ModelWeights& weights);

/// Returns the tokens that end a text: the tokenizer's end of text, and eos_token_id, a number or a list, of each
/// config.json and generation_config.json that is next to the tokenizer (`name`: see tokenizer_name_of) or to the
/// weights (`companions`: see companions_of). If the weights have another tokenizer, only ids of the same text in both
/// count. Sorted; the tokenizer of bytes has none. Throws UsageError for other values of that key.
std::vector<std::int32_t> ends_of_text(const Tokenizer& tokenizer, const std::string& name,
                                       const std::filesystem::path& companions);

/// Rewrites the ids of tokens in `kept`, copies of the files of the model in `from`, for a run that reads its text with
/// the tokenizer `name`: those that mean the same to it stay, and its own ends of text are added. Throws IoError.
void restate_token_ids(const std::filesystem::path& kept, const std::filesystem::path& from, const std::string& name);

/// Returns the tokenizer with which a training run reads its text, for samples of what the model writes. Throws
/// UsageError if its data are tokens and nothing says which tokenizer made them.
std::unique_ptr<Tokenizer> tokenizer_of_training(const Options& options, std::int64_t vocab);

}  // namespace tessera
