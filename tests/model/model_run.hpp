#pragma once
// Runs a small decoder part by part as an engine would: all buffers separate, guarded by NaN around the memory that a
// part may touch.

#include <memory>
#include <vector>

#include "kernels/guarded.hpp"
#include "tensor_stack.hpp"
#include "tessera/backend/stream.hpp"
#include "tessera/backend/thread_pool.hpp"
#include "tessera/model/decoder.hpp"
#include "tessera/model/initialize.hpp"

namespace tessera::testing {

class ModelRun {
 public:
  ModelRun(const Architecture& architecture, std::int64_t batch, std::int64_t sequence, DType compute, DType gradient,
           int threads, std::uint64_t seed = 7, const PartChoices& choices = {})
      : model(declare_parts(architecture, batch, sequence, compute, gradient, DeviceKind::cpu, choices)),
        pool(threads),
        kernels(make_cpu_kernels(pool)),
        stream(make_serial_stream("test")) {
    for (const TensorId id : model.tensors.ids()) {
      const ParameterTensor& t = model.tensors[id];
      std::int64_t elements = 0;
      if (!t.follows) {
        for (const TensorId one : stack_of(model, id)) elements += model.tensors[one].padded_elements();
      }
      parameter_memory.emplace_back(elements * size_of(compute));
      gradient_memory.emplace_back(elements * size_of(gradient));
      kernels->run(*stream, FillZero{parameter_memory.back().data(), elements * size_of(compute)});
      parameters.push_back(t.follows ? end_of(parameters, t.follows, compute) : parameter_memory.back().data());
      gradients.push_back(t.follows ? end_of(gradients, t.follows, gradient) : gradient_memory.back().data());
      std::vector<float> values(static_cast<std::size_t>(t.elements));
      initialize_slice(t, id, seed, 0, values);
      kernels->run(*stream, Cast{{values.data(), DType::fp32}, {parameters.back(), compute}, t.elements});
    }
    const std::int64_t stream_bytes = model.residual_elements() * size_of(compute);
    for (const Part& part : model.parts) {
      activations.emplace_back(stream_bytes);
      saved.emplace_back();
      for (const SavedTensor& s : part.saved) saved.back().emplace_back(s.elements * size_of(s.dtype));
    }
    for (std::size_t i = 0; i < model.constants.size(); ++i) {
      const std::vector<float> values = constant_values(model, static_cast<std::int32_t>(i));
      constants.emplace_back(static_cast<std::int64_t>(values.size() * sizeof(float)));
      std::memcpy(constants.back().data(), values.data(), values.size() * sizeof(float));
    }
    residual_gradient = Guarded(model.residual_gradient_elements() * size_of(compute));
    scalars.gradient_scale = 1.0f / static_cast<float>(model.tokens());
    scalars.step = 1;
    scalars.seed = seed;
  }

  enum class Direction { forward, recompute, backward };

  /// One operation on part `p`, with fresh NaN scratch of exactly the declared size. adds: for every gradient.
  void run(std::size_t p, Direction direction, bool with_output = true, bool adds = false) {
    const Part& part = model.parts[PartId(p)];
    PartBuffers b;
    b.tokens = tokens.data(), b.targets = targets.data();
    if (model.documents) b.positions = positions.data();
    b.evaluation = evaluation;
    b.input = p == 0 ? nullptr : activations[p - 1].data();
    b.output = part.kind == PartKind::head || !with_output || direction == Direction::backward ? nullptr
                                                                                               : activations[p].data();
    b.residual_gradient = direction == Direction::backward ? residual_gradient.data() : nullptr;
    std::vector<void*> saved_pointers, gradient_pointers;
    std::vector<const void*> parameter_pointers;
    for (Guarded& s : saved[p]) saved_pointers.push_back(s.data());
    std::unique_ptr<bool[]> flags(new bool[part.tensors.size()]);
    for (std::size_t i = 0; i < part.tensors.size(); ++i) {
      const TensorId id = part.tensors[i];
      const bool readable = direction != Direction::backward || part.read_in_backward[i];
      parameter_pointers.push_back(readable ? parameters[id] : nullptr);
      gradient_pointers.push_back(model.tensors[id].trains ? gradients[id] : nullptr);
      flags[i] = adds || (part.kind == PartKind::embedding && i == 0 && model.architecture.tied_head);
    }
    b.saved = saved_pointers, b.parameters = parameter_pointers;
    if (direction == Direction::backward) {
      b.gradients = gradient_pointers;
      b.gradient_adds = std::span<const bool>(flags.get(), part.tensors.size());
    }
    b.gradient_dtype = model.gradient;
    std::vector<const void*> constant_pointers;
    for (const std::int32_t number : part.constants)
      constant_pointers.push_back(constants[static_cast<std::size_t>(number)].data());
    b.constants = constant_pointers;
    const PartCost& cost = direction == Direction::forward    ? part.forward
                           : direction == Direction::backward ? part.backward
                                                              : part.recompute;
    Guarded scratch(cost.scratch_bytes);
    b.scratch = scratch.data();
    b.loss = &loss;
    b.scalars = &scalars;
    const auto calls = direction == Direction::backward ? part_backward : part_forward;
    for (const KernelArguments& call : calls(model, part, b)) kernels->run(*stream, call);
    scratch_intact = scratch_intact && scratch.intact();
  }

  void forward() {
    for (std::size_t p = 0; p + 1 < model.parts.size(); ++p) run(p, Direction::forward);
  }
  /// Forward and backward of one micro-batch.
  void train(bool adds = false) {
    forward();
    const auto first = static_cast<std::size_t>(model.first_trained().number());
    for (std::size_t p = model.parts.size(); p-- > first;) run(p, Direction::backward, true, adds);
  }
  double evaluate() {
    forward();
    run(model.parts.size() - 1, Direction::forward);
    return loss;
  }

  /// Returns where a tensor ends.
  void* end_of(const IndexedVector<TensorId, void*>& memory, TensorId id, DType dtype) const {
    return static_cast<std::byte*>(memory[id]) + model.tensors[id].elements * size_of(dtype);
  }

  bool intact() const {
    bool good = scratch_intact && residual_gradient.intact();
    for (const std::vector<Guarded>* list : std::initializer_list<const std::vector<Guarded>*>{
             &parameter_memory, &gradient_memory, &activations, &constants}) {
      for (const Guarded& g : *list) good = good && g.intact();
    }
    for (const auto& list : saved) {
      for (const Guarded& g : list) good = good && g.intact();
    }
    return good;
  }

  ModelParts model;
  ThreadPool pool;
  std::unique_ptr<Kernels> kernels;
  std::unique_ptr<Stream> stream;
  IndexedVector<TensorId, void*> parameters, gradients;  ///< a tensor that follows another, in its memory
  std::vector<Guarded> parameter_memory, gradient_memory;
  std::vector<Guarded> activations, constants;
  std::vector<std::vector<Guarded>> saved;
  Guarded residual_gradient;
  std::vector<std::int32_t> tokens, targets, positions;
  StepScalars scalars;
  bool evaluation = false;
  bool scratch_intact = true;
  double loss = 0;
};

}  // namespace tessera::testing
