#pragma once
// Defaults of a run that starts from weights (model.from), which is fine-tuning: of options that neither the user nor a
// run's config.ini set.

#include <cstdint>
#include <string>

#include "tessera/config/options.hpp"

namespace tessera {

/// Longest train.seq_len by default: contexts of pretrained models are long, and memory grows with the sequence.
inline constexpr std::int64_t kFineTuningSequence = 1024;

/// Returns whether a run fine-tunes: it starts from a Hugging Face folder, a checkpoint or a run.
inline bool is_fine_tuning(const Options& options) { return !options.model.from.empty(); }

/// UsageError where a training would take synthetic text although nobody asked for that: a fine-tuning, or a job of the
/// job scripts, without data. Elsewhere a model from scratch may be tried on synthetic text.
void require_named_data(const Options& options, bool is_job);

/// Fills in the defaults that need neither model nor data: optim.lr = 2e-5, train.epochs = 1, and a checkpoint every
/// half hour and at the end. sequence_length (planned_run.hpp) knows the default of train.seq_len. UsageError if
/// optim.min_lr is above the learning rate then.
Options with_fine_tuning(Options options);

/// Returns optim.warmup_steps of a run of `steps` steps: as the options say, by default 3% of a fine-tuning.
std::int64_t warmup_steps_of(const Options& options, std::int64_t steps);

/// Returns lines for the log about each default of a fine-tuning; empty if there is none. `asked` are the options
/// before with_fine_tuning, `used` the resolved ones, of a run of `steps` steps on a model of this context.
std::string describe_fine_tuning(const Options& asked, const Options& used, std::int64_t context, std::int64_t steps);

}  // namespace tessera
