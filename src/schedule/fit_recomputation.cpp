#include "tessera/schedule/fit_recomputation.hpp"

#include <array>
#include <optional>

#include "schedule/fit_changes.hpp"

namespace tessera {

namespace {

bool fits(RunShape shape, const Recomputation& recomputation, std::int64_t allowed) {
  shape.policy.recomputation = recomputation;
  const auto bytes = bytes_with({"", shape});
  return bytes && *bytes <= allowed;
}

/// Returns the fewest blocks with which the halves of `halves` fit, by halving the interval: each block more saves
/// memory. Nothing if all blocks do not suffice.
std::optional<Recomputation> fewest_blocks(const RunShape& shape, Recomputation halves, std::int64_t allowed) {
  halves.of = halves.share = shape.architecture.layers;
  if (!fits(shape, halves, allowed)) return std::nullopt;
  std::int64_t too_few = 0;
  while (halves.share - too_few > 1) {
    Recomputation fewer = halves;
    fewer.share = too_few + (halves.share - too_few) / 2;
    if (fits(shape, fewer, allowed)) {
      halves.share = fewer.share;
    } else {
      too_few = fewer.share;
    }
  }
  return halves;
}

}  // namespace

std::int64_t recomputed_flops(const StepSchedule& schedule) {
  std::int64_t flops = 0;
  for (const Play& play : schedule.step) {
    for (const OperationId id : schedule.segments[play.segment].operations()) {
      const Operation& op = schedule.operation(id);
      if (op.kind == OperationKind::recompute) flops += cost_of(schedule, op).flops;
    }
  }
  return flops;
}

Recomputation fitting_recomputation(const RunShape& shape, std::int64_t allowed) {
  if (fits(shape, {}, allowed)) return {};
  Recomputation best = Recomputation::all_blocks();
  std::optional<std::int64_t> least;
  for (const auto [attention, mlp] : {std::array{false, true}, std::array{true, false}, std::array{true, true}}) {
    const auto fewest = fewest_blocks(shape, {attention, mlp, 1, 1, {}}, allowed);
    if (!fewest) continue;
    RunShape with = shape;
    with.policy.recomputation = *fewest;
    const std::int64_t flops = recomputed_flops(plan_shape(with, {false, 0}).schedule);
    if (least && *least <= flops) continue;
    least = flops;
    best = *fewest;
  }
  return best;
}

Options with_fitting_recomputation(Options options, const Architecture& architecture, std::int64_t world,
                                   std::int64_t ranks_per_node, std::int64_t allowed) {
  if (options.memory.checkpoint != ActivationCheckpointing::fit) return options;
  if (allowed <= 0) recomputation_of(options.memory);  // says what is missing
  options.memory.checkpoint = ActivationCheckpointing::none;
  const RunShape shape = run_shape(options, architecture, world, ranks_per_node);
  options.memory = options_of(fitting_recomputation(shape, allowed), options.memory);
  return options;
}

}  // namespace tessera
