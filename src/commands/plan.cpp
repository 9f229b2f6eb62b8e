#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands/plan_json.hpp"
#include "commands/plan_rows.hpp"
#include "commands/plan_times.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/wrap.hpp"
#include "tessera/checkpoint/near.hpp"
#include "tessera/commands/commands.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/fit/fastest.hpp"
#include "tessera/fit/fit.hpp"
#include "tessera/fit/largest_model.hpp"
#include "tessera/fit/longest.hpp"
#include "tessera/resolve/resolved_run.hpp"
#include "tessera/schedule/print_json.hpp"
#include "tessera/simulate/drawing.hpp"
#include "tessera/simulate/predict.hpp"
#include "tessera/telemetry/progress.hpp"

namespace tessera {

namespace {

std::string plan_memory_text(const Options& options) {
  return fmt::format("plan.memory = {}", format_bytes(options.plan.memory));
}

std::optional<Cluster> cluster_of(const Options& options) {
  if (options.plan.cluster.empty()) return std::nullopt;
  return read_cluster(options.plan.cluster);
}

FitLimits limits_of(const Options& options) { return {options.plan.memory, 0, plan_memory_text(options)}; }

ResolvedRun resolved(const Options& options) {
  return ResolvedRun(options, {Purpose::plan, options.plan.ranks, limits_of(options)});
}

std::string model_name(const Options& options) {
  if (!options.model.from.empty()) return options.model.from;
  return options.model.family.empty() ? options.model.preset : options.model.family;
}

/// States how the outputs of the MLP's activation are handled: a GPU's memory may have decided it.
std::string activated_text(const ModelParts& model) {
  if (model.mlp_chunk > 0) return fmt::format("; MLPs in chunks of {} tokens", model.mlp_chunk);
  if (!model.keeps_activated && !traits_of(model.device).has_own_memory) return "";
  return fmt::format("; outputs of {} {}", name_of(model.architecture.mlp),
                     model.keeps_activated ? "kept for backward" : "made again in backward");
}

/// Says what of a model with adapters trains, and what that saves.
std::string adapters_text(const RunShape& shape, const PlannedRun& planned) {
  const std::string adapters = describe_adapters(planned.schedule.model);
  if (adapters.empty()) return "";
  const std::int64_t saved = saved_by_freezing(shape, planned);  // below 0 where the host has all other state
  return fmt::format("adapters: {}; {} bytes per rank to allocate, {} {} than where all weights train\n", adapters,
                     limited_bytes(planned), std::abs(saved), saved < 0 ? "more" : "less");
}

/// Says what a plan assumes of a corpus that it does not read.
std::string documents_text(const DataOptions& data, const ModelParts& model) {
  if (model.most_documents > 0) {
    return fmt::format("documents: attention by cuDNN for up to {} of a micro-batch ({})\n", model.most_documents,
                       data.most_documents > 0
                           ? fmt::format("data.most_documents = {}", data.most_documents)
                           : "assumed; a run counts them, and data.most_documents says another number");
  }
  if (data.document_mask != Tristate::automatic || packs_documents(data) || data.source == "synthetic") return "";
  return "documents: planned for data.document_mask = false; auto is true where the corpus has prompts or "
         "conversations\n";
}

std::string headline(const ResolvedRun& run, const std::optional<RunCost>& length) {
  const std::string decided = describe_decisions(run.decisions);
  const std::int64_t every = run.options.run.replay_every;
  const RunShape& shape = run.shape;
  const ModelParts& model = run.planned.schedule.model;
  return fmt::format(
             "{}: {} parameters ({}), {} floating point operations per token\n"
             "{} tokens per step: {} ({} per node) x {} x {} of {}; compute {}, reduce {}{}{}\n",
             model_name(run.options), format_count(model.parameter_count()), describe(shape.architecture),
             format_count(model.training_flops() / model.tokens()),
             format_count(shape.world * shape.policy.accumulation * model.tokens()), counted(shape.world, "rank"),
             shape.ranks_per_node, counted(shape.policy.accumulation, "micro-step"), counted(model.batch, "sequence"),
             model.sequence, name_of(shape.policy.compute), name_of(shape.policy.reduce),
             model.fp8 ? ", " + describe_fp8(model) : "", activated_text(model)) +
         adapters_text(shape, run.planned) + (length ? describe(*length) + "\n" : "") +
         (decided.empty() ? "" : fmt::format("resolved: {}\n", decided)) + documents_text(run.options.data, model) +
         (every == 0 ? "" : fmt::format("replay: {}\n", describe_replays(run.planned.schedule, every)));
}

/// Says which rows do not fit, and which are another's.
std::string remarks_on(const std::vector<StrategyRow>& rows, std::int64_t memory) {
  std::string too_large, repeat, repeated;
  for (const StrategyRow& row : rows) {
    const auto add = [](std::string& list, std::string_view name) {
      list += (list.empty() ? "" : ", ") + std::string(name);
    };
    if (row.impossible.empty() && row.repeats.empty() && !fits(row, memory)) add(too_large, name_of(row.strategy));
    if (!row.repeats.empty()) add(repeat, name_of(row.strategy)), add(repeated, row.repeats);
  }
  return (too_large.empty() ? "" : fmt::format("  does not fit in {}: {}\n", format_bytes(memory), too_large)) +
         (repeat.empty() ? "" : fmt::format("  as {} in one shard group of all ranks: {}\n", repeated, repeat));
}

std::string strategy_table(const RunShape& shape, const std::vector<StrategyRow>& rows, std::int64_t memory) {
  const bool offloads = std::ranges::any_of(rows, [](const StrategyRow& row) { return copies_in_steps(row.schedule); });
  return "all strategies: memory per rank at the peak, which adds up to what it allocates (* as chosen)\n" +
         print_strategy_table(rows) + remarks_on(rows, memory) +
         (offloads ? "  host: in addition to what is allocated on the device\n" : "") +
         fmt::format("  parameters: fp32 masters and copies at rest; optimizer: {}; gathered: unsharded for a while\n",
                     rules_of(shape.policy.optimizer).kept) +
         "  idle: allocated for another time than the peak\n"
         "\nall strategies: each category at its own peak, as ZeRO's formulas count, and what each rank sends\n" +
         print_strategy_peaks(rows);
}

std::string reduction_costs(const RunShape& shape) {
  const std::vector<ReductionRow> rows = reduction_rows(shape);
  if (rows.empty()) return "";
  std::string text = fmt::format("\nshard.reduce under {} micro-steps\n", shape.policy.accumulation);
  for (const ReductionRow& row : rows) {
    text += fmt::format("  {:<10} {} to allocate, {} sent per step, {} of gradient sums{}\n", name_of(row.reduce),
                        format_bytes(row.to_allocate), format_bytes(row.wire_bytes), format_bytes(row.accumulators),
                        row.chosen ? " *" : "");
  }
  return text;
}

std::string recomputation_costs(const RunShape& shape) {
  const std::vector<RecomputationRow> rows = recomputation_rows(shape);
  std::string text =
      "\nmemory.checkpoint: what is computed again in backward, memory that this buys, FLOPs that it pays\n";
  for (const RecomputationRow& row : rows) {
    text += fmt::format("  {:<10} {} to allocate, {} less; {} more FLOPs per step ({:.1f}%){}\n",
                        describe(row.recomputation), format_bytes(row.to_allocate), format_bytes(row.bought),
                        format_count(row.flops), 100 * row.share, row.chosen ? " *" : "");
  }
  return text;
}

/// A run to plan: as asked, with what a cluster's file adds, and resolved.
struct Planning {
  explicit Planning(const Options& options)
      : cluster(cluster_of(options)),
        asked(cluster ? on_cluster(options, *cluster, options.plan.ranks) : options),
        run(resolved(asked)) {}

