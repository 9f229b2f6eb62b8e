#include "training/checkpoint_comparison.hpp"

#include <algorithm>
#include <map>

#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/removed_options.hpp"
#include "tessera/config/settings.hpp"
#include "tessera/config/validate.hpp"

namespace tessera {

namespace {

/// Compares a run with a checkpoint.
class Comparison {
 public:
  Comparison(const std::filesystem::path& checkpoint, const ResumeSettings& settings, const Manifest& manifest)
      : where_(checkpoint.string()),
        settings_(settings),
        manifest_(manifest),
        then_(manifest.options.begin(), manifest.options.end()) {}

  void require_fit() const {
    Architecture mine = settings_.planned.schedule.model.architecture;
    mine.dropout = manifest_.architecture.dropout;
    mine.adapters.dropout = manifest_.architecture.adapters.dropout;
    const OptimizerName optimizer = settings_.planned.schedule.policy.optimizer;
    if (manifest_.updated_by != optimizer) {
      const auto then = name_of(manifest_.updated_by);
      throw refusal("{} holds the state of optim.name = {}, which {} cannot use", where_, then, name_of(optimizer))
          .use("optim.name = {}, or model.from = {}, which starts a new run from these weights", then, where_);
    }
    // Moments of another type are compared below: they can be converted.
    const auto tensors = tensor_records(settings_.planned.schedule.model.tensors, optimizer, manifest_.moments());
    if (!(mine == manifest_.architecture) || tensors != manifest_.tensors) {
      throw refusal("{} is of another model ({})", where_, difference(tensors))
          .hint("Describe the same one, or leave out [{}], which takes the checkpoint's",
                mine.adapters == manifest_.architecture.adapters ? "model" : "lora");
    }
    if (const auto [then, now] = std::pair(manifest_.option("lora.base_hash"), settings_.options.lora.base_hash);
        then != now && !then.empty()) {
      throw refusal("the adapters in {} belong to other weights than those of model.from = {} (hash {} then, {} now)",
                    where_, settings_.options.model.from, then, now)
          .use("model.from = {}", manifest_.option("model.from"));
    }
    if (!manifest_.data.known) return;  // nor moments, of imported weights
    const auto allowed = allowed_changes(settings_.options.checkpoint);
    const StepSchedule& schedule = settings_.planned.schedule;
    const std::int64_t batch = schedule.samples_per_step();
    const DataPosition& there = manifest_.data;
    const auto refuse = [&](const char* name, const std::string& what, const auto& then, const auto& now,
                            const std::string& same = "Give the same") {
      if (then == now || std::find(allowed.begin(), allowed.end(), name) != allowed.end()) return;
      throw refusal("{} was made with another {} ({} then, {} now)", where_, what, then, now)
          .hint("{}, or use checkpoint.allow = {}", same, name);
    };
    refuse("data", "corpus or validation part (data.source, data.val_source, data.val_fraction)", there.fingerprint,
           fmt::format("{:016x}", settings_.data.fingerprint()), same_data());
    refuse("seq_len", "sequence length (train.seq_len)", there.sequence, schedule.model.sequence);
    refuse("global_batch", "global batch (ranks x train.accumulation x train.micro_batch)", there.global_batch, batch,
           same_batch(there.global_batch));
    refuse("seed", "data.seed", there.data_seed, settings_.options.data.seed);
    refuse("seed", "run.seed", there.run_seed, settings_.options.run.seed);
    refuse("moments", "type of moments (optim.moments)", name_of(manifest_.moments()),
           name_of(schedule.policy.moments));
    refuse("order", "data.order", there.order, std::string(name_of(settings_.options.data.order)));
  }

  std::string changes() const {
    std::string text;
    const auto add = [&](const std::string& name, const std::string& then, const std::string& now) {
      text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", name, then.empty() ? "(empty)" : then,
                          now.empty() ? "(empty)" : now);
    };
    const std::int64_t world = settings_.planned.schedule.grid.world();
    if (manifest_.grid.world != world) add("ranks", std::to_string(manifest_.grid.world), std::to_string(world));
    for (const OptionValue& option : flat_options(settings_.options)) {
      const auto old = then_.find(option.name);
      if (old == then_.end() || old->second == option.value || option.name.starts_with("checkpoint.") ||
          option.name == "run.dir" || option.name == "run.name") {
        continue;
      }
      if (has_effect(settings_.options, option.name)) add(option.name, old->second, option.value);
    }
    for (const RemovedOption& removed : removed_options()) {
      const auto old = then_.find(std::string(removed.name));
      const bool counts = old != then_.end() && !removed.name.starts_with("checkpoint.");
      if (counts && old->second != removed.by_default) add(old->first, old->second, std::string(removed.by_default));
    }
    add_rate(add);
    return text;
  }

