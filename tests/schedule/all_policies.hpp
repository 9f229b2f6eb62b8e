#pragma once
// Every combination of policies on a toy model, for property tests.

#include <functional>
#include <optional>

#include "sanitized.hpp"
#include "tessera/base/error.hpp"
#include "tessera/schedule/build.hpp"
#include "toy_model.hpp"

namespace tessera::testing {

/// Returns a model of which the units do not train for which `is_frozen` (unit, number of units) says so.
template <class Predicate>
ModelParts with_frozen_units(ModelParts model, const SchedulePolicy& policy, const Predicate& is_frozen) {
  const UnitLayout layout = divide_into_units(model, policy.wrap, policy.min_params, 1);
  for (const UnitId unit : layout.units.ids()) {
    for (const TensorPlace& place : layout.units[unit].tensors)
      model.tensors[place.tensor].trains = !is_frozen(unit, layout.units.size());
  }
  return model;
}

struct PolicyCase {
  SchedulePolicy policy;
  ProcessGrid grid;
  std::int64_t frozen_every = 0;  ///< every so many-th unit does not train; 0: all do

  /// Returns a model of which some units do not train.
  ModelParts with_frozen(ModelParts model) const {
    return with_frozen_units(std::move(model), policy, [this](UnitId unit, std::size_t) {
      return frozen_every > 0 && (unit.number() + 1) % frozen_every == 0;
    });
  }
  /// Returns the schedule of a toy in the policy's type; nothing where the case is not possible.
  std::optional<StepSchedule> schedule_of(ToyShape shape = {}) const try {
    shape.compute = policy.compute;
    return build_schedule(toy_model(shape), grid, policy);
  } catch (const UsageError&) {
    return std::nullopt;
  }
  std::string describe() const {
    return fmt::format(
        "{} {} wrap={} world={} F={} K={} each={} ckpt={} prefetch={}/{} limit={} reshard={} compute={} reduce={} "
        "det={} snapshot={} offload={} of {} in {} sub={} activations={} copies={} adds={} frozen={}",
        name_of(policy.strategy), name_of(policy.optimizer), name_of(policy.wrap), grid.world(),
        grid.size(Group::shard), policy.accumulation, policy.reduce_each_micro_step,
        tessera::describe(policy.recomputation), policy.prefetch.forward, policy.prefetch.backward,
        policy.limit_all_gathers, policy.reshard_after_forward, name_of(policy.compute), name_of(policy.reduce),
        policy.deterministic, policy.snapshot, name_of(policy.offload), policy.offload_fraction, policy.offload_bucket,
        grid.size(Group::sub), policy.offload_activations, policy.keeps_copies, policy.adds_in_backward, frozen_every);
  }
};

/// Calls f for some thousand cases (a quarter under AddressSanitizer), not all of them possible.
inline void for_each_policy(const std::function<void(const PolicyCase&)>& f, int draws = kSanitized ? 6 : 24) {
  std::uint64_t state = 12345;
  auto pick = [&](std::uint64_t n) {
    return (state = state * 6364136223846793005ULL + 1442695040888963407ULL) >> 33 & 0x7fffffff ? (state >> 33) % n : 0;
  };
  for (const StrategyRules& rules : all_strategies()) {
    const Strategy strategy = rules.strategy;
    for (const std::int64_t world : {1, 2, 3, 4, 8}) {
      for (std::int64_t group = 1; group <= world; ++group) {
        if (world % group != 0 || (!rules.is_hybrid() && group != world)) continue;
        for (int draw = 0; draw < draws; ++draw) {
          PolicyCase c;
          c.grid = grid_for(strategy, world, world, group);
          SchedulePolicy& p = c.policy;
          p.strategy = strategy;
          p.wrap = std::array{Wrap::block, Wrap::size, Wrap::model}[pick(3)];
          p.min_params = std::array<std::int64_t, 3>{200, 500, 100000}[pick(3)];
          p.accumulation = std::array<std::int64_t, 6>{1, 2, 3, 4, 5, 9}[pick(6)];
          p.reduce_each_micro_step = pick(2) == 0;
          p.recomputation = {pick(2) == 0, pick(2) == 0, 1 + static_cast<std::int64_t>(pick(2)), 2, {}};
          p.prefetch.forward = static_cast<std::int64_t>(pick(4));
          p.prefetch.backward = static_cast<std::int64_t>(pick(4));
          p.limit_all_gathers = static_cast<std::int64_t>(pick(2) == 0 ? 0 : 2 + pick(2));
          p.reshard_after_forward = pick(3) != 0;
          p.compute = pick(3) == 0 ? DType::bf16 : DType::fp32;
          p.reduce = pick(3) == 0 ? DType::bf16 : DType::fp32;
          pick(3);  // of an option that is gone: later draws stay what they were
          p.deterministic = pick(3) != 0;
          p.snapshot = draw % 3 == 0;
          p.offload = std::array{Offload::none, Offload::none, Offload::optimizer, Offload::params}[pick(4)];
          if (rules.life == ParameterLife::rest && p.offload == Offload::params) p.offload = Offload::optimizer;
          p.offload_fraction = std::array{1.0, 0.5, 0.1}[pick(3)];
          p.offload_bucket = std::array<std::int64_t, 3>{64, 256, 1 << 20}[pick(3)];
          pick(4);  // and of another
          if (life_of(p) == ParameterLife::phase && pick(2) == 0)
            c.grid = grid_for(strategy, world, world, group, group % 2 == 0 ? 2 : group);
          p.offload_activations = pick(2) == 0;
          if (p.offload == Offload::none && pick(3) == 0) p.optimizer = OptimizerName::muon;
          if (c.grid.size(rules.state) == 1 && c.grid.size(Group::sub) == 1 && p.offload == Offload::none)
            p.keeps_copies = pick(2) == 0;
          p.adds_in_backward = !p.deterministic && pick(2) == 0;
          f(c);
        }
      }
    }
  }
}

}  // namespace tessera::testing
