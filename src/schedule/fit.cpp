#include "tessera/schedule/fit.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include "tessera/base/format.hpp"
#include "tessera/schedule/print.hpp"

namespace tessera {

namespace {

/// A quick plan: without the search for the last percent, so that what it promises holds for the full plan too.
std::int64_t bytes_needed(const RunShape& shape) {
  const PlannedRun planned = plan_shape(shape, {false, 0});
  return limited_bytes(planned.schedule, planned.plan);
}

/// A changed option and the run with it.
struct Change {
  std::string option;
  RunShape shape;
};

/// Strategies that leave less on a rank, in the order of what they send more.
std::vector<Strategy> that_shard_more(Strategy strategy) {
  switch (strategy) {
    case Strategy::ddp:
      return {Strategy::zero1, Strategy::zero2, Strategy::zero3};
    case Strategy::zero1:
      return {Strategy::zero2, Strategy::zero3};
    case Strategy::zero2:
      return {Strategy::zero3};
    case Strategy::hsdp_zero2:
      return {Strategy::hsdp, Strategy::zero2, Strategy::zero3};
    case Strategy::hsdp:
      return {Strategy::zero3};
    case Strategy::zero3:
      return {};
  }
  return {};
}

/// The largest smaller micro-batch that fits, by halving the interval (memory grows with the micro-batch); 1 if none
/// does.
std::int64_t largest_micro_batch(RunShape shape, std::int64_t allowed) {
  std::int64_t fits = 0, too_large = shape.micro_batch;
  while (too_large - fits > 1) {
    shape.micro_batch = fits + (too_large - fits) / 2;
    (bytes_needed(shape) <= allowed ? fits : too_large) = shape.micro_batch;
  }
  return std::max<std::int64_t>(1, fits);
}

/// What may be changed about a run, in the order of what it costs.
std::vector<Change> possible_changes(const RunShape& shape, std::int64_t allowed) {
  std::vector<Change> changes;
  auto add = [&](const std::string& option, const std::function<void(RunShape&)>& change) {
    changes.push_back({option, shape});
    change(changes.back().shape);
  };
  if (shape.policy.snapshot && shape.device == DeviceKind::cpu) {
    add("checkpoint.async=false", [](RunShape& s) { s.policy.snapshot = false; });
  }
  if (!shape.policy.checkpoint_blocks) {
    add("memory.checkpoint=block", [](RunShape& s) { s.policy.checkpoint_blocks = true; });
  }
  if (shape.world > 1) {
    for (const Strategy strategy : that_shard_more(shape.policy.strategy)) {
      add(fmt::format("shard.strategy={}", name_of(strategy)), [&](RunShape& s) { s = with_strategy(s, strategy); });
    }
  }
  if (shape.micro_batch > 1) {
    const std::int64_t micro_batch = largest_micro_batch(shape, allowed);
    add(fmt::format("train.micro_batch={}", micro_batch), [&](RunShape& s) { s.micro_batch = micro_batch; });
  }
  if (shape.policy.compute == DType::fp32) {
    add("precision.compute=bf16", [](RunShape& s) { s.policy.compute = DType::bf16; });
  }
  return changes;
}

/// Bytes with a change, or nothing where it is impossible beside the other options.
std::optional<std::int64_t> bytes_with(const Change& change) {
  try {
    return bytes_needed(change.shape);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

/// Where no single change is enough: the one that saves most, then the next on top of it, and so on.
void combine(const RunShape& shape, FitAnswer& answer) {
  RunShape now = shape;
  std::int64_t bytes = answer.needed;
  std::string options;
  while (bytes > answer.allowed) {
    std::optional<Change> best;
    for (Change& change : possible_changes(now, answer.allowed)) {
      const auto with = bytes_with(change);
      if (!with || *with >= bytes) continue;
      // A change that is enough is the last one, and the first of those costs least.
      const bool is_enough = *with <= answer.allowed;
      bytes = *with;
      best = std::move(change);
      if (is_enough) break;
    }
    if (!best) break;
    options += (options.empty() ? "" : " with ") + best->option;
    now = best->shape;
  }
  const std::string text = fmt::format("{} ({})", options, format_bytes(bytes));
  if (!options.empty()) (bytes <= answer.allowed ? answer.together : answer.smallest) = text;
}

}  // namespace

RunShape run_shape(const Options& options, const Architecture& architecture, std::int64_t sequence, std::int64_t world,
                   std::int64_t ranks_per_node) {
  RunShape shape;
  shape.architecture = architecture;
  shape.micro_batch = options.train.micro_batch;
  shape.sequence = sequence;
  shape.world = world;
  shape.ranks_per_node = ranks_per_node;
  shape.group_size = options.shard.group_size;
  shape.policy = policy_from(options);
  shape.device = options.run.device == DeviceChoice::cuda ? DeviceKind::cuda : DeviceKind::cpu;
  shape.reduce_by_strategy = options.shard.reduce == ReduceWhen::by_strategy;
  return shape;
}

PlannedRun plan_shape(const RunShape& shape, const MemoryPlanOptions& options) {
  const GridShape grid = grid_for(shape.policy.strategy, shape.world, shape.ranks_per_node, shape.group_size);
  const ModelParts model = declare_parts(shape.architecture, shape.micro_batch, shape.sequence, shape.policy.compute,
                                         shape.policy.reduce, shape.device);
  PlannedRun run{build_schedule(model, grid, shape.policy), {}};
  run.plan = plan_memory(run.schedule, options);
  return run;
}

RunShape with_strategy(RunShape shape, Strategy strategy) {
  shape.policy.strategy = strategy;
  if (shape.reduce_by_strategy) {
    shape.policy.reduce_each_micro_step = resolved_reduce(ReduceWhen::by_strategy, strategy) == ReduceWhen::micro_step;
  }
  return shape;
}

FitAnswer examine_fit(const RunShape& shape, const StepSchedule& schedule, const MemoryPlan& plan,
                      std::int64_t allowed) {
  FitAnswer answer;
  answer.needed = limited_bytes(schedule, plan);
  answer.allowed = allowed;
  answer.peak = describe_operation(schedule, plan.at(Place::device).peak_operation);
  if (answer.fits()) return answer;

  for (const Change& change : possible_changes(shape, allowed)) {
    const auto bytes = bytes_with(change);
    if (bytes && *bytes <= allowed) answer.changes.push_back({change.option, *bytes});
  }
  if (answer.changes.empty()) combine(shape, answer);
  return answer;
}

FitAnswer examine_fit(const RunShape& shape, std::int64_t allowed) {
  const PlannedRun planned = plan_shape(shape);
  return examine_fit(shape, planned.schedule, planned.plan, allowed);
}

std::string describe_fit(const FitAnswer& answer) {
  std::string text =
      fmt::format("needs {} a rank, {} allowed", format_bytes(answer.needed), format_bytes(answer.allowed));
  if (answer.fits()) return text + fmt::format(": fits, {} to spare", format_bytes(answer.allowed - answer.needed));
  text += fmt::format(": {} too much (peak at {}). ", format_bytes(answer.needed - answer.allowed), answer.peak);
  if (answer.changes.empty()) {
    if (!answer.together.empty()) return text + "No single option makes it fit; would fit: " + answer.together;
    if (!answer.smallest.empty()) text += "The least it can do with is " + answer.smallest + "; ";
    return text + "more ranks, a shorter train.seq_len or a smaller model would help";
  }
  text += "Would fit: ";
  for (std::size_t i = 0; i < answer.changes.size(); ++i) {
    text +=
        fmt::format("{}{} ({})", i == 0 ? "" : ", ", answer.changes[i].option, format_bytes(answer.changes[i].bytes));
  }
  return text;
}

void require_fit(const FitAnswer& answer, const std::string& limit_name) {
  if (!answer.fits()) throw UsageError("{} (the run does not fit in it): {}", limit_name, describe_fit(answer));
}

}  // namespace tessera
