#pragma once
// The norm in front of the vocabulary, as a backend's head calls it. `Layout` is how that backend divides its scratch.

#include "tessera/kernels/arguments/head.hpp"
#include "tessera/kernels/arguments/norm.hpp"

namespace tessera {

/// Returns the arguments of the forward of the final norm.
template <class Layout>
NormForward final_norm(const HeadLoss& a, const Layout& layout) {
  NormForward norm;
  norm.tokens = a.tokens, norm.width = a.width;
  norm.epsilon = a.epsilon, norm.gain_offset = a.gain_offset, norm.subtract_mean = a.subtract_mean;
  norm.input = a.input, norm.gain = a.gain, norm.bias = a.bias;
  norm.output = {layout.normalized, a.input.dtype, a.width};
  norm.mean = layout.mean, norm.reciprocal_deviation = layout.reciprocal_deviation;
  return norm;
}

/// Returns the arguments of its backward.
template <class Layout>
NormBackward final_norm_backward(const HeadLoss& a, const Layout& layout) {
  NormBackward norm;
  norm.tokens = a.tokens, norm.width = a.width, norm.subtract_mean = a.subtract_mean;
  norm.input = a.input, norm.gain = a.gain, norm.gain_offset = a.gain_offset;
  norm.mean = layout.mean, norm.reciprocal_deviation = layout.reciprocal_deviation;
  norm.output_gradient = {layout.normalized_gradient, a.input.dtype, a.width};
  norm.input_gradient = a.input_gradient, norm.input_gradient_sums = a.input_gradient_sums;
  norm.gradient_largest = a.gradient_largest;
  norm.gain_gradient = a.gain_gradient, norm.bias_gradient = a.bias_gradient;
  norm.scratch = layout.norm_scratch;
  return norm;
}

}  // namespace tessera
