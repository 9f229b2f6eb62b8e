#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/tensors.hpp"
#include "tessera/kernels/needs.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;

/// A row-major matrix in double.
struct Matrix {
  std::int64_t rows, columns;
  Doubles values;
  double at(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * columns + column)];
  }
};

Matrix multiplied(const Matrix& a, const Matrix& b) {
  Matrix c{a.rows, b.columns, Doubles(static_cast<std::size_t>(a.rows * b.columns))};
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t k = 0; k < a.columns; ++k) {
      for (std::int64_t j = 0; j < b.columns; ++j)
        c.values[static_cast<std::size_t>(i * b.columns + j)] += a.at(i, k) * b.at(k, j);
    }
  }
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix b{a.columns, a.rows, Doubles(a.values.size())};
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.columns; ++j) b.values[static_cast<std::size_t>(j * a.rows + i)] = a.at(i, j);
  }
  return b;
}

/// The iterations as torch.optim.Muon has them, of the transposed matrix if that is wider.
Matrix orthogonalized(Matrix x, std::int64_t steps) {
  if (x.rows > x.columns) return transposed(orthogonalized(transposed(x), steps));
  double squares = 0;
  for (const double v : x.values) squares += v * v;
  for (double& v : x.values) v /= std::max(std::sqrt(squares), 1e-7);
  for (std::int64_t step = 0; step < steps; ++step) {
    const Matrix gram = multiplied(x, transposed(x)), square = multiplied(gram, gram);
    Matrix polynomial = gram;
    for (std::size_t i = 0; i < gram.values.size(); ++i)
      polynomial.values[i] = kB * gram.values[i] + kC * square.values[i];
    const Matrix moved = multiplied(polynomial, x);
    for (std::size_t i = 0; i < x.values.size(); ++i) x.values[i] = kA * x.values[i] + moved.values[i];
  }
  return x;
}

/// Tolerances: fp32 iterations on cores; bf16 on GPUs, where five of them round fifteen matrices.
double allowed() { return tested_kind() == DeviceKind::cpu ? 1e-5 : 5e-2; }

/// A call on columns [first, first + columns) of wider rows.
struct Case {
  std::int64_t rows, columns;
  std::int64_t stride = 0, first = 0;
};

void check(Device& device, const Case& c, std::int64_t steps, bool in_place) {
  INFO(c.rows << " x " << c.columns << " of rows of " << c.stride << ", " << steps << " steps, in place " << in_place);
  const std::int64_t stride = c.stride > 0 ? c.stride : c.columns;
  Tensor input = Tensor::random(c.rows, stride, DType::fp32, 7, 1e-3), output(c.rows, stride, DType::fp32);
  Matrix wanted{c.rows, c.columns, {}};
  const Doubles before = input.values();
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.columns; ++j) wanted.values.push_back(at(before, stride, i, c.first + j));
  }
  wanted = orthogonalized(wanted, steps);
  Guarded scratch(kernel_needs(tested_kind()).orthogonalize(c.rows, c.columns));
  Orthogonalize a;
  a.rows = c.rows, a.columns = c.columns, a.steps = steps, a.scratch = scratch.data();
  Tensor& result = in_place ? input : output;
  a.input = input.view().columns_from(c.first), a.output = result.view().columns_from(c.first);
  device.run(a);
  Doubles got;
  const Doubles after = result.values();
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.columns; ++j) got.push_back(at(after, stride, i, c.first + j));
  }
  CHECK(relative_error(got, wanted.values) < allowed());
  for (std::int64_t i = 0; in_place && i < c.rows; ++i) {
    for (std::int64_t j = 0; j < stride; ++j) {
      const bool mine = j >= c.first && j < c.first + c.columns;
      if (!mine && at(after, stride, i, j) != at(before, stride, i, j)) FAIL("a neighbour changed");
    }
  }
  CHECK((input.intact() && output.intact() && scratch.intact()));
}

}  // namespace

TEST_CASE("Newton-Schulz iterations follow the formula in double, wide and tall, in rows of others",
          "[orthogonalize]") {
  Device device;
  for (const Case& c : {Case{1, 1}, Case{1, 7}, Case{7, 1}, Case{5, 3}, Case{3, 5}, Case{64, 64}, Case{33, 130},
                        Case{130, 33}, Case{24, 24, 72, 24}, Case{20, 9, 31, 5}}) {
    check(device, c, 5, false);
    check(device, c, 5, true);
  }
  check(device, {8, 12}, 1, false);
  check(device, {12, 8}, 0, false);
}

TEST_CASE("a matrix of several tiles, and one of zeros", "[orthogonalize]") {
  Device device;
  if (tested_kind() == DeviceKind::cpu) check(device, {300, 420}, 5, false);
  Tensor zeros = Tensor::random(6, 10, DType::fp32, 1, 0.0), output(6, 10, DType::fp32);
  Guarded scratch(kernel_needs(tested_kind()).orthogonalize(6, 10));
  Orthogonalize a;
  a.rows = 6, a.columns = 10, a.input = zeros.view(), a.output = output.view(), a.scratch = scratch.data();
  device.run(a);
  for (const double v : output.values()) CHECK(v == 0);
}

TEST_CASE("Newton-Schulz iterations have the same bits on any number of threads", "[orthogonalize]") {
  if (tested_kind() != DeviceKind::cpu) return;
  const Tensor input = Tensor::random(300, 130, DType::fp32, 3);
  std::vector<Tensor> outputs;
  for (const int threads : {1, 2, 3}) {
    Device device(threads);
    Guarded scratch(kernel_needs(tested_kind()).orthogonalize(300, 130));
    Tensor& output = outputs.emplace_back(300, 130, DType::fp32);
    Orthogonalize a;
    a.rows = 300, a.columns = 130, a.input = input.view(), a.output = output.view(), a.scratch = scratch.data();
    device.run(a);
    CHECK(output.same_bits(outputs.front()));
  }
}
