#pragma once
// How near two 16-bit computations of one training must be, whatever the processor and the order of its sums.

#include <algorithm>
#include <cmath>
#include <vector>

#include "training/session_case.hpp"

namespace tessera::testing {

/// Half a unit in the last place of 1.
inline double roundoff(DType dtype) { return dtype == DType::fp16 ? 0x1p-11 : 0x1p-8; }

/// Returns `weights` (empty: the usual initial ones), each moved by up to a rounding of `dtype`, by the bits of `seed`.
inline TensorSource rounded_otherwise(const Architecture& architecture, const TensorSource& weights, DType dtype,
                                      std::uint32_t seed) {
  return [tensors = parameter_tensors(architecture), weights, dtype, seed](TensorId tensor, std::int64_t first,
                                                                           std::span<float> out) {
    if (weights)
      weights(tensor, first, out);
    else
      initialize_slice(tensors[tensor], tensor, 1, first, out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto place = static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(i);
      const std::uint32_t bits = (place * 2654435761u) ^
                                 (static_cast<std::uint32_t>(tensor - TensorId(0) + 1) * 40503u) ^ (seed * 2246822519u);
      out[i] *= static_cast<float>(1 + roundoff(dtype) * (static_cast<double>((bits * 2654435761u) >> 8) / 0x1p23 - 1));
    }
  };
}

/// A training in 16 bits on CPUs, and how far rounding may move each of its figures.
///
/// Before the first update a computation's error is that of its own roundings: losses are means over many tokens, so
/// they are within a part of a roundoff, and gradients within a few. From then on AdamW turns the sign of gradients
/// that are nothing but noise into whole steps, so that two right computations part as far as rounding drives them,
/// and no fixed bound holds on every processor. That distance is measured by runs whose first weights are rounded
/// otherwise; a right computation stays within a few times the largest distance so far.
class SixteenBits {
 public:
  /// `options`: with precision.compute in 16 bits; any device.
  SixteenBits(Options options, const Architecture& architecture, std::int64_t world, const TensorSource& weights = {})
      : roundoff_(roundoff(options.precision.compute)) {
    options.run.device = DeviceKind::cpu;
    options.run.attention = AttentionChoice::automatic;
    options.comm.backend = CommOptions().backend;
    cpu = train_locally(options, architecture, world, world, {}, weights);
    for (std::uint32_t seed = 1; seed <= 6; ++seed) {
      others_.push_back(train_locally(options, architecture, world, world, {},
                                      rounded_otherwise(architecture, weights, options.precision.compute, seed)));
    }
  }

  /// Checks losses, norms and evaluations of all steps.
  void check_near(const RunOutcome& run) const {
    check_figures("loss", &RunOutcome::losses, run, roundoff_ / 4);
    check_figures("norm", &RunOutcome::norms, run, 4 * roundoff_);
    REQUIRE(run.evaluations.size() == cpu.evaluations.size());
    for (std::size_t i = 0; i < run.evaluations.size(); ++i)
      check_figure("evaluation", run.evaluations[i], cpu.evaluations[i], distance(&RunOutcome::evaluations, i));
  }

  /// Checks the first step's gradients of a run in the same types: each tensor against its own size, or against the
  /// largest tensor's where it is nothing but rounding.
  void check_gradients(const RunOutcome& run) const {
    double largest = 0;
    for (const TensorId id : cpu.gradients.ids()) largest = std::max(largest, norm(cpu.gradients[id]));
    REQUIRE(largest > 0);
    for (const TensorId id : cpu.gradients.ids()) {
      std::vector<float> difference = run.gradients[id];
      for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= cpu.gradients[id][i];
      INFO("first gradient of tensor " << (id - TensorId(0)));
      CHECK(norm(difference) <= 4 * roundoff_ * std::max(norm(cpu.gradients[id]), 0.02 * largest));
    }
  }

  RunOutcome cpu;

 private:
  static constexpr double kTimes = 3;  ///< of the largest of six distances
  using Figures = std::vector<double> RunOutcome::*;

  double distance(Figures figures, std::size_t end) const {
    double most = 0;
    for (const RunOutcome& other : others_)
      for (std::size_t i = 0; i <= end; ++i) most = std::max(most, std::abs((other.*figures)[i] - (cpu.*figures)[i]));
    return kTimes * most;
  }

  /// A step that overflowed has no norm.
  static void check_figure(const char* name, double value, double expected, double allowed) {
    if (std::isnan(expected)) {
      CHECK(std::isnan(value));
      return;
    }
    INFO(name << " " << value << " against " << expected << ", " << std::abs(value - expected) / allowed
              << " of what rounding allows");
    CHECK(std::abs(value - expected) <= allowed);
  }

  void check_figures(const char* name, Figures figures, const RunOutcome& run, double first) const {
    const std::vector<double>&values = run.*figures, &expected = cpu.*figures;
    REQUIRE(values.size() == expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      INFO("step " << i + 1);
      check_figure(name, values[i], expected[i], i == 0 ? first * std::abs(expected[0]) : distance(figures, i));
    }
  }

  static double norm(const std::vector<float>& values) {
    double sum = 0;
    for (const float x : values) sum += static_cast<double>(x) * static_cast<double>(x);
    return std::sqrt(sum);
  }

  double roundoff_;
  std::vector<RunOutcome> others_;
};

}  // namespace tessera::testing
