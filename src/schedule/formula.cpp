// Bytes that each rank sends per step, by strategy (README.md, Strategies): the yardstick for schedules and for counted
// bytes.

#include "tessera/schedule/formula.hpp"

#include "tessera/base/math.hpp"

namespace tessera {

namespace {

/// Sends (n-1)/n of the padded parameters, exactly: units are multiples of the world.
FormulaTerm term(const StepSchedule& schedule, std::string_view name, std::int64_t times, Group group,
                 std::int64_t elements, DType dtype) {
  const std::int64_t n = schedule.grid.size(group);
  return {name, times, group, elements, dtype, times * (elements / n * (n - 1) * size_of(dtype))};
}

/// Returns the elements of one member's even share of all matrices that have owners.
std::int64_t even_share(const StepSchedule& schedule, std::int64_t members) {
  std::int64_t elements = 0;
  for (const UnitOwners& unit : schedule.owners) {
    for (const OwnedTensor& owned : unit.tensors) elements += schedule.model.tensors[owned.tensor].elements;
  }
  return ceil_div(elements, members);
}

}  // namespace

std::vector<FormulaTerm> formula_terms(const StepSchedule& schedule) {
  if (!schedule.trains()) return {};
  const StrategyRules& rules = rules_of(schedule.policy.strategy);
  const std::int64_t K = schedule.policy.accumulation;
  const std::int64_t trained = schedule.layout.trained_elements();  // only these have gradients and are updated
  std::int64_t P = 0, codes = 0;                                    // gathered in the compute type, and in fp8
  for (const UnitId id : schedule.layout.units.ids()) {
    const Unit& unit = schedule.unit(id);
    if (!unit.trains && rules.life == ParameterLife::rest) continue;
    (schedule.gathered_type(id) == schedule.policy.compute ? P : codes) += unit.padded;
  }
  // Gradients are summed K times or once, and sent back where the update reads them full.
  const std::int64_t sums = schedule.policy.reduce_each_micro_step ? K : 1;
  const bool slices = schedule.grid.size(Group::sub) > 1;  // one gather for forward, and one of slices for backward
  const std::int64_t phases = slices ? 1 : 2;
  const std::int64_t gathers = rules.life == ParameterLife::phase ? phases * K : 1;
  const std::int64_t in_group = trained / schedule.grid.size(rules.inner);
  const std::int64_t matrices = even_share(schedule, schedule.grid.size(rules.state));
  std::vector<FormulaTerm> terms{
      term(schedule, "sums of gradients", sums, rules.inner, trained, schedule.policy.reduce),
      term(schedule, "sums sent back", rules.state == Group::self ? sums : 0, rules.inner, trained,
           schedule.policy.reduce),
      term(schedule, "gathers of parameters", gathers, rules.state, P, schedule.policy.compute),
      term(schedule, "gathers of weights in fp8", gathers, rules.state, codes, DType::e4m3),
      term(schedule, "gathers of slices", slices ? K : 0, Group::sub, P, schedule.policy.compute),
      term(schedule, "gathers of slices in fp8", slices ? K : 0, Group::sub, codes, DType::e4m3),
      term(schedule, "sums over replicas and back", 2, rules.outer, in_group, schedule.policy.reduce),
      term(schedule, kMatricesTerm, 2, rules.state, matrices, DType::fp32)};
  std::erase_if(terms, [](const FormulaTerm& term) { return term.bytes == 0; });
  return terms;
}

OffloadAccount offload_account(const StepSchedule& schedule) {
  const StrategyRules& rules = rules_of(schedule.policy.strategy);
  const std::int64_t ranks = schedule.grid.size(rules.state);
  const std::int64_t states = rules_of(schedule.policy.optimizer).states(),
                     state = size_of(DType::fp32) + states * size_of(schedule.policy.moments),
                     compute = size_of(schedule.policy.compute);
  const bool is_cast = schedule.policy.compute != DType::fp32;
  OffloadAccount account;
  for (const UnitId unit : schedule.layout.units.ids()) {
    const std::int64_t share = schedule.unit(unit).share(ranks);
    if (schedule.unit(unit).trains) account.of += share;
    if (!schedule.is_offloaded(unit)) continue;
    account.elements += share;
    // A copy in the compute type stays on the device for gathers, but not beside full parameters that always stay.
    const bool is_made = schedule.gathered_type(unit) != DType::fp32 || ranks > 1;
    const bool stays_anyhow = rules.life == ParameterLife::rest && is_made;
    const bool loaded_to_gather = schedule.policy.offload == Offload::params;
    account.on_host += share * (state + (loaded_to_gather && is_cast ? compute : 0));
    account.off_device += share * (state - (loaded_to_gather || stays_anyhow ? 0 : compute));
  }
  if (account.elements > 0)
    account.gradients =
        account.elements * size_of(schedule.value(schedule.state[schedule.offloaded_from].gradient).dtype());
  return account;
}

std::vector<FormulaTerm> copy_terms(const StepSchedule& schedule) {
  const std::int64_t elements = offload_account(schedule).elements;
  if (elements == 0) return {};
  std::vector<FormulaTerm> terms;
  const auto copies = [&](std::string_view name, std::int64_t times, std::int64_t of, DType dtype) {
    if (of > 0) terms.push_back({name, times, Group::self, of, dtype, times * of * size_of(dtype)});
  };
  copies("gradients to the host", 1, elements,
         schedule.value(schedule.state[schedule.offloaded_from].gradient).dtype());
  // Parameters are copied back once a step, or for each gather that does not start from slices.
  const StrategyRules& rules = rules_of(schedule.policy.strategy);
  const bool each_gather = schedule.policy.offload == Offload::params && rules.life == ParameterLife::phase;
  const std::int64_t phases = schedule.grid.size(Group::sub) > 1 ? 1 : 2;
  copies("parameters to the device", each_gather ? phases * schedule.policy.accumulation : 1, elements,
         schedule.policy.compute);
  return terms;
}

std::int64_t formula_wire_bytes(const StepSchedule& schedule) { return bytes_of(formula_terms(schedule)); }

std::int64_t bytes_of(const std::vector<FormulaTerm>& terms) {
  std::int64_t bytes = 0;
  for (const FormulaTerm& term : terms) bytes += term.bytes;
  return bytes;
}

std::int64_t inputs_to_offload(const Recomputation& recomputation, std::int64_t layers, std::int64_t first) {
  if (!recomputation.is_any()) return 0;
  std::int64_t inputs = 0;
  for (std::int64_t block = first; block < layers; ++block) {
    const bool stays = block == layers - 1 && recomputation.mlp;  // without it, the MLP's backward comes before its use
    if (recomputation.has_block(block) && !stays) ++inputs;
  }
  return inputs;
}

std::vector<FormulaTerm> input_copy_terms(const StepSchedule& schedule) {
  const std::int64_t times = schedule.offloaded_inputs * schedule.policy.accumulation;
  if (times == 0) return {};
  const std::int64_t elements = schedule.model.residual_elements();
  std::vector<FormulaTerm> terms;
  for (const std::string_view name : {"inputs of blocks to the host", "inputs of blocks to the device"})
    terms.push_back({name, times, Group::self, elements, schedule.policy.compute, times * bytes_of_input(schedule)});
  return terms;
}

std::int64_t bytes_of_input(const StepSchedule& schedule) {
  return schedule.model.residual_elements() * size_of(schedule.policy.compute);
}

}  // namespace tessera