  const Cluster& prices() const {
    if (cluster) return *cluster;
    throw refuse("plan.view", asked.plan.view == PlanView::fit ? "fit" : "timeline")
        .because("it needs the prices of a machine")
        .hint("Give plan.cluster = FILE, one of inputs/clusters or what tessera bench calibrate writes");
  }
  FitSearch search() const {
    Options options = asked;
    if (options.train.seq_len == kFittingLength) options.train.seq_len = run.options.train.seq_len;
    return search_fit(options, run.shape, prices(), searched_options(options));
  }
  Timeline timeline() const { return predict(run.planned.schedule, run.planned.plan, run.options, prices()).timeline; }
  /// Returns the prices if the view shows times of the run itself; these may lack what it does not need.
  std::optional<Cluster> timed_cluster() const {
    const PlanView view = asked.plan.view;
    return view == PlanView::table || view == PlanView::timeline ? cluster : std::nullopt;
  }
  /// Returns the longest samples by strategy, if memory decides their length.
  std::vector<LongestRow> longest() const {
    if (asked.train.seq_len != kFittingLength) return {};
    Options options = asked;
    options.run.device = run.options.run.device;
    return longest_sequences(options, run, limits_of(asked));
  }
  /// Returns whether the run itself must fit plan.memory, and not what a view finds instead.
  bool is_judged() const { return asked.plan.view != PlanView::fit && asked.plan.view != PlanView::largest; }

