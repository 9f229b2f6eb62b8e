#include "tessera/record/account.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/backend/cores.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/data/evaluation.hpp"
#include "tessera/data/reader.hpp"
#include "tessera/engine/host_update.hpp"
#include "tessera/record/prediction.hpp"
#include "tessera/schedule/formula.hpp"
#include "tessera/schedule/print.hpp"

namespace tessera {

namespace {

std::string model_line(const PlannedRun& planned) {
  const ModelParts& model = planned.schedule.model;
  const std::string adapters = describe_adapters(model);
  return fmt::format("model      {}, {} parameters: {}, sequence {}{}", name_of(model.architecture.family),
                     format_count(model.parameter_count()), describe(model.architecture), model.sequence,
                     adapters.empty() ? "" : "\nadapters   " + adapters);
}

/// " (after forward units stay split over 2 ranks)", or nothing.
std::string kept_over(const ProcessGrid& grid) {
  const std::int64_t ranks = grid.size(Group::sub);
  return ranks == 1 ? "" : fmt::format(" (after forward units stay split over {} ranks)", ranks);
}

/// " (CPU quota of 1.5 of 2 cores)", or nothing where there is none.
std::string quota_note() {
  const auto quota = cpu_quota();
  const std::size_t cores = allowed_core_numbers().size();
  const bool is_less = quota && *quota < static_cast<double>(cores);
  return is_less ? fmt::format(" (CPU quota of {:.3g} of {} cores)", *quota, cores) : "";
}

std::string grid_line(const PlannedRun& planned, const Resources& resources, const MachineShape& machine) {
  const ProcessGrid& grid = planned.schedule.grid;
  const ResourceSettings& settings = resources.settings;
  const char* queues = settings.queue_mode == QueueMode::serial  ? "serial queues (one operation at a time)"
                       : settings.queue_mode == QueueMode::chaos ? "chaos queues (with random delays)"
                                                                 : "parallel queues (collectives overlap computation)";
  std::string line = fmt::format("grid       {} ({} per node), shard group {}{}, {}; {} per rank{}, {}",
                                 counted(grid.world(), "rank"), grid.ranks_per_node(), grid.size(Group::shard),
                                 kept_over(grid), counted(grid.size(Group::replica), "replica"),
                                 counted(settings.threads, "thread"), quota_note(), queues);
  const int wanted = settings.threads * machine.machine_ranks;
  if (wanted > machine.machine_cores)
    line += fmt::format("\nwarning    {} on {}: ranks will wait for each other", counted(wanted, "compute thread"),
                        counted(machine.machine_cores, "core"));
  return line;
}

std::string strategy_line(const Options& options, const PlannedRun& planned) {
  const StepSchedule& s = planned.schedule;
  return fmt::format(
      "strategy   {}{}, wrap {}, {} units, checkpoint {}, compute {}, reduce {}{}; {} sent per rank and step{}",
      name_of(s.policy.strategy), s.grid.world() == 1 ? " (of one rank: nothing is split)" : "",
      name_of(options.shard.wrap), s.layout.units.size(), describe(s.policy.recomputation),
      name_of(s.policy.compute), name_of(s.policy.reduce), s.policy.fp8 ? ", " + describe_fp8(s.model) : "",
      format_bytes(s.wire_bytes_per_step()),
      s.grid.world() == 1 ? "" : " (exposed: the part of a step that waits for it)");
}

/// Warns if pinned memory exceeds the limit of locked memory. Some drivers count it, but most do not.
std::string pinned_warning(const PlannedRun& planned) {
  if (!traits_of(planned.schedule.model.device).has_own_memory) return {};
  const std::int64_t pinned = planned.plan.at(MemorySpace::host).total();
  const auto limit = lockable_memory();
  if (!limit || pinned <= *limit) return {};
  return fmt::format(
      "\nwarning    {} pinned on the host, more than the {} that a process may lock (ulimit -l): a driver that counts "
      "pinned memory refuses it",
      format_bytes(pinned), format_bytes(*limit));
}

std::string memory_line(const PlannedRun& planned, const Resources& resources) {
  const SpacePlan& device = planned.plan.at(MemorySpace::device);
  std::string line = fmt::format("memory     {} per rank; at the peak: {}, {} unused", format_bytes(device.total()),
                                 describe_peak(planned.plan), format_bytes(device.idle_at_peak()));
  if (const std::string on_host = describe_host_memory(planned.schedule); !on_host.empty())
    line += fmt::format("; on the host: {} ({})", format_bytes(planned.plan.at(MemorySpace::host).total()), on_host);
  std::string outside;
  for (const UnplannedMemory& unplanned : resources.unplanned)
    outside += fmt::format("{}{} {}", outside.empty() ? "; outside the plan " : ", ", format_bytes(unplanned.bytes),
                           unplanned.use);
  return line + outside + pinned_warning(planned);
}

/// Says which activations wait on the host.
std::string offloaded_inputs_line(const Options& options, const StepSchedule& s) {
  if (!options.memory.offload_activations) return {};
  if (s.offloaded_inputs == 0)
    return "offload    activations: none, for memory.checkpoint = fit recomputes nothing whose input could go out\n";
  const std::int64_t copied = bytes_of(input_copy_terms(s));
  return fmt::format("offload    activations: {} of recomputed blocks on the host until backward, {} copied per step\n",
                     counted(s.offloaded_inputs, "input"), format_bytes(copied));
}

/// Says how much of a step the host's AdamW takes.
std::string offloaded_state_line(const StepSchedule& s, const Resources& resources, int machine_ranks) {
  if (s.policy.offload == Offload::none) return {};
  const OffloadAccount account = offload_account(s);
  const std::int64_t probed = std::min(std::int64_t{4} << 30, usable_memory() / 4) / machine_ranks;
  const double rate = host_update_rate(resources.compute->kernels(Queue::host), account.elements, s.policy.compute,
                                       s.policy.moments, probed);
  return fmt::format(
      "offload    {}: the state of {} of {} elements on the host, {} copied per step; AdamW there takes {} per step "
      "({} elements/s on {} of this rank){}\n",
      name_of(s.policy.offload), format_count(account.elements), format_count(account.of),
      format_bytes(s.copied_bytes_per_step() - bytes_of(input_copy_terms(s))),
      format_seconds(static_cast<double>(account.elements) / rate), format_count(std::llround(rate)),
      counted(resources.settings.threads, "thread"),
      traits_of(s.model.device).has_own_memory ? ", while the next step's first forward runs" : "");
}

/// Says how the outputs of the MLP's activation are handled, if a choice was made.
std::string activated_line(const Options& options, const ModelParts& model) {
  if (model.mlp_chunk > 0)
    return fmt::format("activated  MLPs take {} of {} tokens at a time, in backward once more\n", model.mlp_chunk,
                       model.tokens());
  const std::string what = name_of(model.architecture.mlp);
  if (model.keeps_activated) return fmt::format("activated  {}'s outputs are kept for backward\n", what);
  if (!traits_of(model.device).has_own_memory) return {};
  const bool shows = is_deterministic(options.run) && !model.architecture.is_gated() && model.compute != DType::fp32;
  return fmt::format("activated  {}'s outputs are made again in backward{}\n", what,
                     shows ? " (memory.keep_activated = false: other bits than with true)" : "");
}

std::string replay_line(const Options& options, const StepSchedule& schedule) {
  if (options.run.replay_every == 0) return {};
  return fmt::format("replay     {}\n", describe_replays(schedule, options.run.replay_every));
}

/// Says what run.deterministic = true would cost: in memory by plan, in time where there are prices.
std::string cost_of_fixed_order(const Options& options, const PlannedRun& planned) {
  const StepSchedule& s = planned.schedule;
  Options fixed = options;
  fixed.run.deterministic = Tristate::yes;
  const PlannedRun other =
      plan_shape(run_shape(fixed, {s.model.architecture, s.grid.world(), s.grid.ranks_per_node()}), kQuickPlan);
  const std::int64_t more = limited_bytes(other) - limited_bytes(planned);
  std::string cost = fmt::format("{} {}", format_bytes(std::abs(more)), more < 0 ? "less" : "more");
  try {
    const auto now = predict_run(planned, options), then = predict_run(other, fixed);
    if (now)
      cost += fmt::format(" and, predicted, {} of time",
                          format_percent(then->step.step_seconds / now->step.step_seconds - 1));
  } catch (const UsageError&) {
    cost += "; plan.cluster lacks its prices";
  }
  return cost;
}

/// Describes the device, and on a GPU how its collectives and segments run.
std::string device_line(const Options& options, const PlannedRun& planned, const Resources& resources,
                        const Player& player) {
  const std::string mode = player.execution_mode();
  const auto& [text, libraries, lacks_library] = resources.description;
  if (mode.empty()) return "kernels    " + text;
  const bool tells = resources.context.rank() == 0 && lacks_library;
  const std::string device =
      fmt::format("device     {}; {}{}\nsums       ", text, mode, tells ? cost_of_own_attention(planned, options) : "");
  if (is_deterministic(options.run)) return device + "in one fixed order (run.deterministic = true)";
  const std::string cost = resources.context.rank() == 0 ? ", for " + cost_of_fixed_order(options, planned) : "";
  return device + "in the fastest order (run.deterministic = false; true repeats a run's bits" + cost + ")";
}

/// Says how many of the first samples' targets the loss counts.
std::string counted_share(const Dataset& data) {
  const Sampler& samples = data.train();
  const std::int64_t looked_at = std::min<std::int64_t>(samples.samples_per_epoch(), 1000);
  std::vector<std::int32_t> row(static_cast<std::size_t>(samples.seq_len()));
  const std::int64_t counted = counted_targets(data.source(), samples, 0, looked_at, row);
  const double share = static_cast<double>(counted) / static_cast<double>(looked_at * samples.seq_len());
  return fmt::format("over {} of the tokens (not over prompts{}{})", format_percent(share),
                     data.source().has_documents() ? ", nor over the first token of a document" : "",
                     samples.packing() != nullptr ? ", nor over padding" : "");
}

/// Says how much of each validation set is evaluated, and when.
std::string evaluation_line(const TrainOptions& train, const PlannedRun& planned, const Dataset& data) {
  std::string line;
  for (const ValidationSet& set : data.validation()) {
    const std::int64_t windows = evaluated_windows(set, planned.schedule.model.batch, train.eval_batches);
    line += fmt::format("{}{} of {}{}{}", line.empty() ? "\nevaluation " : ", ", windows,
                        counted(set.samples.samples_per_epoch(), "sequence"), set.name.empty() ? "" : " of ", set.name);
  }
  if (line.empty() || train.eval_every == 0) return line;
  return line + fmt::format(", every {}", counted(train.eval_every, "step"));
}

/// Says how many documents no sample holds whole. Of a long corpus it looks at the first only, so that it costs little.
std::string long_documents_line(const Dataset& data) {
  constexpr std::int64_t most = std::int64_t{1} << 20;
  const TokenSource& source = data.source();
  const std::int64_t length = data.train().seq_len();
  std::int64_t documents = 0, longer = 0;
  for (std::int64_t begin = 0, end = 0; begin < source.size() && documents < most; begin = end, ++documents) {
    end = source.document_end(begin);
    longer += end - begin > length ? 1 : 0;
  }
  if (longer == 0) return {};
  return fmt::format(
      "\ndocuments  {} of {}{} have more than train.seq_len = {} tokens, so that no sample holds them whole", longer,
      documents == most ? "the first " : "", documents, length);
}

/// Says what packing made of the documents, of each source of a mixture.
std::string packing_line(const Sampler& samples, TooLong rule) {
  std::string line;
  for (const Sampler& one : samples.sources()) line += packing_line(one, rule);
  if (!line.empty()) return line;
  const DocumentPacking& packing = *samples.packing();
  line = fmt::format("\npacking    {} in {} of {}, {} padding", counted(packing.documents(), "document"),
                     counted(packing.samples(), "sample"), counted(packing.seq_len(), "token"),
                     format_percent(packing.padding()));
  if (packing.too_long() > 0)
    line += fmt::format("; {} longer than a sample {} {}", packing.too_long(), packing.too_long() == 1 ? "is" : "are",
                        rule == TooLong::cut ? "cut" : "left out");
  return line;
}

std::string data_line(const Options& options, const PlannedRun& planned, const Dataset& data, const RunLength& length) {
  const StepSchedule& s = planned.schedule;
  const std::int64_t tokens = s.grid.world() * s.policy.accumulation * s.model.tokens();
  std::string line = fmt::format("batch      {} tokens per step: {} x {} x {} x {}", format_count(tokens),
                                 counted(s.grid.world(), "rank"), counted(s.policy.accumulation, "micro-step"),
                                 counted(s.model.batch, "sequence"), counted(s.model.sequence, "token"));
  line += fmt::format("\ndata       {}: {} tokens for training, {} for validation, order {}; {} = {}",
                      data.source().describe(), format_count(data.split().train.count),
                      format_count(data.validation_tokens()), name_of(options.data.order),
                      counted(length.steps(), "step"), epochs_text(data, length.samples()));
  if (const CheckpointOptions& checkpoint = options.checkpoint; checkpoint.keep_best > 0) {
    line += fmt::format("\nbest       {} of lowest validation loss kept; evaluated are those of steps that {} divides",
                        counted(checkpoint.keep_best, "checkpoint"),
                        common_multiple(checkpoint.every, options.train.eval_every));
  }
  line += evaluation_line(options.train, planned, data);
  if (data.masks_loss()) line += "\nloss       " + counted_share(data);
  if (data.train().packing() != nullptr)
    line += packing_line(data.train(), options.data.too_long);
  else if (has_document_mask(options.data))
    line += long_documents_line(data);
  if (const std::string left_out = data.source().skipped(); !left_out.empty()) line += "\nleft out   " + left_out;
  for (const ValidationSet& set : data.validation()) {
    if (set.source != &data.source() && !set.source->skipped().empty())
      line += fmt::format("\nleft out   of {}: {}", set.source->describe(), set.source->skipped());
  }
  return line;
}

}  // namespace

std::string epochs_text(const Dataset& data, std::int64_t samples) {
  if (data.mixture().empty()) return fmt::format("{:.2f} epochs", data.train().epochs_of(0, samples));
  std::string text;
  for (std::size_t i = 0; i < data.mixture().size(); ++i)
    text += fmt::format("{}{} {:.2f} epochs", i > 0 ? ", " : "", data.mixture()[i].name,
                        data.train().epochs_of(i, samples));
  return text;
}

std::string account_before(const Options& options, const PlannedRun& planned, const Dataset& data,
                           const RunLength& length, const Resources& resources, const Player& player,
                           const MachineShape& machine) {
  return model_line(planned) + "\n" + grid_line(planned, resources, machine) + "\n" + strategy_line(options, planned) +
         "\n" + memory_line(planned, resources) + "\n" +
         offloaded_state_line(planned.schedule, resources, machine.machine_ranks) +
         offloaded_inputs_line(options, planned.schedule) + replay_line(options, planned.schedule) +
         activated_line(options, planned.schedule.model) + data_line(options, planned, data, length) + "\n" +
         device_line(options, planned, resources, player);
}

}  // namespace tessera
