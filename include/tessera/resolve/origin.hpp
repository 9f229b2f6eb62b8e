#pragma once
// Checkpoints as the origin of a run: where one is, and the options that a run takes from it.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/checkpoint/records.hpp"
#include "tessera/comm/rank_context.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// Returns the checkpoint at PATH: PATH itself, or the newest one of the run in that folder; nothing if it is neither.
std::optional<std::filesystem::path> checkpoint_in(const std::filesystem::path& path);

/// Returns the checkpoint folders that checkpoint.resume names, the best first. auto means all of the run's, newest
/// first; PATH is a checkpoint or a run's folder. Throws UsageError if PATH is neither, and IoError if the run has
/// published checkpoints of which none is there: they are out of reach, and a run must not begin again over them.
std::vector<std::filesystem::path> resume_candidates(const std::string& resume, const std::filesystem::path& run);

/// Returns a line about the last checkpoint that a run has published, if it is gone although older ones are there;
/// nothing otherwise. Whoever deletes it on purpose goes back in the run, so that this is no error.
std::string describe_missing(const std::filesystem::path& run);

/// Throws UsageError if a checkpoint has only weights, as earlier versions could leave: a run cannot go on from it.
void require_full_state(const std::filesystem::path& checkpoint, const Manifest& manifest);

/// Fills in unset options from the checkpoint that checkpoint.resume names:
///   the model, if no option of [model] but dropout was given
///   train.seq_len, train.micro_batch
///   train.global_batch, or the train.accumulation that makes the same global batch on these ranks
/// Of a checkpoint without a known run (an imported one), only the model is taken. For auto it is the newest checkpoint
/// whose manifest can be read; without one nothing changes. Returns where the run goes on, too. Collective.
std::pair<Options, RunPosition> with_origin(RankContext& context, Options options);

/// Copies the companion files of the initial weights (tokenizer, config.json, ...) into RUN/hugging_face, for the
/// exports of its checkpoints, and the type of these weights, `dtype`, if they are a folder's. The tokenizer's files
/// are those of data.tokenizer if that is given. Does nothing if there are some already.
void keep_companions(const Options& options, std::optional<DType> dtype = {});

/// Returns `given` with precision.linear and precision.fp8_smallest of `run`, the options of the run that a checkpoint is
/// of, unless they are given.
Options with_linears_of(Options given, const NamedTexts& run);

/// Returns `given` with the data, sizes and precision that it leaves open taken from `run`, the options of the run that
/// wrote the checkpoint. All of the validation set is evaluated if `given` names it, or if there was no run (`run` is
/// empty); otherwise as much as the run evaluated.
/// Throws UsageError if there is nothing to evaluate.
Options evaluation_options(const Options& given, const NamedTexts& run);

}  // namespace tessera
