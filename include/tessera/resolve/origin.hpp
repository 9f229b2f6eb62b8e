#pragma once
// The checkpoint from which a run goes on, and the options that it takes from there.

#include <utility>

#include "tessera/checkpoint/records.hpp"
#include "tessera/comm/rank_context.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// Fills in unset options from the checkpoint that checkpoint.resume names:
///   the model, if no option of [model] but dropout was given
///   train.seq_len, train.micro_batch
///   train.global_batch, or the train.accumulation that makes the same global batch on these ranks
/// Of a checkpoint without a known run (an imported one), only the model is taken. For auto it is the newest checkpoint
/// whose manifest can be read; without one nothing changes. Returns where the run goes on, too. Collective.
std::pair<Options, RunPosition> with_origin(RankContext& context, Options options);

}  // namespace tessera