 private:
  /// Adds how the learning rate goes on, if its schedule has another course than it would have had.
  template <class Add>
  void add_rate(const Add& add) const {
    const RunPosition from = manifest_.position();
    if (!manifest_.data.known || then_.empty() || from.step == 0 || from.sequence == 0) return;
    Options then;
    for (const char* name : {"train.steps", "train.epochs", "train.tokens", "optim.lr", "optim.min_lr",
                             "optim.warmup_steps", "optim.schedule", "optim.decay_fraction"}) {
      if (const auto old = then_.find(name); old != then_.end()) apply({name, old->second, where_}, then);
    }
    const Options& now = settings_.options;
    const std::int64_t next = from.step + 1, batch = settings_.planned.schedule.samples_per_step();
    // An epoch's samples of another length are about as many.
    const Sampler& samples = settings_.data.train();
    const std::int64_t per_epoch = samples.samples_per_epoch() * samples.seq_len() / from.sequence;
    const RunLength was(then.train.steps, samples_of_run(then.train, from.sequence, per_epoch).value_or(0),
                        manifest_.data.global_batch, from),
        is = length_of_run(now.train, settings_.data, batch, from);
    const double rate = learning_rate(now.optim, is.progress(next));
    if (next > is.steps() || (next <= was.steps() && rate == learning_rate(then.optim, was.progress(next)))) return;
    add("rate",
        fmt::format("{:.2e} at step {} of {}", learning_rate(then.optim, was.progress(from.step)), from.step,
                    was.steps()),
        fmt::format("{:.2e} at step {} of {}", rate, next, is.steps()));
  }

  /// Returns the options to type for the corpus of the checkpoint, if they differ.
  std::string same_data() const {
    const auto different = [&](const OptionValue& option) {
      const auto old = then_.find(option.name);
      const bool is_same = !option.name.starts_with("data.") || old == then_.end() || old->second == option.value;
      return is_same ? "" : fmt::format("--{}={}", option.name, old->second);
    };
    const std::string text = joined(flat_options(settings_.options), different, " ");
    if (!text.empty()) return fmt::format("Give {} for the same", text);
    const std::string left_out = settings_.data.source().skipped();
    if (left_out.empty()) return "Give the same text, which has changed since";
    return fmt::format(
        "Give the same text: it has changed since, or the run began with a version that read what folders leave out "
        "now ({}), which may be named one by one",
        left_out);
  }

  /// Returns the options to type for the checkpoint's global batch on these ranks: another accumulation, or else the
  /// largest smaller micro-batch that divides it as well.
  std::string same_batch(std::int64_t then) const {
    const StepSchedule& schedule = settings_.planned.schedule;
    const std::int64_t world = schedule.grid.world();
    if (then % world != 0)
      return fmt::format("Start it on a number of ranks that divides {}, which {} does not", then, world);
    std::int64_t micro_batch = schedule.model.batch;
    while (then / world % micro_batch != 0) --micro_batch;
    const bool by_batch = settings_.options.train.global_batch > 0;
    return fmt::format("Give {}{} for the same",
                       micro_batch == schedule.model.batch ? "" : fmt::format("--train.micro_batch={} ", micro_batch),
                       by_batch ? fmt::format("--train.global_batch={}", then)
                                : fmt::format("--train.accumulation={}", then / world / micro_batch));
  }

  std::string difference(const std::vector<TensorRecord>& mine) const {
    const Architecture &a = manifest_.architecture, &b = settings_.planned.schedule.model.architecture;
    const auto adapters = [](const Adapters& of) { return of.on() ? "adapters of " + describe(of) : "no adapters"; };
    if (a.family != b.family) return fmt::format("{} there, {} here", name_of(a.family), name_of(b.family));
    for (const ModelSize& size : kModelSizes) {
      const std::int64_t there = a.*size.field, here = b.*size.field;
      if (there != here) return fmt::format("model.{} = {} there, {} here", size.option, there, here);
    }
    if (a.adapters != b.adapters) return fmt::format("{} there, {} here", adapters(a.adapters), adapters(b.adapters));
    for (std::size_t i = 0; i < std::min(mine.size(), manifest_.tensors.size()); ++i) {
      if (mine[i] != manifest_.tensors[i]) return fmt::format("tensor {} differs", mine[i].name);
    }
    return "its description differs";
  }

  std::string where_;
  const ResumeSettings& settings_;
  const Manifest& manifest_;
  const std::map<std::string, std::string> then_;  ///< the checkpoint's options
};

}  // namespace

void require_fit(const std::filesystem::path& checkpoint, const ResumeSettings& settings, const Manifest& manifest) {
  require_full_state(checkpoint, manifest);
  Comparison(checkpoint, settings, manifest).require_fit();
}

std::string changes_since(const std::filesystem::path& checkpoint, const ResumeSettings& settings,
                          const Manifest& manifest) {
  return Comparison(checkpoint, settings, manifest).changes();
}

}  // namespace tessera
