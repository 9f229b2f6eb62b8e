#pragma once
// Tensors of a storage type for kernel tests: random or NaN-filled, guarded, and readable as doubles.

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/guarded.hpp"
#include "tessera/backend/stream.hpp"
#include "tessera/backend/thread_pool.hpp"
#include "tessera/kernels/kernels.hpp"

namespace tessera::testing {

using Doubles = std::vector<double>;

class Tensor {
 public:
  /// Filled with a pattern that reads as NaN.
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
  /// What is stored.
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

/// Kernels over a pool of so many threads.
struct Device {
  explicit Device(int threads = 2, InstructionSet set = best_instruction_set())
      : pool(threads), kernels(make_cpu_kernels(pool, set)), stream(make_serial_stream("test")) {}
  Kernels* operator->() { return kernels.get(); }

  ThreadPool pool;
  std::unique_ptr<Kernels> kernels;
  std::unique_ptr<Stream> stream;
};

/// Relative error that a kernel may have with values stored in `dtype`.
inline double tolerance(DType dtype) { return dtype == DType::fp32 ? 1e-6 : dtype == DType::fp16 ? 2e-3 : 1e-2; }

inline double at(const Doubles& m, std::int64_t columns, std::int64_t row, std::int64_t column) {
  return m[static_cast<std::size_t>(row * columns + column)];
}

inline constexpr DType kFloatTypes[] = {DType::fp32, DType::bf16, DType::fp16};
inline constexpr InstructionSet kInstructionSets[] = {InstructionSet::scalar, InstructionSet::avx2,
                                                      InstructionSet::avx512};

}  // namespace tessera::testing
