#include "engine/bound_part.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <memory>

#include "engine/addresses.hpp"
#include "tessera/model/decoder.hpp"

namespace tessera {

namespace {

template <class T>
bool holds(const std::vector<T>& all, T one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

class PartBinder : Addresses {
 public:
  PartBinder(const StepSchedule& schedule, const Resources& resources, SegmentRole role, const Operation& op)
      : Addresses(schedule, resources),
        op_(op),
        model_(schedule_.model_of(role)),
        part_(model_.parts[op_.part]),
        saved_(part_.saved.size()),
        gradients_(part_.tensors.size()),
        parameters_(part_.tensors.size()),
        constants_(part_.constants.size()),
        magnitudes_(part_.tensors.size()),
        codes_(std::make_unique<bool[]>(part_.tensors.size())),
        gradient_adds_(std::make_unique<bool[]>(part_.tensors.size())) {
    PartBuffers& b = buffers_;
    b.evaluation = role == SegmentRole::evaluation || generates(role);
    b.scalars = scalars_;
    if (scalars_ != nullptr) b.loss = &scalars_->micro_loss;
    if (losses_.data != nullptr && !b.evaluation) b.sample_losses = losses_.last();
    b.gradient_dtype = schedule_.policy.reduce;
    b.saved = saved_, b.gradients = gradients_, b.parameters = parameters_;
    b.constants = constants_, b.magnitudes = magnitudes_;
    b.codes = {codes_.get(), part_.tensors.size()};
    b.gradient_adds = {gradient_adds_.get(), part_.tensors.size()};
  }

  std::vector<KernelArguments> kernels() {
    for (const ValueId v : touched_values(op_)) bind_buffer(v);
    for (std::size_t i = 0; i < part_.tensors.size(); ++i) bind_tensor(i);
    bool clears_sums = false;  // the step's first contribution to its sums
    for (const ValueId v : op_.writes) {
      clears_sums = clears_sums || schedule_.value(v).kind == ValueKind::scalar;
      if (schedule_.value(v).kind == ValueKind::gradient) fill_gaps(v);
    }
    const auto& kernels_of = op_.kind == OperationKind::backward ? part_backward : part_forward;
    std::ranges::copy(kernels_of(model_, part_, buffers_), std::back_inserter(kernels_));
    if (part_.kind == PartKind::head && !model_.generates()) {
      const SampleLosses losses = buffers_.sample_losses != nullptr ? losses_ : SampleLosses();
      kernels_.emplace_back(AddLoss{scalars_, address_of<ReducedScalars>(Reserved::sums), clears_sums, losses});
    }
    return std::move(kernels_);
  }

 private:
  void bind_tokens(std::int32_t* tokens) {
    buffers_.tokens = tokens;
    if (!model_.generates()) {
      buffers_.targets = tokens + model_.tokens();
      if (model_.documents) buffers_.positions = buffers_.targets + model_.tokens();
      buffers_.borders = model_.borders_in(tokens);
      return;
    }
    const GenerationInputs inputs(tokens, model_);
    buffers_.positions = inputs.positions, buffers_.counts = inputs.counts, buffers_.rows = inputs.rows;
  }

  /// Binds a value that is neither a parameter nor a gradient.
  void bind_buffer(ValueId v) {
    PartBuffers& b = buffers_;
    const Value& value = schedule_.value(v);
    switch (value.kind) {
      case ValueKind::tokens:
        return bind_tokens(reinterpret_cast<std::int32_t*>(at(v)));
      case ValueKind::cache:
        b.cache = at(v);
        return;
      case ValueKind::logits:
        b.logits = reinterpret_cast<float*>(at(v));
        return;
      case ValueKind::token_losses:
        b.token_losses = reinterpret_cast<float*>(at(v));
        return;
      case ValueKind::activation:
        if (holds(op_.writes, v)) {
          b.output = at(v);
        } else {
          b.input = at(v);
        }
        return;
      case ValueKind::activation_gradient:
        b.residual_gradient = at(v);
        return;
      case ValueKind::saved:
        saved_[static_cast<std::size_t>(value.slot)] = at(v);
        return;
      case ValueKind::constant: {
        const auto& all = part_.constants;
        constants_[static_cast<std::size_t>(std::ranges::find(all, value.slot) - all.begin())] = at(v);
        return;
      }
      case ValueKind::scratch:
        b.scratch = at(v);
        return;
      default:
        return;
    }
  }

  /// Binds parameter and gradient of a part's tensor.
  void bind_tensor(std::size_t i) {
    const TensorId tensor = part_.tensors[i];
    const UnitId unit = schedule_.layout.unit_of[tensor];
    const std::int64_t offset = schedule_.layout.offset_of[tensor];
    const bool backward_only = op_.kind == OperationKind::backward && part_.kind != PartKind::head;
    for (const ValueId v : op_.reads) {
      const Value& value = schedule_.value(v);
      const bool is_parameter = value.kind == ValueKind::parameter || value.kind == ValueKind::master;
      if (value.kind == ValueKind::magnitudes && value.unit == unit)
        magnitudes_[i] = magnitude_of(tensor, reinterpret_cast<const std::int64_t*>(at(v)));
      if (!is_parameter || value.unit != unit || (backward_only && !part_.read_in_backward[i])) continue;
      parameters_[i] = at(v) + offset * size_of(value.dtype());
      codes_[i] = value.dtype() == DType::e4m3;
    }
    for (const ValueId v : written_values(op_)) {
      const Value& value = schedule_.value(v);
      if (value.kind == ValueKind::gradient && value.unit == unit)
        gradients_[i] = at(v) + offset * size_of(value.dtype());
    }
    for (const Update& u : op_.updates) {
      const Value& before = schedule_.value(u.before);
      if (before.kind != ValueKind::gradient || before.unit != unit) continue;
      for (const PartId other : before.covers) {  // another part has written this very tensor: add to it
        if (holds(schedule_.part(other).tensors, part_.tensors[i])) gradient_adds_[i] = true;
      }
    }
  }

  /// Returns the largest magnitude of the weight in fp8 that begins with a tensor; null if none does.
  const float* magnitude_of(TensorId tensor, const std::int64_t* magnitudes) const {
    const std::vector<Fp8Weight>& weights = schedule_.unit(schedule_.layout.unit_of[tensor]).fp8_weights;
    const auto found = std::ranges::find(weights, tensor, &Fp8Weight::tensor);
    static_assert(std::endian::native == std::endian::little);  // the lower half comes first
    return found == weights.end() ? nullptr : reinterpret_cast<const float*>(magnitudes + (found - weights.begin()));
  }

  /// Clears the padding between a fresh gradient's tensors.
  void fill_gaps(ValueId v) {
    const Unit& unit = schedule_.unit(schedule_.value(v).unit);
    const std::int64_t size = size_of(schedule_.value(v).dtype());
    std::int64_t end = 0;
    const auto add_gap = [&](std::int64_t to) {
      if (to > end) kernels_.emplace_back(FillZero{at(v) + end * size, (to - end) * size});
    };
    for (const TensorPlace& place : unit.tensors) {
      add_gap(place.offset);
      end = place.offset + schedule_.model.tensors[place.tensor].elements;
    }
    add_gap(unit.padded);
  }

  const Operation& op_;
  const ModelParts& model_;  ///< in the segment's shapes
  const Part& part_;
  StepScalars* const scalars_ = address_of<StepScalars>(Reserved::scalars);
  const SampleLosses losses_{address_of<double>(Reserved::sample_losses), schedule_.model.batch};
  PartBuffers buffers_;
  std::vector<void*> saved_, gradients_;
  std::vector<const void*> parameters_, constants_;
  std::vector<const float*> magnitudes_;
  std::unique_ptr<bool[]> codes_, gradient_adds_;
  std::vector<KernelArguments> kernels_;
};

}  // namespace

std::vector<KernelArguments> part_kernels(const StepSchedule& schedule, const Resources& resources, SegmentRole role,
                                          const Operation& op) {
  return PartBinder(schedule, resources, role, op).kernels();
}

}  // namespace tessera
