// The MLP half of a block:  n = norm(x);  y = x + dropout(h Wdown + b'), with
//   GELU:    h = gelu(n Wup + b)
//   SwiGLU:  h = silu(n Wgate) * (n Wup)

#include "model/decoder_parts.hpp"
#include "model/part_scratch.hpp"

namespace tessera {

namespace {

/// The common arguments of one direction's functions.
struct MlpCall : PartCall {
  std::int64_t width() const { return architecture().width; }
  std::int64_t ffn() const { return architecture().ffn_width; }
  bool gated() const { return architecture().mlp == MlpKind::swiglu; }
  ConstView gate() const { return read(saved(SavedRole::gate), ffn()); }
  ConstView up() const { return read(saved(SavedRole::up), ffn()); }
  /// A [tokens, ffn_width] matrix in scratch.
  View hidden(void* data) const { return write(data, ffn_stride(model)); }
  /// h: saved, or in the scratch of this direction.
  View activated(void* scratch) const {
    return model.keeps_activated ? write(saved(SavedRole::activated), ffn()) : hidden(scratch);
  }
};

void swiglu(const MlpCall& call, const View& activated) {
  SwigluForward f;
  f.tokens = call.model.tokens(), f.width = call.ffn();
  f.gate = call.gate(), f.up = call.up(), f.output = activated;
  call.kernels.swiglu_forward(call.stream, f);
}

/// Computes the saved gate and up, and h where it is saved too or the output is needed.
void project_up(const MlpCall& call, const MlpForwardScratch& s) {
  const bool activates = call.model.keeps_activated || call.buffers.output != nullptr;
  const auto project = [&](Role weight, void* saved, bool with_gelu) {
    LinearForward l = linear_forward(call, weight, call.width(), call.ffn());
    l.input = call.read(s.normalized, call.width());
    l.output = call.write(saved, call.ffn());
    if (with_gelu) l.activated = call.activated(s.activated), l.is_kept = call.model.keeps_activated;
    call.kernels.linear_forward(call.stream, l);
  };
  if (call.gated()) project(Role::gate_weight, call.saved(SavedRole::gate), false);
  project(Role::up_weight, call.saved(SavedRole::up), activates && !call.gated());
  if (activates && call.gated()) swiglu(call, call.activated(s.activated));
}

void project_down(const MlpCall& call, const MlpForwardScratch& s) {
  LinearForward l = linear_forward(call, Role::down_weight, call.ffn(), call.width());
  l.input = call.activated(s.activated);
  l.residual = call.read(call.buffers.input, call.width());
  l.output = call.write(call.buffers.output, call.width());
  l.dropout = call.dropout(DropoutSite::mlp_residual);
  call.kernels.linear_forward(call.stream, l);
}

/// Turns d h into d gate, in place, and d up; recomputes h on the way unless it was saved.
void swiglu_backward(const MlpCall& call, const MlpBackwardScratch& s) {
  SwigluBackward b;
  b.tokens = call.model.tokens(), b.width = call.ffn();
  b.gate = call.gate(), b.up = call.up(), b.output_gradient = call.hidden(s.gate_gradient);
  b.gate_gradient = call.hidden(s.gate_gradient), b.up_gradient = call.hidden(s.up_gradient);
  if (!call.model.keeps_activated) b.output = call.hidden(s.activated);
  call.kernels.swiglu_backward(call.stream, b);
}

/// The weight's gradient needs h. GELU's d u comes out of the same matmul; SwiGLU's backward is between the two halves.
void project_down_backward(const MlpCall& call, const MlpBackwardScratch& s) {
  LinearBackward l = linear_backward(call, Role::down_weight, call.ffn(), call.width());
  l.output_gradient = branch_gradient(call, DropoutSite::mlp_residual, s.masked_gradient);
  l.output_gradient_sums = call.residual_gradient_sums();
  if (call.gated()) {
    input_gradient(call, l, call.hidden(s.gate_gradient), false);
    swiglu_backward(call, s);
    weight_gradients(call, l, call.activated(s.activated));
    return;
  }
  if (!call.model.keeps_activated)
    call.kernels.gelu(call.stream, call.up(), call.hidden(s.activated), call.model.tokens(), call.ffn());
  l.input = call.activated(s.activated);
  l.input_gradient = call.hidden(s.up_gradient);
  l.before_gelu = call.up();
  call.kernels.linear_backward(call.stream, l);
}

/// The norm's backward stands between the projections' two halves: it recomputes their input on its way.
void project_up_backward(const MlpCall& call, const MlpBackwardScratch& s) {
  const auto linear = [&](Role weight, void* gradient) {
    LinearBackward l = linear_backward(call, weight, call.width(), call.ffn());
    l.output_gradient = call.hidden(gradient);
    return l;
  };
  const View sum = call.write(s.width_gradient, call.width());
  if (call.gated()) input_gradient(call, linear(Role::gate_weight, s.gate_gradient), sum, false);
  input_gradient(call, linear(Role::up_weight, s.up_gradient), sum, call.gated());
  normalize_input_backward(call, Role::mlp_norm_gain, s.width_gradient, s.normalized, s.norm);
  const ConstView normalized = call.read(s.normalized, call.width());
  if (call.gated()) weight_gradients(call, linear(Role::gate_weight, s.gate_gradient), normalized);
  weight_gradients(call, linear(Role::up_weight, s.up_gradient), normalized);
}

}  // namespace

void mlp_forward_part(const PartCall& part) {
  const MlpCall call{part};
  ScratchLayout scratch = call.scratch(call.part.forward);
  const MlpForwardScratch s(scratch, call.model);
  normalize_input(call, Role::mlp_norm_gain, s.normalized);
  project_up(call, s);
  if (call.buffers.output != nullptr) project_down(call, s);
}

void mlp_backward_part(const PartCall& part) {
  const MlpCall call{part};
  ScratchLayout scratch = call.scratch(call.part.backward);
  const MlpBackwardScratch s(scratch, call.model);
  project_down_backward(call, s);
  project_up_backward(call, s);
}

}  // namespace tessera
