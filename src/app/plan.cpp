#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/plan_json.hpp"
#include "app/plan_rows.hpp"
#include "tessera/app/commands.hpp"
#include "tessera/base/counted.hpp"
#include "tessera/base/format.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/schedule/decide_fit.hpp"
#include "tessera/schedule/fit.hpp"
#include "tessera/schedule/print_json.hpp"
#include "tessera/schedule/verify.hpp"
#include "tessera/training/resolve_model.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kUsualNode = 8;

RunShape shape_of(const Options& options) {
  const std::int64_t world = options.plan.ranks;
  const std::int64_t ranks_per_node = planned_ranks_per_node(options, world);
  validate_for_world(options, world, ranks_per_node);
  const Architecture architecture = resolve_architecture(options.model);
  const Options decided = with_fit_decided(options, architecture, world, ranks_per_node, {options.plan.memory, 0});
  return run_shape(decided, architecture, world, ranks_per_node);
}

PlannedRun planned_and_proven(const RunShape& shape) {
  PlannedRun planned = plan_shape(shape);
  require_verified(planned.schedule, planned.plan);
  return planned;
}

std::string model_name(const Options& options) {
  if (!options.model.from.empty()) return options.model.from;
  return options.model.family.empty() ? options.model.preset : options.model.family;
}

/// Says what a GPU does with the outputs of GELU and SwiGLU, for memory may have decided it.
std::string activated_text(const ModelParts& model) {
  if (!model.keeps_activated && !traits_of(model.device).has_own_memory) return "";
  return fmt::format("; outputs of {} {}", model.architecture.mlp == MlpKind::swiglu ? "SwiGLU" : "GELU",
                     model.keeps_activated ? "kept for backward" : "made again in backward");
}

std::string headline(const Options& options, const RunShape& shape, const StepSchedule& schedule) {
  const ModelParts& model = schedule.model;
  const Architecture& a = shape.architecture;
  return fmt::format(
      "{}: {} parameters ({}, width {}, {}, vocabulary {}), {} floating point operations a token\n"
      "{} tokens a step: {} ({} a node) x {} x {} of {}; compute {}, reduce {}{}\n",
      model_name(options), format_count(model.parameter_count()), counted(a.layers, "layer"), a.width,
      counted(a.heads, "head"), a.vocab, format_count(model.training_flops() / model.tokens()),
      format_count(shape.world * shape.policy.accumulation * model.tokens()), counted(shape.world, "rank"),
      shape.ranks_per_node, counted(shape.policy.accumulation, "micro-step"), counted(model.batch, "sequence"),
      model.sequence, name_of(shape.policy.compute), name_of(shape.policy.reduce), activated_text(model));
}

std::string strategy_table(const RunShape& shape) {
  const std::vector<StrategyRow> rows = strategy_rows(shape);
  const bool offloads = std::ranges::any_of(rows, [](const StrategyRow& row) { return copies_in_steps(row.schedule); });
  return "all strategies: memory of a rank at its peak, which adds up to what it allocates (* as chosen)\n" +
         print_strategy_table(rows) + (offloads ? "  host: beside what is allocated on the device\n" : "") +
         fmt::format("  parameters: fp32 masters and copies at rest; optimizer: {}; gathered: unsharded for a while\n",
                     rules_of(shape.policy.optimizer).kept) +
         "  idle: allocated for another time than the peak\n"
         "\nall strategies: each category at its own peak, as ZeRO's formulas count, and what a rank sends\n" +
         print_strategy_peaks(rows);
}

std::string reduction_costs(const RunShape& shape) {
  const std::vector<ReductionRow> rows = reduction_rows(shape);
  if (rows.empty()) return "";
  std::string text = fmt::format("\nshard.reduce under {} micro-steps\n", shape.policy.accumulation);
  for (const ReductionRow& row : rows) {
    text += fmt::format("  {:<10} {} to allocate, {} sent a step, {} of gradient sums{}\n", name_of(row.reduce),
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
    text += fmt::format("  {:<10} {} to allocate, {} less; {} more FLOPs a step ({:.1f}%){}\n",
                        describe(row.recomputation), format_bytes(row.to_allocate), format_bytes(row.bought),
                        format_count(row.flops), 100 * row.share, row.chosen ? " *" : "");
  }
  return text;
}

std::string view_text(const Options& options, const RunShape& shape, const PlannedRun& planned) {
  switch (options.plan.view) {
    case PlanView::schedule:
      return print_schedule(planned.schedule, planned.plan);
    case PlanView::units:
      return print_units(planned.schedule);
    case PlanView::table:
      return strategy_table(shape) + "\n" + describe_grid(planned.schedule) + "\n" +
             print_memory(planned.schedule, planned.plan) + reduction_costs(shape) + recomputation_costs(shape);
  }
  throw InternalError("no such view of a plan");
}

std::string text_of(const Options& options, const RunShape& shape, const PlannedRun& planned) {
  return headline(options, shape, planned.schedule) + "\n" + view_text(options, shape, planned);
}

std::optional<FitAnswer> fit_of(const Options& options, const RunShape& shape, const PlannedRun& planned) {
  if (options.plan.memory == 0) return std::nullopt;
  return examine_fit(shape, planned.schedule, planned.plan, options.plan.memory);
}

/// Returns what is printed before an answer about plan.memory that is text.
std::string output_of(const Options& options, const RunShape& shape, const PlannedRun& planned,
                      const std::optional<FitAnswer>& fit) {
  switch (options.plan.format) {
    case PlanFormat::text:
      return text_of(options, shape, planned);
    case PlanFormat::json:
      return json_text(plan_json(model_name(options), shape, planned, fit)) + "\n";
  }
  throw InternalError("no such format of a plan");
}

}  // namespace

std::int64_t planned_ranks_per_node(const Options& options, std::int64_t world) {
  if (options.grid.ranks_per_node > 0) return options.grid.ranks_per_node;
  std::int64_t ranks = std::min(kUsualNode, world);
  while (world % ranks != 0) --ranks;
  return ranks;
}

std::string plan_text(const Options& options) {
  const RunShape shape = shape_of(options);
  const PlannedRun planned = planned_and_proven(shape);
  return output_of(options, shape, planned, fit_of(options, shape, planned));
}

int run_plan(const Options& options) {
  const RunShape shape = shape_of(options);
  const PlannedRun planned = planned_and_proven(shape);
  const bool is_text = options.plan.format == PlanFormat::text;
  std::optional<FitAnswer> fit;
  if (!is_text) fit = fit_of(options, shape, planned);
  std::fputs(output_of(options, shape, planned, fit).c_str(), stdout);
  std::fflush(stdout);  // before output on stderr, and before a search that takes its time
  if (is_text) fit = fit_of(options, shape, planned);
  if (fit) {
    require_fit(*fit, fmt::format("plan.memory = {}", format_bytes(options.plan.memory)));
    if (is_text) std::fputs(fmt::format("\nplan.memory: {}\n", describe_fit(*fit)).c_str(), stdout);
  }
  return static_cast<int>(ExitCode::finished);
}

}  // namespace tessera
