#include "engine/bound_update.hpp"

#include <algorithm>

#include "engine/addresses.hpp"
#include "tessera/engine/state.hpp"

namespace tessera {

namespace {

class UpdateBinder : Addresses {
 public:
  UpdateBinder(const StepSchedule& schedule, const Resources& resources, const Optimizer& optimizer,
               const Operation& op, BoundOperation& bound)
      : Addresses(schedule, resources), optimizer_(optimizer), op_(op), bound_(bound) {}

  /// Binds the update of a slice, or of a bucket of it: matrices that are updated as a whole, and the rest.
  void bind_update() {
    const StateSlice slice = state_slice(schedule_, resources_, op_.unit);
    const Bucket range = op_.bucket.count > 0 ? op_.bucket : Bucket{0, slice.count};
    const std::int64_t border =
        std::clamp(schedule_.unit(op_.unit).matrices_end - slice.first, range.first, range.end());
    const OptimizerRules& rules = rules_of(schedule_.policy.optimizer);
    if (border > range.first) add_update(slice, {range.first, border - range.first}, rules);
    if (border < range.end()) add_update(slice, {border, range.end() - border}, rules_of(rules.others));
  }

  void bind_direction() {
    const StateSlice slice = state_slice(schedule_, resources_, op_.unit);
    MuonDirection a;
    a.elements = std::clamp<std::int64_t>(schedule_.unit(op_.unit).matrices_end - slice.first, 0, slice.count);
    a.state = slice.vectors[1].data, a.state_dtype = slice.vectors[1].dtype;
    a.momentum = optimizer_.settings().options.muon_momentum;
    a.output = reinterpret_cast<float*>(at(op_.writes[0]));
    for (const ValueId v : op_.reads) {
      if (schedule_.value(v).kind == ValueKind::scalar) a.scalars = reinterpret_cast<const StepScalars*>(at(v));
      if (schedule_.value(v).kind != ValueKind::gradient) continue;
      a.gradient = at(v), a.gradient_dtype = schedule_.value(v).dtype();
    }
    bound_.kernels = {a};
  }

  /// Binds the matrices of a unit: those that this rank owns, and without addresses those of others. If the state is
  /// not shared, the rank owns all of them, in the unit's own layout.
  void bind_orthogonalize() {
    const bool is_shared = schedule_.value(op_.reads[0]).kind == ValueKind::matrices;
    const std::int64_t me = is_shared ? resources_.index_in(rules_of(schedule_.policy.strategy).state) : 0;
    for (const OwnedTensor& owned : schedule_.owners[op_.unit].tensors) {
      const std::int64_t start = is_shared ? owned.offset : schedule_.layout.offset_of[owned.tensor];
      for (const TensorMatrix& m : matrices_of(schedule_.model.tensors[owned.tensor], schedule_.model.architecture)) {
        Orthogonalize a;
        a.rows = m.rows, a.columns = m.columns, a.steps = optimizer_.settings().options.muon_steps;
        a.scratch = at(scratch_of(schedule_, op_));
        if (owned.owner == me) {
          a.input = {reinterpret_cast<const float*>(at(op_.reads[0])) + start + m.offset, DType::fp32, m.stride};
          a.output = {reinterpret_cast<float*>(at(op_.writes[0])) + start + m.offset, DType::fp32, m.stride};
        }
        bound_.kernels.emplace_back(a);
      }
    }
  }

 private:
  /// Adds the update of the elements of `part`, all by one optimizer.
  void add_update(const StateSlice& slice, const Bucket& part, const OptimizerRules& rules) {
    ParameterUpdate a = update_arguments(optimizer_.settings().options);
    std::vector<void*>& states = bound_.states.emplace_back();
    std::vector<DecayRun>& runs = bound_.runs.emplace_back();
    a.rule = rules.update;
    a.elements = part.count;
    a.master = slice.master() + part.first;
    for (const StateVector& state : std::span(slice.vectors).subspan(1)) {
      if (std::ranges::find(rules.keeps, state.kind) != rules.keeps.end()) states.push_back(state.at(part.first));
    }
    a.states = states;
    const Reserved sums = schedule_.is_offloaded(op_.unit) ? Reserved::host_state_sums : Reserved::state_sums;
    if (auto* const first = address_of<StateSums>(sums)) a.sums = first[op_.unit.number()].data();
    a.first = part.first;
    const std::int64_t in_bucket = part.first - op_.bucket.first;
    for (const ValueId v : op_.reads) {
      const Value& value = schedule_.value(v);
      if (value.kind == ValueKind::scalar) a.scalars = reinterpret_cast<const StepScalars*>(at(v));
      if (rules.wants_matrices && value.kind == ValueKind::direction)
        a.direction = reinterpret_cast<const float*>(at(v)) + part.first;
      if (value.kind != ValueKind::gradient) continue;
      a.gradient = at_bucket(op_, v) + in_bucket * size_of(value.dtype());
      a.gradient_dtype = value.dtype();
    }
    for (const ValueId v : written_values(op_)) {
      if (schedule_.value(v).kind != ValueKind::parameter) continue;
      a.copy_dtype = schedule_.value(v).dtype();
      const std::int64_t size = size_of(a.copy_dtype);  // a copy of a whole slice lies in a full one
      a.copy = op_.bucket.count > 0 ? at_bucket(op_, v) + in_bucket * size : at(v) + (slice.first + part.first) * size;
    }
    const auto add_padding = [&](std::int64_t end) {  // a copy has it, but an update leaves it alone
      const std::int64_t begin = runs.empty() ? 0 : runs.back().end;
      if (a.copy != nullptr && begin < end) runs.push_back({begin, end, false, true});
    };
    each_run(slice, {StateKind::parameter, part.first, part.count}, [&](const TensorRun& run) {
      const std::int64_t begin = run.offset - part.first;
      add_padding(begin);
      const ParameterTensor& tensor = schedule_.model.tensors[run.tensor];
      const float scale = rules.wants_matrices ? scale_of(tensor) : 1.0f;
      const auto number = static_cast<std::uint32_t>(run.tensor.number());
      runs.push_back({begin, begin + run.count, tensor.decays, false, scale, number, run.first});
    });
    add_padding(part.count);
    a.runs = runs;
    bound_.kernels.emplace_back(a);
  }

  /// Returns the factor for the rate of a tensor's matrices: one number, because they have one shape.
  float scale_of(const ParameterTensor& tensor) const {
    const std::vector<TensorMatrix> matrices = matrices_of(tensor, schedule_.model.architecture);
    const auto scale = [&](const TensorMatrix& m) { return muon_scale(m, optimizer_.settings().options.muon_scale); };
    for (const TensorMatrix& m : matrices)
      TESSERA_ASSERT(scale(m) == scale(matrices[0]), "{} has matrices of different scales", tensor.name);
    return scale(matrices[0]);
  }

  const Optimizer& optimizer_;
  const Operation& op_;
  BoundOperation& bound_;
};

}  // namespace

void bind_update(const StepSchedule& schedule, const Resources& resources, const Optimizer& optimizer,
                 const Operation& op, BoundOperation& bound) {
  UpdateBinder binder(schedule, resources, optimizer, op, bound);
  if (op.kind == OperationKind::update) return binder.bind_update();
  if (op.kind == OperationKind::direction) return binder.bind_direction();
  binder.bind_orthogonalize();
}

}  // namespace tessera
