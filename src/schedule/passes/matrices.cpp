#include "schedule/passes/matrices.hpp"

#include <algorithm>

#include "tessera/kernels/needs.hpp"
#include "tessera/schedule/formula.hpp"

namespace tessera {

namespace {

/// Returns the runs from the slices of a unit to the owners of its matrices, in the order of the unit.
std::vector<ExchangeRun> runs_to_owners(const StepSchedule& s, UnitId unit) {
  const std::int64_t members = s.grid.size(rules_of(s.policy.strategy).state), share = s.unit(unit).share(members);
  std::vector<ExchangeRun> runs;
  for (const OwnedTensor& owned : s.owners[unit].tensors) {
    const std::int64_t begin = s.layout.offset_of[owned.tensor];
    const std::int64_t end = begin + s.model.tensors[owned.tensor].elements;
    for (std::int64_t member = begin / share; member * share < end; ++member) {
      const std::int64_t from = std::max(begin, member * share), to = std::min(end, (member + 1) * share);
      runs.push_back({member, owned.owner, from - member * share, owned.offset + from - begin, to - from});
    }
  }
  return runs;
}

/// Returns the same in the other direction.
std::vector<ExchangeRun> reversed(std::vector<ExchangeRun> runs) {
  for (ExchangeRun& run : runs) std::swap(run.sender, run.receiver), std::swap(run.source, run.target);
  return runs;
}

}  // namespace

Matrices::Matrices(Writer& writer, const Placement& sharded)
    : w_(writer), sharded_(sharded), found_(writer.schedule().layout.units.size(), ValueId()) {}

Value Matrices::direction(UnitId unit) const {
  const Unit& of = w_.schedule().unit(unit);
  const std::int64_t elements = std::min(of.share(w_.schedule().grid.size(group())), of.matrices_end);
  return value_of(ValueKind::direction, {sharded_.shard, {}, DType::fp32}, elements, unit);
}

Value Matrices::matrices(UnitId unit) const {
  Value value = direction(unit);
  value.kind = ValueKind::matrices;
  if (is_shared()) value.elements = w_.schedule().owners[unit].elements;
  return value;
}

void Matrices::direct(UnitId unit, ValueId gradient, ValueId clipped, ValueId moments) {
  if (!has(unit)) return;
  Operation op = operation_of(OperationKind::direction, Queue::compute, unit);
  op.reads = {gradient, clipped, moments};
  const std::string& name = w_.schedule().unit(unit).name;
  const RegionKind region = is_shared() ? RegionKind::shared : RegionKind::private_;
  ValueId made = w_.write(op, local("direction " + name, Category::workspace, region), direction(unit));
  w_.emit(std::move(op));
  if (is_shared()) made = exchange(unit, made, matrices(unit), runs_to_owners(w_.schedule(), unit), "matrices ");
  found_[unit] = made;
}

std::int64_t Matrices::scratch_bytes(UnitId unit) const {
  const StepSchedule& s = w_.schedule();
  std::int64_t most = 0;
  for (const OwnedTensor& owned : s.owners[unit].tensors) {
    for (const TensorMatrix& m : matrices_of(s.model.tensors[owned.tensor], s.model.architecture))
      most = std::max(most, kernel_needs(s.model.device).orthogonalize(m.rows, m.columns));
  }
  return most;
}

void Matrices::orthogonalize(UnitId unit) {
  if (!has(unit)) return;
  const StepSchedule& s = w_.schedule();
  Operation op = operation_of(OperationKind::orthogonalize, Queue::compute, unit);
  op.reads = {found_[unit]};
  const RegionKind region = is_shared() ? RegionKind::shared : RegionKind::private_;
  const Value result = is_shared() ? matrices(unit) : direction(unit);
  found_[unit] = w_.write(op, local("orthogonal " + s.unit(unit).name, Category::workspace, region), result);
  w_.add_scratch(op, "iterations " + s.unit(unit).name, Category::workspace, scratch_bytes(unit));
  w_.emit(std::move(op));
  if (is_shared())
    found_[unit] =
        exchange(unit, found_[unit], direction(unit), reversed(runs_to_owners(s, unit)), "orthogonal slice ");
}

void Matrices::note_saving() const {
  for (const FormulaTerm& term : formula_terms(w_.schedule())) {
    if (term.name != kMatricesTerm) continue;
    const std::int64_t saved = term.bytes - sent_;
    w_.add_saving(
        {saved > 0 ? "owners hold much of their matrices" : "matrices are whole, so members send unevenly", saved});
  }
}

ValueId Matrices::exchange(UnitId unit, ValueId from, Value result, std::vector<ExchangeRun> runs, const char* name) {
  Operation op = operation_of(OperationKind::exchange, Queue::reduce, unit);
  op.group = group();
  op.reads = {from};
  op.wire_bytes = most_elements_sent(runs) * size_of(DType::fp32);
  sent_ += op.wire_bytes;
  op.runs = std::move(runs);
  const StepSchedule& s = w_.schedule();
  const ValueId made = w_.write(op, local(name + s.unit(unit).name, Category::communication), std::move(result));
  w_.emit(std::move(op));
  return made;
}

}  // namespace tessera
