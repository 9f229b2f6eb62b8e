#pragma once
// The files next to a model's weights that exports of its checkpoints need.

#include <optional>

#include "tessera/base/dtype.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// Copies the companion files of the initial weights (tokenizer, config.json, ...) into RUN/hugging_face, for the
/// exports of its checkpoints, and the type of these weights, `dtype`, if they are a folder's. The tokenizer's files
/// are those of data.tokenizer if that is given. The folder is whole or not there; does nothing if it is.
void keep_companions(const Options& options, std::optional<DType> dtype = {});

}  // namespace tessera
