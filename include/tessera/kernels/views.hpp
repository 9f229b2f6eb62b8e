#pragma once
// Views: the address and type of a kernel's matrix. A view owns nothing.

#include <cstddef>
#include <cstdint>

#include "tessera/base/dtype.hpp"

namespace tessera {

/// A matrix that a kernel reads: rows of contiguous elements, `stride` elements from one row to the next.
/// A vector is one row. Empty (null data) means "not there" wherever an argument is optional.
struct ConstView {
  const void* data = nullptr;
  DType dtype = DType::fp32;
  std::int64_t stride = 0;

  explicit operator bool() const { return data != nullptr; }
  /// Returns the address of element (row, column).
  const void* at(std::int64_t row, std::int64_t column = 0) const {
    return static_cast<const std::byte*>(data) + (row * stride + column) * size_of(dtype);
  }
  /// Returns the matrix that starts at `column` of each row.
  ConstView columns_from(std::int64_t column) const { return {at(0, column), dtype, stride}; }
  ConstView rows_from(std::int64_t row) const { return {at(row), dtype, stride}; }
};

/// A matrix that a kernel writes.
struct View {
  void* data = nullptr;
  DType dtype = DType::fp32;
  std::int64_t stride = 0;

  explicit operator bool() const { return data != nullptr; }
  // NOLINTNEXTLINE(google-explicit-constructor): a writable view is readable, without a cast
  operator ConstView() const { return {data, dtype, stride}; }
  void* at(std::int64_t row, std::int64_t column = 0) const {
    return static_cast<std::byte*>(data) + (row * stride + column) * size_of(dtype);
  }
  View columns_from(std::int64_t column) const { return {at(0, column), dtype, stride}; }
  View rows_from(std::int64_t row) const { return {at(row), dtype, stride}; }
};

/// A gradient that a kernel writes: accumulated in fp32 inside the kernel, rounded once when it is stored.
struct GradientView {
  View view;
  bool adds = false;  ///< add the finished gradient to the memory instead of storing it

  explicit operator bool() const { return view.data != nullptr; }
};

/// fp32 [rows, columns] without gaps: each row is the sum of some rows of a matrix, and each of those is in one sum.
struct PartialSums {
  float* data = nullptr;
  std::int64_t rows = 0;

  explicit operator bool() const { return data != nullptr; }
};

}  // namespace tessera