  std::optional<Cluster> cluster;
  Options asked;
  ResolvedRun run;
};

/// States the memory of a node that copies of checkpoints take (checkpoint.keep_near).
std::string near_text(const Options& options, const StepSchedule& schedule) {
  if (options.checkpoint.keep_near != "auto") return "";
  const std::int64_t bytes =
      most_bytes_near(tensor_records(schedule.model.tensors, schedule.policy.optimizer, schedule.policy.moments),
                      schedule.grid.ranks_per_node(), schedule.grid.world());
  return fmt::format("  on the host of a node, for two checkpoints near: {} (checkpoint.keep_near = auto)\n",
                     format_bytes(bytes));
}

std::string view_text(const Planning& planning) {
  const auto& [cluster, asked, run] = planning;
  const auto& [schedule, plan] = run.planned;
  switch (run.options.plan.view) {
    case PlanView::timeline: {
      const Timeline timeline = planning.timeline();
      return fmt::format("a step of {}, predicted with {} ({})\n{}", format_seconds(timeline.seconds), cluster->file,
                         cluster->name, draw_timeline(schedule, timeline, terminal_width(stdout)));
    }
    case PlanView::fit:
      return fit_search_text(planning.search(), asked);
    case PlanView::largest:
      return largest_text(largest_models(run.shape, asked), run.architecture, run.options.plan.memory);
    case PlanView::schedule:
      return print_schedule(schedule, plan);
    case PlanView::units:
      return print_units(schedule);
    case PlanView::table: {
      const std::vector<StrategyRow> rows = strategy_rows(run.shape, run.options);
      const std::vector<LongestRow> longest = planning.longest();
      return (longest.empty() ? "" : longest_text(longest, asked.plan.memory) + "\n") +
             strategy_table(run.shape, rows, run.options.plan.memory) + "\n" +
             (cluster ? strategy_times(run.options, rows, *cluster) + "\n" : "") + describe_grid(schedule) + "\n" +
             print_memory(schedule, plan) + near_text(run.options, schedule) + reduction_costs(run.shape) +
             recomputation_costs(run.shape);
    }
  }
  throw InternalError("no such view of a plan");
}

std::optional<FitAnswer> fit_of(const ResolvedRun& run) {
  const std::int64_t memory = run.options.plan.memory;
  if (memory == 0) return std::nullopt;
  return examine_fit(run.shape, run.planned.schedule, run.planned.plan, memory);
}

/// Returns the document, with what a view adds to it.
nlohmann::ordered_json document_of(const Planning& planning, const std::optional<FitAnswer>& fit) {
  const ResolvedRun& run = planning.run;
  nlohmann::ordered_json json = plan_json(model_name(run.options), run, planning.cluster, fit);
  if (run.options.plan.view == PlanView::timeline)
    json["timeline"] = timeline_json(run.planned.schedule, planning.timeline());
  if (run.options.plan.view == PlanView::fit) json["fit"].update(fit_search_json(planning.search(), planning.asked));
  if (run.options.plan.view == PlanView::largest)
    json["largest"] =
        largest_json(largest_models(run.shape, planning.asked), run.architecture, run.options.plan.memory);
  if (const auto longest = planning.longest(); !longest.empty()) json["longest"] = longest_json(longest);
  return json;
}

/// Returns the output that precedes an answer about plan.memory given as text.
std::string output_of(const Planning& planning, const std::optional<FitAnswer>& fit) {
  switch (planning.asked.plan.format) {
    case ResultFormat::text: {
      const std::string head = headline(planning.run, planned_cost(planning.run, planning.timed_cluster()));
      const bool is_narrow = planning.asked.plan.view == PlanView::fit;
      return (is_narrow ? wrapped(head, 2, kFitWidth) : head) + "\n" + view_text(planning);
    }
    case ResultFormat::json:
      return json_text(document_of(planning, fit)) + "\n";
  }
  throw InternalError("no such format of a plan");
}

}  // namespace

int run_plan(Options options, const std::filesystem::path& input) {
  const auto ranks = options.is_given("plan.ranks") ? std::nullopt : ranks_of_run(input);
  if (ranks) {
    options.plan.ranks = *ranks;
    if (options.plan.format == ResultFormat::text) {
      Log(0, 1).info(fmt::format("planned for {}, as many as {} had (--plan.ranks=N plans for others)\n",
                                 counted(*ranks, "rank"), input.string()));
    }
  }
  const Planning planning(options);
  const bool is_text = options.plan.format == ResultFormat::text;
  std::optional<FitAnswer> fit;
  if (!is_text) fit = fit_of(planning.run);
  std::fputs(output_of(planning, fit).c_str(), stdout);
  std::fflush(stdout);  // before output on stderr, and before a search that may take long
  if (!planning.is_judged()) return static_cast<int>(ExitCode::finished);
  if (is_text) fit = fit_of(planning.run);
  if (fit) {
    require_fit(*fit, plan_memory_text(planning.asked));
    if (is_text) std::fputs(fmt::format("\nplan.memory: {}\n", describe_fit(*fit)).c_str(), stdout);
  }
  return static_cast<int>(ExitCode::finished);
}

}  // namespace tessera
