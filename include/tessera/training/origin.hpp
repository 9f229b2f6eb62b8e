#pragma once
// Checkpoints as the origin of a run: where one is, and what a run takes from it.

#include <filesystem>
#include <optional>

#include "tessera/comm/rank_context.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// The checkpoint at PATH: PATH itself, or the newest one of the run in that folder; nothing if it is neither.
std::optional<std::filesystem::path> checkpoint_in(const std::filesystem::path& path);

/// Fills in from the checkpoint that checkpoint.resume names what the user left open: the model where no option of
/// [model] but dropout was given, train.seq_len, train.micro_batch, and train.global_batch, or the train.accumulation
/// that makes the same global batch on these ranks. Options of a checkpoint without a known run (an imported one) are
/// only its model. For auto it is the newest checkpoint whose manifest can be read; without one nothing changes.
/// Collective.
Options with_origin(RankContext& context, Options options);

/// Copies what lies beside the weights that a run starts from (tokenizer, config.json, ...) into RUN/hugging_face, for
/// the exports of its checkpoints; does nothing where it is already there.
void keep_companions(const Options& options);

}  // namespace tessera
