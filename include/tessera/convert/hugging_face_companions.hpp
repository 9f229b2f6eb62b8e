#pragma once
// Companion files of a Hugging Face folder's weights, which have no meaning here: the tokenizer, the generation
// settings, and the keys of config.json that do not affect the arithmetic. A run and an imported checkpoint keep them
// in a folder hugging_face/, so that an export includes them again.

#include <filesystem>
#include <optional>
#include <string>

#include "tessera/base/dtype.hpp"
#include "tessera/checkpoint/records.hpp"

namespace tessera {

inline constexpr const char* kCompanionFolder = "hugging_face";

/// Lists the dropouts above 0 in config.json of companions_at(FOLDER), "resid_pdrop = 0.1, ..."; empty for none.
std::string dropouts_of(const std::filesystem::path& folder);

/// Lists what generation_config.json in a folder of companions says that would change even the likeliest tokens, and is
/// not taken: "repetition_penalty = 1.1, ..."; empty for nothing.
std::string generation_left_out(const std::filesystem::path& companions);

/// Returns the folder with the companions of PATH. A Hugging Face folder holds its own; a checkpoint or a run has a
/// folder for them, which may hold only a tokenizer. Empty if there is none.
std::filesystem::path companions_at(const std::filesystem::path& path);

/// The same for a checkpoint, its run, or the folder that its options name with model.from.
std::filesystem::path companions_of(const std::filesystem::path& checkpoint, const Manifest& manifest);

/// Returns whether the weights that a checkpoint's adapters adapt are the text model of one that sees pictures, too.
bool base_sees_pictures(const std::filesystem::path& checkpoint, const Manifest& manifest);

/// Returns "bfloat16" for bf16: how config.json calls a type of weights.
const char* torch_name_of(DType dtype);

/// Returns the type of the weights that a checkpoint's run began from, as config.json of its companions says; nothing
/// if none does.
std::optional<DType> dtype_of_origin(const std::filesystem::path& checkpoint, const Manifest& manifest);

/// Makes config.json in `folder` say that the weights which it belongs to are of this type, if it is there. IoError.
void keep_dtype(const std::filesystem::path& folder, DType dtype);

/// Copies config.json and the companion files of folder `from` into `to`, which is created; does nothing if `from` is
/// empty. The tokenizer's files are those of `tokenizer`, a value of data.tokenizer, in a folder of their own
/// (kNamedTokenizer): those of `from` if it is empty, none for "bytes". Throws IoError.
void copy_companions(const std::filesystem::path& from, const std::filesystem::path& to,
                     const std::string& tokenizer = {});

/// Makes the chat template in `file` that of the tokenizer in a run's folder of companions, in place of its own; does
/// nothing if no tokenizer is there. IoError.
void keep_chat_template(const std::filesystem::path& companions, const std::filesystem::path& file);

/// Copies a checkpoint's companions into `to`: those that its run keeps, or else those that the run's options name.
/// Ends with finish_tokenizer, once config.json is there. Returns the folder with its origin's config.json; empty if
/// there is none. Throws IoError.
std::filesystem::path copy_companions_of(const std::filesystem::path& checkpoint, const Manifest& manifest,
                                         const std::filesystem::path& to);

/// Ends an export in which the run's own tokenizer stands next to the config.json of another one's model: what it says
/// of its class makes Transformers give the same ids as the run. Returns false where Transformers does not heed it.
/// IoError.
bool finish_tokenizer(const std::filesystem::path& folder);

/// Adds the tokenizer of bytes to an export of a model that was trained on them, unless another one is there. Returns
/// whether it did. Throws IoError.
bool add_byte_tokenizer(const Manifest& manifest, const std::filesystem::path& folder);

}  // namespace tessera
