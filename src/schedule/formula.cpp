// Bytes that each rank sends per step, by strategy (README.md, Strategies): the yardstick for schedules and for bytes
// counted.
#include "tessera/schedule/build.hpp"

namespace tessera {

namespace {

/// Returns (n-1)/n of the padded parameters, exactly: units are multiples of the world.
std::int64_t sent(const StepSchedule& schedule, std::int64_t elements, DType dtype, Group group) {
  const std::int64_t n = schedule.grid.size(group);
  return elements / n * (n - 1) * size_of(dtype);
}

}  // namespace

std::int64_t formula_wire_bytes(const StepSchedule& schedule) {
  const StrategyRules& rules = rules_of(schedule.strategy);
  const std::int64_t P = schedule.layout.padded_elements(), K = schedule.accumulation;
  // Gradients are summed K times or once, and sent back where the update reads them full.
  const std::int64_t sums =
      (schedule.micro_batches.reduced_each_micro_step ? K : 1) * (rules.state == Group::self ? 2 : 1);
  const std::int64_t gathers = rules.life == ParameterLife::phase ? 2 * K : 1;
  return sums * sent(schedule, P, schedule.reduce, rules.inner) +
         gathers * sent(schedule, P, schedule.compute, rules.state) +
         2 * sent(schedule, P / schedule.grid.size(rules.inner), schedule.reduce, rules.outer);
}

}  // namespace tessera
