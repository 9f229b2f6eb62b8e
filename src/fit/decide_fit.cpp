#include "tessera/fit/decide_fit.hpp"

#include <array>
#include <optional>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/fit/search.hpp"
#include "tessera/schedule/formula.hpp"

namespace tessera {

namespace {

bool fits(RunShape shape, const Recomputation& recomputation, const FitLimits& limits) {
  shape.policy.recomputation = recomputation;
  try {
    const PlannedRun run = plan_shape(shape, kQuickPlan);
    return limited_bytes(run) <= limits.device &&
           (limits.machine == 0 || machine_bytes(run.schedule, run.plan) <= limits.machine);
  } catch (const UsageError&) {  // impossible with the other options
    return false;
  }
}

/// Returns the fewest blocks with which the halves of `halves` fit: each additional block saves memory of the device.
/// Nothing if all blocks do not suffice. An additional block may take memory of the machine
/// (memory.offload_activations), so that is checked last.
std::optional<Recomputation> fewest_blocks(const RunShape& shape, Recomputation halves, const FitLimits& limits) {
  const FitLimits of_device{limits.device, 0};
  halves.of = halves.share = shape.architecture.layers;
  if (!fits(shape, halves, of_device)) return std::nullopt;
  halves.share = last_that_fits(halves.share, 0, [&](std::int64_t blocks) {
    Recomputation fewer = halves;
    fewer.share = blocks;
    return fits(shape, fewer, of_device);
  });
  if (!fits(shape, halves, limits)) return std::nullopt;
  return halves;
}

}  // namespace

std::int64_t recomputed_flops(const StepSchedule& schedule) {
  std::int64_t flops = 0;
  for (const Play& play : schedule.step) {
    for (const OperationId id : schedule.segments[play.segment].operations()) {
      const Operation& op = schedule.operation(id);
      if (op.kind == OperationKind::recompute) flops += cost_of(schedule, op).flops;
      if (op.kind == OperationKind::backward && schedule.part(op.part).chunk > 0)
        flops += schedule.part(op.part).recompute.flops;
    }
  }
  return flops;
}

Recomputation fitting_recomputation(const RunShape& shape, const FitLimits& limits) {
  if (fits(shape, {}, limits)) return {};
  Recomputation best = Recomputation::all_blocks();
  std::optional<std::int64_t> least;
  for (const auto [attention, mlp] : {std::array{false, true}, std::array{true, false}, std::array{true, true}}) {
    const auto fewest = fewest_blocks(shape, {.attention = attention, .mlp = mlp, .listed = {}}, limits);
    if (!fewest) continue;
    RunShape with = shape;
    with.policy.recomputation = *fewest;
    const std::int64_t flops = recomputed_flops(plan_shape(with, kQuickPlan).schedule);
    if (least && *least <= flops) continue;
    least = flops;
    best = *fewest;
  }
  return best;
}

double least_offload(RunShape shape, std::int64_t allowed) {
  shape.policy.offload_fraction = 0;
  const PlannedRun none = plan_shape(shape, kQuickPlan);
  if (limited_bytes(none) <= allowed) return 0;
  const UnitLayout& layout = none.schedule.layout;
  const auto fraction_of = [&](std::int64_t units) {
    std::int64_t elements = 0;
    for (UnitId unit = layout.units.end_id() - units; unit < layout.units.end_id(); ++unit)
      elements += layout.units[unit].trains ? layout.units[unit].padded : 0;
    return static_cast<double>(elements) / static_cast<double>(layout.trained_elements());
  };
  return fraction_of(last_that_fits(std::ssize(layout.units), 0, [&](std::int64_t units) {
    shape.policy.offload_fraction = fraction_of(units);
    return limited_bytes(plan_shape(shape, kQuickPlan)) <= allowed;
  }));
}

namespace {

bool may_drop_activated(const Options& options) {
  return options.memory.keep_activated == Tristate::automatic && keeps_activated(options) &&
         !is_deterministic(options.run);
}

void require_limit(const char* option, const FitLimits& limits) {
  if (limits.device > 0) return;
  throw refuse(option, "fit")
      .because("there is no memory limit to decide by")
      .hint("Give plan.memory, or use another value");
}

/// Returns whether memory may send the inputs of recomputed blocks to the host, which must be another memory.
bool may_offload_inputs(const Options& options, const Architecture& architecture) {
  return options.memory.checkpoint == ActivationCheckpointing::fit && options.is_open("memory.offload_activations") &&
         traits_of(device_of(options.run)).has_own_memory &&
         inputs_to_offload(Recomputation::all_blocks(), architecture.layers) > 0;
}

Options with_values_of_fit(Options options, const RunSite& site, const FitLimits& limits) {
  if (!has_fit(options)) return options;
  require_limit(options.shard.offload_fraction.fits ? "shard.offload_fraction" : "memory.checkpoint", limits);
  const bool fits_recomputation = options.memory.checkpoint == ActivationCheckpointing::fit;
  const bool may_offload = may_offload_inputs(options, site.architecture);
  if (fits_recomputation) options.memory.checkpoint = ActivationCheckpointing::none;
  const auto shape = [&] { return run_shape(options, site); };
  if (std::exchange(options.shard.offload_fraction.fits, false))
    options.shard.offload_fraction.value = least_offload(shape(), limits.device);
  if (fits_recomputation) {
    Recomputation fitting = fitting_recomputation(shape(), limits);
    if (may_offload && !fits(shape(), fitting, limits)) {
      options.memory.offload_activations = true;
      const Recomputation offloading = fitting_recomputation(shape(), limits);
      options.memory.offload_activations = fits(shape(), offloading, limits);
      if (options.memory.offload_activations) fitting = offloading;
    }
    options.memory = options_of(fitting, options.memory);
    if (inputs_to_offload(fitting, site.architecture.layers) == 0) options.memory.offload_activations = false;
  }
  return options;
}

}  // namespace

Options least_options(Options options, const Architecture& architecture) {
  if (options.memory.checkpoint == ActivationCheckpointing::fit) {
    options.memory.checkpoint = ActivationCheckpointing::block;
    if (inputs_to_offload(Recomputation::all_blocks(), architecture.layers) == 0)
      options.memory.offload_activations = false;
  }
  if (options.shard.offload_fraction.fits) options.shard.offload_fraction = {};
  if (may_drop_activated(options)) options.memory.keep_activated = Tristate::no;
  return options;
}

std::int64_t longest_sequence(const Options& options, const RunSite& site, const FitLimits& limits) {
  require_limit("train.seq_len", limits);
  constexpr std::int64_t kStep = 64;
  const auto length = [&](std::int64_t steps) { return std::min(steps * kStep, site.architecture.context); };
  const bool may_offload = may_offload_inputs(options, site.architecture);
  const auto fits_with = [&](std::int64_t steps) {
    Options least = least_options(options, site.architecture);
    least.train.seq_len = length(steps);
    const auto fits_now = [&] {
      const RunShape shape = run_shape(least, site);
      return fits(shape, shape.policy.recomputation, limits);
    };
    return fits_now() || (may_offload && (least.memory.offload_activations = true) && fits_now());
  };
  const std::int64_t most = ceil_div(site.architecture.context, kStep);
  if (fits_with(most)) return site.architecture.context;
  return length(std::max<std::int64_t>(1, last_that_fits(0, most, fits_with)));
}

bool has_fit(const Options& options) {
  return options.shard.offload_fraction.fits || options.memory.checkpoint == ActivationCheckpointing::fit ||
         options.train.seq_len == kFittingLength;
}

bool is_decided_by_memory(const Options& options) { return has_fit(options) || may_drop_activated(options); }

Options with_fit_decided(Options options, const RunSite& site, const FitLimits& limits) {
  if (!may_drop_activated(options)) return with_values_of_fit(options, site, limits);
  options.memory.keep_activated = Tristate::no;
  options = with_values_of_fit(options, site, limits);
  Options keeping = options;
  keeping.memory.keep_activated = Tristate::automatic;
  const RunShape shape = run_shape(keeping, site);
  if (limits.device <= 0 || !shape.policy.keeps_activated) return keeping;
  keeping.memory.keep_activated = Tristate::yes;  // so that a restart does not decide again
  return fits(shape, shape.policy.recomputation, limits) ? keeping : options;
}

RunShape with_copies_kept(RunShape shape, const Options& options, const std::function<FitLimits()>& limits) {
  SchedulePolicy& policy = shape.policy;
  const auto& reshard = options.shard.reshard_after_forward;
  const ProcessGrid grid = grid_for(policy.strategy, shape.world, shape.ranks_per_node, shape.group_size);
  if (reshard.drops && options.is_given("shard.reshard_after_forward")) return shape;
  if (grid.size(rules_of(policy.strategy).state) != 1 || life_of(policy) == ParameterLife::rest) return shape;
  if (policy.compute == DType::fp32 || policy.offload != Offload::none) return shape;
  const FitLimits all = limits();
  policy.keeps_copies = true;
  policy.keeps_copies = all.device <= 0 || fits(shape, policy.recomputation, all);
  return shape;
}

}  // namespace tessera
