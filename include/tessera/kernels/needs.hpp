#pragma once
// The memory that the kernels of a kind of device need, by shape alone, so that a plan needs no device.

#include <cstdint>

#include "tessera/backend/device_kind.hpp"
#include "tessera/kernels/arguments.hpp"
#include "tessera/kernels/gpu_attention.hpp"

namespace tessera {

/// Rows and columns of packed operands in fp8: matmuls read 16 bytes at a time.
inline constexpr std::int64_t kFp8Pad = 16;

/// Sizes are upper bounds for every implementation on that kind of device, in bytes.
class KernelNeeds {
 public:
  virtual ~KernelNeeds() = default;

  // `scratch` of single calls
  virtual std::int64_t embedding_backward(std::int64_t tokens) const = 0;
  virtual std::int64_t norm_backward(std::int64_t tokens, std::int64_t width) const = 0;
  /// `by` is for GPUs; cuDNN only where cudnn_obstacle() finds none.
  virtual std::int64_t attention_backward(const AttentionShape& shape, DType dtype, GpuAttention by) const = 0;
  virtual std::int64_t head(const HeadShape& shape) const = 0;
  virtual std::int64_t orthogonalize(std::int64_t rows, std::int64_t columns) const = 0;

  /// Rows of NormBackward::input_gradient_sums; 0 where norm backward makes no such sums.
  virtual std::int64_t gradient_sum_rows(std::int64_t tokens, std::int64_t width) const = 0;
  /// Whether copies in fp8 hold codes (DType e4m3, e5m2), in memory whose rows and columns are rounded up to multiples
  /// of kFp8Pad, with zeros in what is added. Otherwise their numbers are in the input's type, without gaps.
  virtual bool packs_fp8() const = 0;
  /// Elements from row to row of scratch with `width` elements per row.
  virtual std::int64_t row_stride(std::int64_t width) const = 0;
  /// Device memory that kernels keep as long as a run lives, independent of every shape.
  virtual std::int64_t workspace() const = 0;
  /// Pinned host memory for a step's input (up to `integers`) and scalars, which host and device hand each other. 0
  /// where both reach the same memory.
  virtual std::int64_t exchange(std::int64_t integers) const = 0;
  /// The part of planned bytes that the device's memory limits.
  virtual std::int64_t limited(std::int64_t on_device, std::int64_t on_host) const = 0;
};

const KernelNeeds& kernel_needs(DeviceKind device);

}  // namespace tessera
