#include "tessera/resolve/resolved_run.hpp"

#include "tessera/backend/cores.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/validate.hpp"

namespace tessera {

namespace {

bool has(Purpose purposes, Purpose one) {
  return (static_cast<std::uint8_t>(purposes) & static_cast<std::uint8_t>(one)) != 0;
}

/// Notes the options whose values a step changed.
void note_changes(const Options& before, const Options& after, std::string_view step, std::vector<Decision>& out) {
  const std::vector<OptionValue> old = flat_options(before), now = flat_options(after);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i].value == old[i].value) continue;
    std::erase_if(out, [&](const Decision& decision) { return decision.option == now[i].name; });
    out.push_back({step, now[i].name, now[i].value});
  }
}

}  // namespace

ResolvedRun::ResolvedRun(const Options& given, const ResolveSite& site)
    : options(given), asked(given), machine(site.machine) {
  world = site.ranks != nullptr ? site.ranks->size() : site.planned_ranks;
  if (site.ranks != nullptr) ranks_per_node = site.ranks->ranks_per_node();
  for (const ResolveStep& step : resolve_steps()) {
    if (!has(step.purposes, site.purpose)) continue;
    const Options before = options;
    step.apply(*this, site);
    note_changes(before, options, step.name, decisions);
  }
}

std::string describe_decisions(const std::vector<Decision>& decisions) {
  return joined(decisions, [](const Decision& decision) {
    return decision.option.starts_with("model.") ? "" : fmt::format("{} = {}", decision.option, decision.value);
  });
}

RunLength length_of_run(const TrainOptions& train, const Dataset& data, std::int64_t batch, const RunPosition& from) {
  const std::int64_t sequence = data.train().seq_len();
  const auto samples = samples_of_run(train, sequence, data.train().samples_per_epoch());
  return {train.steps, samples.value_or(0), batch, in_samples_of(sequence, from)};
}

std::optional<std::int64_t> planned_steps(const Options& options, const StepSchedule& schedule) {
  if (options.train.tokens == 0 && options.train.epochs > 0) return std::nullopt;
  const auto samples = samples_of_run(options.train, schedule.model.sequence, 0);
  const RunLength length(options.train.steps, samples.value_or(0), schedule.samples_per_step(), {});
  validate_for_steps(options, length.steps());
  return length.steps();
}

void open_on_all(RankContext& context, const Options& options, const StopReason& stop,
                 const std::function<void(const CorpusSettings&)>& open) {
  CorpusSettings settings;
  settings.threads = options.run.threads > 0 ? static_cast<int>(options.run.threads) : allowed_cores();
  settings.stop = stop;
  const WaitPhase phase(context.control().waits(), "rank 0 prepared the corpus", 0, "");
  if (context.rank() == 0) {
    settings.say = [](const std::string& line) { Log(0, 1).info(line); };
    open(settings);
  }
  context.control().barrier();
  // If rank 0's cache is not shared with this rank, it is prepared again.
  if (context.rank() != 0) {
    settings.say = [&](const std::string& line) { Log(0, 1).info(fmt::format("rank {}: {}", context.rank(), line)); };
    open(settings);
  }
  context.control().barrier();
}

}  // namespace tessera
