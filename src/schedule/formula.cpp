// Bytes that each rank sends per step, by strategy (README.md, Strategies): the yardstick for schedules and for bytes
// counted.
#include <algorithm>

#include "tessera/schedule/build.hpp"

namespace tessera {

namespace {

/// Sends (n-1)/n of the padded parameters, exactly: units are multiples of the world.
FormulaTerm term(const StepSchedule& schedule, std::string_view name, std::int64_t times, Group group,
                 std::int64_t elements, DType dtype) {
  const std::int64_t n = schedule.grid.size(group);
  return {name, times, group, elements, dtype, times * (elements / n * (n - 1) * size_of(dtype))};
}

}  // namespace

std::vector<FormulaTerm> formula_terms(const StepSchedule& schedule) {
  if (!schedule.trains()) return {};
  const StrategyRules& rules = rules_of(schedule.strategy);
  const std::int64_t P = schedule.layout.padded_elements(), K = schedule.accumulation;
  // Gradients are summed K times or once, and sent back where the update reads them full.
  const std::int64_t sums = schedule.micro_batches.reduced_each_micro_step ? K : 1;
  const std::int64_t gathers = rules.life == ParameterLife::phase ? 2 * K : 1;
  const std::int64_t in_group = P / schedule.grid.size(rules.inner);
  std::vector<FormulaTerm> terms{
      term(schedule, "sums of gradients", sums, rules.inner, P, schedule.reduce),
      term(schedule, "sums sent back", rules.state == Group::self ? sums : 0, rules.inner, P, schedule.reduce),
      term(schedule, "gathers of parameters", gathers, rules.state, P, schedule.compute),
      term(schedule, "sums over replicas and back", 2, rules.outer, in_group, schedule.reduce)};
  std::erase_if(terms, [](const FormulaTerm& term) { return term.bytes == 0; });
  return terms;
}

std::int64_t formula_wire_bytes(const StepSchedule& schedule) {
  std::int64_t bytes = 0;
  for (const FormulaTerm& term : formula_terms(schedule)) bytes += term.bytes;
  return bytes;
}

}  // namespace tessera
