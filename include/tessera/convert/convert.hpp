#pragma once
// Hugging Face folders into checkpoints and back, slice by slice, so that a model may be larger than memory.

#include <filesystem>

#include "tessera/base/dtype.hpp"
#include "tessera/checkpoint/reader.hpp"

namespace tessera {

/// Writes the Hugging Face folder SOURCE as a checkpoint of step 0, with zero moments and the folder's companion files;
/// these keep the type of its weights. PATH must be missing or an empty folder; it exists only once it is complete.
/// Throws UsageError and IoError.
void import_hugging_face(const std::filesystem::path& source, const std::filesystem::path& path,
                         const NamedTexts& provenance);

/// Writes a checkpoint's adapters as PEFT does: adapter_config.json and adapter_model.safetensors. PATH as above.
void write_peft(const std::filesystem::path& path, const CheckpointReader& checkpoint, DType dtype);

/// Writes a folder that Transformers loads, of adapters the model with these added to its weights: config.json, the
/// companion files of the origin (companions_of), and model.safetensors. A model larger than `largest_file` bytes (0:
/// no limit) becomes model-0000I-of-0000N.safetensors with an index. With `full_state` also state.h5, one plain HDF5
/// file with everything: /parameter, /first_moment and /second_moment by name, and the optimizer's scalars as
/// attributes. The same checkpoint gives the same bytes. PATH as above. Returns finish_tokenizer's answer.
bool write_hugging_face(const std::filesystem::path& path, const CheckpointReader& checkpoint, DType dtype,
                        std::int64_t largest_file, bool full_state);

}  // namespace tessera
