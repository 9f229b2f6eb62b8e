#include "bench/kernel_rehearsal.hpp"

#include <algorithm>

#include "tessera/base/counter_rng.hpp"
#include "tessera/kernels/needs.hpp"
#include "tessera/model/constants.hpp"
#include "tessera/model/initialize.hpp"

namespace tessera {

namespace {

/// Returns the position of a part's input among the residual streams; its output follows. The embedding has none.
int input_of(PartKind kind) {
  switch (kind) {
    case PartKind::embedding:
      return -1;
    case PartKind::attention:
      return 0;
    case PartKind::mlp:
      return 1;
    case PartKind::head:
      return 2;
  }
  return -1;
}

std::int64_t scratch_bytes_of(const Part& part, OperationKind kind) {
  switch (kind) {
    case OperationKind::forward:
      return part.forward.scratch_bytes;
    case OperationKind::recompute:
      return part.recompute.scratch_bytes;
    default:
      return part.backward.scratch_bytes;
  }
}

/// Returns the scalars of the first step of a run.
StepScalars first_step(const StepSchedule& schedule, const Options& options) {
  StepScalars scalars;
  scalars.learning_rate = static_cast<float>(options.optim.lr);
  scalars.bias_correction1 = static_cast<float>(1 - options.optim.beta1);
  scalars.bias_correction2 = static_cast<float>(1 - options.optim.beta2);
  scalars.gradient_scale =
      1.0f / static_cast<float>(schedule.model.tokens() * schedule.grid.world() * schedule.accumulation);
  scalars.adam_step = scalars.step = 1;
  scalars.seed = static_cast<std::uint64_t>(options.run.seed);
  return scalars;
}

}  // namespace

KernelRehearsal::KernelRehearsal(const StepSchedule& schedule, const KernelWork& work, const Options& options,
                                 BenchDevice& device)
    : schedule_(schedule),
      optim_(options.optim),
      seed_(static_cast<std::uint64_t>(options.run.seed)),
      device_(device),
      parts_(schedule.model.parts.size()),
      tensor_(schedule.model.tensors.size()),
      gradient_(schedule.model.tensors.size()),
      scalars_(device.upload(std::vector{first_step(schedule, options)})) {
  const std::int64_t residual = schedule.model.residual_elements() * size_of(schedule.model.compute);
  for (std::byte*& stream : residual_) stream = device.take(residual);
  residual_gradient_ = device.take(schedule.model.residual_gradient_elements() * size_of(schedule.model.compute));
  std::int64_t scratch = 0;
  for (std::size_t i = 0; i < schedule.model.constants.size(); ++i)
    constants_.push_back(device.upload(constant_values(schedule.model, static_cast<std::int32_t>(i))));
  for (const PartWork& one : work.parts) {
    scratch = std::max(scratch, scratch_bytes_of(schedule.part(one.part), one.kind));
    open_part(one.part);
  }
  scratch_ = device.take(scratch);
  loss_ = reinterpret_cast<double*>(device.take(sizeof *loss_));
  ExactSum none{};
  none.clear();
  square_sum_ = device.upload(std::vector{none});
  draw_tokens();
  open_flat(work);
}

double KernelRehearsal::loss() const {
  device_.stream().synchronize();
  double sum = 0;
  device_.device().copy(&sum, loss_, sizeof sum);
  return sum / static_cast<double>(schedule_.model.tokens());
}

void KernelRehearsal::open_part(PartId id) {
  PartMemory& memory = parts_[id];
  if (!memory.parameters.empty()) return;
  const ModelParts& model = schedule_.model;
  const Part& part = schedule_.part(id);
  for (const SavedTensor& saved : part.saved)
    memory.saved.push_back(device_.take(saved.elements * size_of(saved.dtype)));
  for (const std::int32_t number : part.constants)
    memory.constants.push_back(constants_[static_cast<std::size_t>(number)]);
  for (const TensorId tensor : part.tensors) {
    if (tensor_[tensor] == nullptr) open_tensors(model.stack_of(tensor));
    memory.parameters.push_back(tensor_[tensor]);
    memory.gradients.push_back(gradient_[tensor]);
  }
}

void KernelRehearsal::open_tensors(const std::vector<TensorId>& stack) {
  const ModelParts& model = schedule_.model;
  std::vector<float> initial;
  for (const TensorId id : stack) {
    const ParameterTensor& tensor = model.tensors[id];
    const std::size_t begin = initial.size();
    initial.resize(begin + static_cast<std::size_t>(tensor.padded_elements()));
    initialize_slice(tensor, id, seed_, 0,
                     std::span(initial).subspan(begin, static_cast<std::size_t>(tensor.elements)));
  }
  std::byte* parameter = device_.upload_as(model.compute, initial);
  std::byte* gradient = device_.take(std::ssize(initial) * size_of(model.gradient));
  for (const TensorId id : stack) {
    tensor_[id] = parameter, gradient_[id] = gradient;
    parameter += model.tensors[id].elements * size_of(model.compute);
    gradient += model.tensors[id].elements * size_of(model.gradient);
  }
}

void KernelRehearsal::draw_tokens() {
  const ModelParts& model = schedule_.model;
  std::vector<std::int32_t> tokens, targets;
  for (std::int64_t i = 0; i < model.tokens(); ++i) {
    const auto bits = philox(seed_, RandomUse::synthetic_data, 0, static_cast<std::uint64_t>(i));
    tokens.push_back(static_cast<std::int32_t>(bits[0] % model.architecture.vocab));
    targets.push_back(static_cast<std::int32_t>(bits[1] % model.architecture.vocab));
  }
  tokens_ = device_.upload(tokens);
  targets_ = device_.upload(targets);
}

void KernelRehearsal::open_flat(const KernelWork& work) {
  std::int64_t from = 0, to = 0, updated = 0, iterations = 0;
  for (const FlatWork& one : work.flat) {
    from = std::max(from, one.elements * size_of(one.from));
    to = std::max(to, one.elements * size_of(one.to));
    if (one.kind >= FlatKind::update) updated = std::max(updated, one.elements);
    if (one.kind != FlatKind::orthogonalize) continue;
    iterations = std::max(iterations, kernel_needs(schedule_.model.device).orthogonalize(one.rows, one.columns));
  }
  // Bytes that read as 0.0115 in fp32 and bf16 and 1.06 in fp16, because zeros would make AdamW's moments subnormal.
  const std::vector<std::byte> bytes_like_numbers(4096, std::byte{0x3c});
  const auto filled = [&](std::int64_t bytes, const void* pattern, std::int64_t period) {
    std::byte* const memory = device_.take(bytes);
    device_.device().copy(memory, pattern, std::min(bytes, period));
    repeat_pattern(device_.device(), memory, std::min(bytes, period), bytes);
    return memory;
  };
  const auto filled_with = [&](float value) {
    return reinterpret_cast<float*>(filled(updated * size_of(DType::fp32), &value, sizeof value));
  };
  flat_from_ = filled(from, bytes_like_numbers.data(), 4096);
  flat_to_ = filled(to, bytes_like_numbers.data(), 4096);
  master_ = filled_with(0.02f);
  states_.assign(kStateKinds - 1, nullptr);
  for (float*& state : states_) state = filled_with(1e-3f);
  direction_ = filled_with(1e-3f);
  iterations_ = device_.take(iterations);
}

void KernelRehearsal::play(Kernels& kernels, const PartWork& work) {
  Stream& stream = device_.stream();
  const Part& part = schedule_.part(work.part);
  const PartMemory& memory = parts_[work.part];
  const int input = input_of(part.kind);
  const bool backward = work.kind == OperationKind::backward;
  auto adds = std::make_unique<bool[]>(part.tensors.size());
  std::copy(work.gradient_adds.begin(), work.gradient_adds.end(), adds.get());

  PartBuffers b;
  b.tokens = tokens_, b.targets = targets_;
  b.input = input >= 0 ? residual_[input] : nullptr;
  b.output = !backward && work.writes_output ? residual_[input + 1] : nullptr;
  b.residual_gradient = backward ? residual_gradient_ : nullptr;
  b.saved = memory.saved;
  b.parameters = memory.parameters;
  b.constants = memory.constants;
  b.gradients = memory.gradients;
  b.gradient_adds = {adds.get(), part.tensors.size()};
  b.gradient_dtype = schedule_.model.gradient;
  b.scratch = scratch_;
  b.loss = loss_;
  b.scalars = scalars_;
  switch (work.kind) {
    case OperationKind::forward:
      return part_forward(kernels, stream, schedule_.model, part, b);
    case OperationKind::recompute:
      return part_recompute(kernels, stream, schedule_.model, part, b);
    default:
      return part_backward(kernels, stream, schedule_.model, part, b);
  }
}

void KernelRehearsal::play(Kernels& kernels, const FlatWork& work) {
  Stream& stream = device_.stream();
  switch (work.kind) {
    case FlatKind::cast:
      return kernels.cast(stream, flat_from_, work.from, flat_to_, work.to, work.elements);
    case FlatKind::add:
      return kernels.add(stream, flat_to_, work.to, flat_from_, work.from, flat_to_, work.to, work.elements);
    case FlatKind::square_sum:
      return kernels.square_sum(stream, flat_from_, work.from, work.elements, square_sum_);
    case FlatKind::update:
      return play_update(kernels, work, rules_of(rules_of(schedule_.optimizer).others));
    case FlatKind::update_matrices:
      return play_update(kernels, work, rules_of(schedule_.optimizer));
    case FlatKind::direction: {
      DirectionArguments a;
      a.elements = work.elements;
      a.state = states_[0], a.output = direction_;
      a.gradient = flat_from_, a.gradient_dtype = work.from;
      a.momentum = optim_.muon_momentum;
      a.scalars = scalars_;
      return kernels.muon_direction(stream, a);
    }
    case FlatKind::orthogonalize: {
      OrthogonalizeArguments a;
      a.rows = work.rows, a.columns = work.columns, a.steps = optim_.muon_steps;
      a.input = {master_, DType::fp32, work.columns}, a.output = {direction_, DType::fp32, work.columns};
      a.scratch = iterations_;
      return kernels.orthogonalize(stream, a);
    }
  }
}

void KernelRehearsal::play_update(Kernels& kernels, const FlatWork& work, const OptimizerRules& rules) {
  const DecayRun all{0, work.elements, true};
  UpdateArguments a = update_arguments(optim_);
  a.elements = work.elements;
  a.master = master_, a.states = std::span(states_).first(static_cast<std::size_t>(rules.states()));
  a.direction = rules.wants_matrices ? direction_ : nullptr;
  a.gradient = flat_from_, a.gradient_dtype = work.from;
  a.runs = {&all, 1};
  if (work.to != DType::fp32) a.copy = flat_to_, a.copy_dtype = work.to;
  a.scalars = scalars_;
  (kernels.*rules.update)(device_.stream(), a);
}

}  // namespace tessera
