#include "tessera/config/fine_tuning.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/config/data_sources.hpp"
#include "tessera/config/validate.hpp"

namespace tessera {

namespace {

// The usual recipe of fine-tuning all weights. The rate rises to 2e-5 in 3% of the steps and falls to 0 on a cosine,
// the schedule's default. AdamW's first steps have the full size whatever the gradient; the warm-up keeps them from
// undoing what the model knows.
constexpr double kRate = 2e-5;
constexpr double kAdapterRate = 2e-4;  ///< of adapters, which begin at zero
constexpr double kEpochs = 1.0;
constexpr std::int64_t kWarmupPercent = 3;
constexpr double kMinutes = 30.0;  ///< between checkpoints, because without any the result would be lost

bool takes_epochs(const Options& options) {
  return options.is_open("train.steps") && options.is_open("train.epochs") && options.is_open("train.tokens") &&
         !is_mixture(options.data);
}

bool takes_minutes(const Options& options) {
  return options.is_open("checkpoint.every") && options.is_open("checkpoint.every_minutes");
}

}  // namespace

void require_named_data(const Options& options, bool is_job) {
  if (!options.is_open("data.source") || !options.is_open("data.synthetic_tokens")) return;
  constexpr const char* what = "data.source = FILES_OR_FOLDER, or data.source = synthetic for text that is made up";
  const std::string& resume = options.checkpoint.resume;
  const bool goes_on = resume != "none" && resume != "auto";
  if (is_fine_tuning(options)) {
    const bool is_imported = goes_on && options.is_open("model.from");  // the checkpoint stands for its weights
    throw refuse(is_imported ? "checkpoint.resume" : "model.from", is_imported ? resume : options.model.from)
        .because("nothing names the text to train on")
        .use(what);
  }
  if (is_job && !goes_on) throw refusal("this job does not name the text to train on").use(what);
}

Options with_fine_tuning(Options options) {
  if (!is_fine_tuning(options)) return options;
  if (options.is_open("optim.lr")) options.optim.lr = options.lora.on() ? kAdapterRate : kRate;
  if (takes_epochs(options)) options.train.epochs = kEpochs;
  if (takes_minutes(options)) options.checkpoint.every_minutes = kMinutes;
  if (options.optim.min_lr > options.optim.lr) {
    throw refusal("optim.min_lr = {} is above optim.lr = {}, the default with model.from", options.optim.min_lr,
                  options.optim.lr)
        .use("0 to {}, or give optim.lr", options.optim.lr);
  }
  return options;
}

std::int64_t warmup_steps_of(const Options& options, std::int64_t steps) {
  if (!is_fine_tuning(options) || !options.is_open("optim.warmup_steps")) return options.optim.warmup_steps;
  const std::int64_t share = steps / 100 * kWarmupPercent + (steps % 100 * kWarmupPercent + 50) / 100;
  if (options.optim.schedule != LearningRateSchedule::wsd) return share;
  return std::min(share, steps - decay_steps(options.optim, steps));
}

std::string describe_fine_tuning(const Options& asked, const Options& used, std::int64_t context, std::int64_t steps) {
  if (!is_fine_tuning(asked)) return {};
  static const Options scratch;
  std::string text;
  const auto add = [&](const std::string& line) { text += "\n           " + line; };
  if (asked.is_open("optim.lr")) add(fmt::format("optim.lr = {} (from scratch: {})", used.optim.lr, scratch.optim.lr));
  if (asked.is_open("optim.warmup_steps")) {
    add(fmt::format("optim.warmup_steps = {}, {}% of {} (from scratch: {})", used.optim.warmup_steps, kWarmupPercent,
                    counted(steps, "step"), scratch.optim.warmup_steps));
  }
  if (takes_epochs(asked))
    add(fmt::format("train.epochs = {} (from scratch: train.steps = {})", used.train.epochs, scratch.train.steps));
  if (asked.is_open("train.seq_len") && asked.train.seq_len == 0) {
    add(used.train.seq_len == context
            ? fmt::format("train.seq_len = {}, the model's context", context)
            : fmt::format("train.seq_len = {} (from scratch: the model's context of {})", used.train.seq_len, context));
  }
  if (takes_minutes(asked)) {
    add(fmt::format("checkpoint.every_minutes = {}, and a checkpoint at the end (from scratch: none)",
                    used.checkpoint.every_minutes));
  }
  return text.empty() ? text : fmt::format("fine-tune  {}, by default with{}", asked.model.from, text);
}

}  // namespace tessera
