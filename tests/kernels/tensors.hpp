#pragma once
// Tensors of a storage type for kernel tests: random or NaN-filled, guarded, and readable as doubles.

#include <cstring>
#include <random>
#include <vector>

#include "kernels/guarded.hpp"
#include "kernels/tested.hpp"
#include "tessera/backend/stream.hpp"
#include "tessera/kernels/kernels.hpp"

namespace tessera::testing {

using Doubles = std::vector<double>;

class Tensor {
 public:
  /// Fills it with a pattern that reads as NaN.
  Tensor(std::int64_t rows, std::int64_t columns, DType dtype)
      : rows_(rows), columns_(columns), dtype_(dtype), memory_(rows * columns * size_of(dtype)) {}

  static Tensor random(std::int64_t rows, std::int64_t columns, DType dtype, std::uint32_t seed, double scale = 1.0) {
    Tensor t(rows, columns, dtype);
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal(0.0, scale);
    Doubles values(static_cast<std::size_t>(rows * columns));
    for (double& v : values) v = normal(generator);
    from_doubles(values, dtype, t.memory_.data());
    return t;
  }

  View view() { return {memory_.data(), dtype_, columns_}; }
  ConstView view() const { return {memory_.data(), dtype_, columns_}; }
  GradientView gradient(bool adds = false) { return {view(), adds}; }
  /// Returns the stored values.
  Doubles values() const { return to_doubles(memory_.data(), dtype_, rows_ * columns_); }
  bool same_bits(const Tensor& other) const {
    return memory_.bytes() == other.memory_.bytes() &&
           std::memcmp(memory_.data(), other.memory_.data(), static_cast<std::size_t>(memory_.bytes())) == 0;
  }
  bool intact() const { return memory_.intact(); }
  float* floats() { return memory_.as<float>(); }
  const float* floats() const { return memory_.as<float>(); }
  void* data() { return memory_.data(); }
  const void* data() const { return memory_.data(); }

 private:
  std::int64_t rows_, columns_;
  DType dtype_;
  Guarded memory_;
};

/// Kernels of the kind that this binary tests, and a stream for them (kernels/tested.hpp).
struct Device {
  explicit Device(int threads = 2, InstructionSet set = best_instruction_set(), Pieces pieces = Pieces::usual)
      : tested(open_tested(threads, set, pieces)), kernels(tested.kernels.get()), stream(tested.stream.get()) {}
  void run(const KernelArguments& call) { kernels->run(*stream, call); }

  Tested tested;
  Kernels* kernels;
  Stream* stream;
};

/// Returns the relative error that a kernel may have with values stored in `dtype`.
inline double tolerance(DType dtype) {
  if (dtype == DType::fp32) return tested_kind() == DeviceKind::cpu ? 1e-6 : 1e-5;
  return dtype == DType::fp16 ? 2e-3 : 1e-2;
}

inline double at(const Doubles& m, std::int64_t columns, std::int64_t row, std::int64_t column) {
  return m[static_cast<std::size_t>(row * columns + column)];
}

inline constexpr DType kFloatTypes[] = {DType::fp32, DType::bf16, DType::fp16};
/// Of CPUs. A GPU's kernels are tested with one of them.
inline const std::vector<InstructionSet> kInstructionSets =
    tested_kind() == DeviceKind::cpu
        ? std::vector<InstructionSet>{InstructionSet::scalar, InstructionSet::avx2, InstructionSet::avx512}
        : std::vector<InstructionSet>{InstructionSet::scalar};

}  // namespace tessera::testing
