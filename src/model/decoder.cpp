#include "tessera/model/decoder.hpp"

#include <algorithm>

#include "model/decoder_parts.hpp"

namespace tessera {

namespace {

/// Checks that tensors which follow others do so: the linear that reads them knows only the first one's address.
template <class Pointer>
void check_stacks(const PartCall& call, std::span<Pointer const> tensors, DType dtype) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ParameterTensor& tensor = call.model.tensors[call.part.tensors[i]];
    if (!tensor.follows || tensors[i] == nullptr) continue;
    const ParameterTensor& before = call.model.tensors[tensor.follows];
    const ConstView end{tensors[call.place_of(before.role)], dtype, 1};
    TESSERA_ASSERT(end.at(before.elements) == tensors[i], "{} does not follow {}", tensor.name, before.name);
  }
}

void check(const PartCall& call, bool backward) {
  const Part& part = call.part;
  const PartBuffers& b = call.buffers;
  TESSERA_ASSERT(b.parameters.size() == part.tensors.size(), "{}: {} parameters given, {} declared", part.name,
                 b.parameters.size(), part.tensors.size());
  TESSERA_ASSERT(b.saved.size() == part.saved.size(), "{}: {} saved values given, {} declared", part.name,
                 b.saved.size(), part.saved.size());
  TESSERA_ASSERT(b.constants.size() == part.constants.size(), "{}: {} constants given, {} declared", part.name,
                 b.constants.size(), part.constants.size());
  check_stacks(call, b.parameters, call.model.compute);
  const bool places = part.kind == PartKind::embedding || part.kind == PartKind::attention;
  TESSERA_ASSERT(!places || !call.model.documents || b.positions != nullptr,
                 "{}: no positions of its documents' tokens", part.name);
  if (!backward) return;
  TESSERA_ASSERT(b.gradients.size() == part.tensors.size(), "{}: {} gradients given, {} declared", part.name,
                 b.gradients.size(), part.tensors.size());
  TESSERA_ASSERT(b.gradient_dtype == call.model.gradient, "{}: gradients of dtype {} given, {} declared", part.name,
                 name_of(b.gradient_dtype), name_of(call.model.gradient));
  check_stacks(call, b.gradients, b.gradient_dtype);
}

void forward(const PartCall& call) {
  check(call, false);
  switch (call.part.kind) {
    case PartKind::embedding:
      return embedding_forward_part(call);
    case PartKind::attention:
      return attention_forward_part(call);
    case PartKind::mlp:
      return mlp_forward_part(call);
    case PartKind::head:
      return call.model.generates() ? head_logits_part(call) : head_loss_part(call);
  }
}

}  // namespace

std::size_t PartCall::place_of(Role role) const {
  std::size_t place = 0;
  while (place < part.tensors.size() && model.tensors[part.tensors[place]].role != role) ++place;
  return place;
}

ConstView PartCall::parameter(Role role, std::int64_t columns) const {
  const std::size_t place = place_of(role);
  return place < part.tensors.size() ? read(buffers.parameters[place], columns) : ConstView();
}

GradientView PartCall::gradient(Role role, std::int64_t columns) const {
  const std::size_t place = place_of(role);
  if (place == part.tensors.size()) return {};
  return {{buffers.gradients[place], buffers.gradient_dtype, columns},
          !buffers.gradient_adds.empty() && buffers.gradient_adds[place]};
}

void* PartCall::saved(SavedRole role) const {
  const auto place = std::ranges::find(part.saved, role, &SavedTensor::role);
  return place == part.saved.end() ? nullptr : buffers.saved[static_cast<std::size_t>(place - part.saved.begin())];
}

Dropout PartCall::dropout(DropoutSite site) const {
  Dropout d;
  if (buffers.evaluation) return d;
  d.probability = static_cast<float>(architecture().dropout);
  d.sequence = model.sequence;
  d.layer = part.block < 0 ? 0 : part.block;
  d.site = site;
  d.scalars = buffers.scalars;
  return d;
}

PartialSums PartCall::residual_gradient_sums() const {
  if (model.gradient_sum_rows == 0) return {};
  const View gradient = write(buffers.residual_gradient, architecture().width);
  return {static_cast<float*>(gradient.at(0, model.gradient_sums_offset())), model.gradient_sum_rows};
}

void part_forward(Kernels& kernels, Stream& stream, const ModelParts& model, const Part& part,
                  const PartBuffers& buffers) {
  forward({kernels, stream, model, part, buffers});
}

void part_recompute(Kernels& kernels, Stream& stream, const ModelParts& model, const Part& part,
                    const PartBuffers& buffers) {
  TESSERA_ASSERT(part.kind != PartKind::head, "the head saves nothing that could be recomputed");
  forward({kernels, stream, model, part, buffers});
}

void part_backward(Kernels& kernels, Stream& stream, const ModelParts& model, const Part& part,
                   const PartBuffers& buffers) {
  const PartCall call{kernels, stream, model, part, buffers};
  check(call, true);
  switch (part.kind) {
    case PartKind::embedding:
      return embedding_backward_part(call);
    case PartKind::attention:
      return attention_backward_part(call);
    case PartKind::mlp:
      return mlp_backward_part(call);
    case PartKind::head:
      return head_training_part(call);
  }
}

}  // namespace tessera
