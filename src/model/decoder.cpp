#include "tessera/model/decoder.hpp"

#include <algorithm>

#include "model/layer_call.hpp"

namespace tessera {

namespace {

/// Checks that tensors which follow others do so: the linear that reads them knows only the first one's address.
template <class Pointer, class TypeOf>
void check_stacks(const PartCall& call, std::span<Pointer const> tensors, const TypeOf& type_of) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ParameterTensor& tensor = call.model.tensors[call.part.tensors[i]];
    if (!tensor.follows || tensors[i] == nullptr) continue;
    const ParameterTensor& before = call.model.tensors[tensor.follows];
    const auto place =
        static_cast<std::size_t>(std::ranges::find(call.part.tensors, tensor.follows) - call.part.tensors.begin());
    const ConstView end{tensors[place], type_of(place), 1};
    TESSERA_ASSERT(end.at(before.elements) == tensors[i], "{} does not follow {}", tensor.name, before.name);
  }
}

void check(const PartCall& call, bool backward) {
  const Part& part = call.part;
  const PartBuffers& b = call.buffers;
  const auto check_number = [&](std::size_t given, std::size_t declared, const char* what) {
    TESSERA_ASSERT(given == declared, "{}: {} {} given, {} declared", part.name, given, what, declared);
  };
  check_number(b.parameters.size(), part.tensors.size(), "parameters");
  check_number(b.saved.size(), part.saved.size(), "saved values");
  check_number(b.constants.size(), part.constants.size(), "constants");
  check_stacks(call, b.parameters, [&](std::size_t place) { return call.parameter_type(place); });
  const bool places = part.kind == PartKind::embedding || part.kind == PartKind::attention;
  TESSERA_ASSERT(!places || !call.model.documents || b.positions != nullptr,
                 "{}: no positions of its documents' tokens", part.name);
  if (!backward) return;
  check_number(b.gradients.size(), part.tensors.size(), "gradients");
  TESSERA_ASSERT(b.gradient_dtype == call.model.gradient, "{}: gradients of dtype {} given, {} declared", part.name,
                 name_of(b.gradient_dtype), name_of(call.model.gradient));
  check_stacks(call, b.gradients, [&](std::size_t) { return b.gradient_dtype; });
}

}  // namespace

std::vector<KernelArguments> part_forward(const ModelParts& model, const Part& part, const PartBuffers& buffers) {
  std::vector<KernelArguments> kernels;
  const PartCall call{model, part, buffers, kernels};
  check(call, false);
  add_forward(call, PartScratch(buffers.scratch, part.forward.places));
  return kernels;
}

std::vector<KernelArguments> part_backward(const ModelParts& model, const Part& part, const PartBuffers& buffers) {
  std::vector<KernelArguments> kernels;
  const PartCall call{model, part, buffers, kernels};
  check(call, true);
  add_backward(call, PartScratch(buffers.scratch, part.backward.places));
  return kernels;
}

}  // namespace tessera
