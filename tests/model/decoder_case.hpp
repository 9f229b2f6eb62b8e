#pragma once
// Small decoders of every family, and their comparison with the plain one in double.

#include <catch2/catch.hpp>
#include <ranges>

#include "model/double_decoder.hpp"
#include "model/model_run.hpp"
#include "sanitized.hpp"

namespace tessera::testing {

inline Architecture small(std::int64_t layers, std::int64_t heads, std::int64_t width, std::int64_t vocab,
                          bool tied = true) {
  Architecture a = preset("nano");
  a.layers = layers, a.heads = heads, a.kv_heads = heads, a.width = width, a.ffn_width = 3 * width + 1;
  a.vocab = vocab, a.context = 70, a.tied_head = tied;
  return a;
}

struct Sizes {
  std::int64_t layers, heads, kv_heads, width, ffn_width, vocab;
};

/// Qwen2, Llama or Qwen3 in small; a short rotary base, so that positions of a few tokens already rotate by all sorts
/// of angles.
inline Architecture small_rotary(Family family, const Sizes& sizes, bool tied) {
  Architecture a{{}, rules_of(family).form};
  a.layers = sizes.layers, a.heads = sizes.heads, a.kv_heads = sizes.kv_heads, a.width = sizes.width;
  a.ffn_width = sizes.ffn_width, a.vocab = sizes.vocab, a.context = 70, a.tied_head = tied;
  a.rope_theta = 30;
  return a;
}

inline Architecture small_qwen2() { return small_rotary(Family::qwen2, {2, 4, 2, 16, 21, 13}, true); }

/// Scales positions as Llama 3.1 does, in a range that a few tokens reach: some frequencies kept, some mixed, some
/// divided.
inline Architecture small_llama() {
  Architecture a = small_rotary(Family::llama, {2, 3, 1, 18, 13, 17}, false);
  a.rope_scaling = {12, 4, 1, 4};
  return a;
}

/// Qwen3 in small: heads wider than width / heads, each with norms of its query and key.
inline Architecture small_qwen3(bool tied = true) {
  Architecture a = small_rotary(Family::qwen3, {2, 4, 2, 18, 13, 17}, tied);
  a.head_dim = 6;
  return a;
}

/// Tokens for `run`, and parameters far from their initial values, so that every term of a gradient counts.
inline void prepare(ModelRun& run) {
  const std::int64_t vocab = run.model.architecture.vocab;
  for (std::int64_t i = 0; i < run.model.tokens(); ++i) {
    run.tokens.push_back(static_cast<std::int32_t>((i * i + 3) % vocab));
    run.targets.push_back(static_cast<std::int32_t>((i * 5 + 1) % vocab));
  }
  for (const TensorId i : run.parameters.ids()) {
    const std::int64_t n = run.model.tensors[i].elements;
    const bool matrix = run.model.tensors[i].shape.size() == 2;
    ParameterTensor t = run.model.tensors[i];
    t.initialization = Initialization::normal, t.standard_deviation = matrix ? 0.3 : 0.2;
    std::vector<float> values(static_cast<std::size_t>(n));
    initialize_slice(t, i, 99, 0, values);
    if (run.model.tensors[i].initialization == Initialization::one) {
      for (float& v : values) v += 1.0f;
    }
    from_doubles(Doubles(values.begin(), values.end()), run.model.compute, run.parameters[i]);
  }
}

inline Doubles gradient_of(const ModelRun& run, TensorId tensor) {
  return to_doubles(run.gradients[tensor], run.model.gradient, run.model.tensors[tensor].elements);
}

/// Checks the gradients of the last run.train(), of a model in fp32: along them the loss changes by step *
/// |gradient|^2.
inline void check_along_gradient(ModelRun& run, double tolerance) {
  IndexedVector<TensorId, Doubles> gradients, parameters;
  double squares = 0;
  for (const TensorId i : run.gradients.ids()) {
    const ParameterTensor& tensor = run.model.tensors[i];
    gradients.push_back(tensor.trains ? gradient_of(run, i) : Doubles(static_cast<std::size_t>(tensor.elements)));
    parameters.push_back(to_doubles(run.parameters[i], DType::fp32, tensor.elements));
    for (const double g : gradients.back()) squares += g * g;
  }
  const auto loss_at = [&](double step) {
    for (const TensorId i : gradients.ids()) {
      Doubles moved = parameters[i];
      for (std::size_t k = 0; k < moved.size(); ++k) moved[k] += step * gradients[i][k];
      from_doubles(moved, DType::fp32, run.parameters[i]);
    }
    return run.evaluate() / static_cast<double>(run.model.tokens());
  };
  const double h = 1e-3 / std::sqrt(squares);
  CHECK((loss_at(h) - loss_at(-h)) / (2 * h) == Approx(squares).epsilon(tolerance));
  loss_at(0);
}

inline bool same_bits(const Guarded& a, const Guarded& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.bytes())) == 0;
}

inline void compare_with_double(const Architecture& a, std::int64_t batch, std::int64_t sequence, DType compute,
                                DType gradient, double loss_tolerance, double gradient_tolerance) {
  ModelRun run(a, batch, sequence, compute, gradient, 2);
  prepare(run);
  DoubleDecoder truth(run.model, run.tokens, run.targets);
  for (const TensorId i : run.parameters.ids()) {
    truth.parameters[run.model.tensors[i].name] = to_doubles(run.parameters[i], compute, run.model.tensors[i].elements);
  }
  run.train();
  const double expected = truth.loss();
  CHECK(std::abs(run.loss / static_cast<double>(run.model.tokens()) - expected) <= loss_tolerance * expected);
  for (const TensorId i : kSanitized ? std::views::iota(TensorId(0), TensorId(0))
                                     : run.model.tensors.ids()) {  // the reference takes a minute there
    if (!run.model.tensors[i].trains) continue;
    INFO(run.model.tensors[i].name);
    CHECK(relative_error(gradient_of(run, i), truth.gradient(run.model.tensors[i].name)) < gradient_tolerance);
  }
  CHECK(run.intact());
  CHECK(run.evaluate() == run.loss);
}

}  // namespace tessera::testing
