// The kernels that finish a matmul, called directly: no library's matmul runs before them, so that a sanitizer that
// cannot follow those still checks these.
#include <catch2/catch.hpp>

#include "cuda/kernels/finish_matmul.hpp"
#include "kernels/cuda/test_device.hpp"
#include "kernels/tensors.hpp"
#include "tessera/backend/cuda_device.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

struct Size {
  std::int64_t rows, columns;
};
constexpr Size kSizes[] = {{1, 1}, {3, 7}, {33, 264}, {70, 401}};

/// A tensor's copy on the GPU.
class OnDevice {
 public:
  OnDevice(tessera::Device& device, const Tensor& from, std::int64_t bytes)
      : device_(device), memory_(device.allocate(MemoryKind::device, bytes)), bytes_(bytes) {
    device.copy(memory_->data(), from.data(), bytes);
  }
  View view(const Tensor& like) const { return {memory_->data(), like.view().dtype, like.view().stride}; }
  void read(Tensor& to) const { device_.copy(to.data(), memory_->data(), bytes_); }

 private:
  tessera::Device& device_;
  std::unique_ptr<DeviceMemory> memory_;
  std::int64_t bytes_;
};

/// A GPU with a stream, and tensors of one size on it.
struct FinishingGpu {
  explicit FinishingGpu(const Size& size) : rows(size.rows), columns(size.columns) {
    prepare_test_device(1);
    device = make_cuda_device(0);
    stream = device->make_stream("test");
  }
  Tensor random(DType dtype, std::uint32_t seed) const { return Tensor::random(rows, columns, dtype, seed); }
  OnDevice put(const Tensor& tensor) const { return {*device, tensor, rows * columns * size_of(tensor.view().dtype)}; }
  FinishRows finish_rows(const OnDevice& matmul, const Tensor& like) const {
    return {matmul.view(like), 0, rows, columns};
  }
  cudaStream_t native() const { return static_cast<cudaStream_t>(stream->native()); }

  std::int64_t rows, columns;
  std::unique_ptr<tessera::Device> device;
  std::unique_ptr<Stream> stream;
};

double gelu_new_slope(double x) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

}  // namespace

TEST_CASE("finish: a linear's output is the matmul, its bias and the residual", "[linear]") {
  for (const DType dtype : kFloatTypes) {
    for (const Size& size : kSizes) {
      INFO(name_of(dtype) << " " << size.rows << "x" << size.columns);
      const FinishingGpu gpu(size);
      const Tensor matmul = gpu.random(DType::fp32, 1), residual = gpu.random(dtype, 2), bias = gpu.random(dtype, 3);
      const OnDevice m = gpu.put(matmul), r = gpu.put(residual), b = gpu.put(bias), y = gpu.put(residual);
      finish_linear(gpu.native(), gpu.finish_rows(m, matmul), b.view(bias), r.view(residual), y.view(residual), {});
      gpu.stream->synchronize();
      Tensor output(size.rows, size.columns, dtype);
      y.read(output);
      Doubles expected = matmul.values();
      const Doubles added = residual.values(), biases = bias.values();
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] += added[i] + biases[i % static_cast<std::size_t>(size.columns)];
      CHECK(relative_error(output.values(), expected) < tolerance(dtype));
    }
  }
}

TEST_CASE("finish: an input's gradient is the matmul, and what it adds to, times GELU's slope", "[linear]") {
  for (const DType dtype : kFloatTypes) {
    for (const bool adds : {false, true}) {
      for (const Size& size : kSizes) {
        INFO(name_of(dtype) << " adds " << adds << " " << size.rows << "x" << size.columns);
        const FinishingGpu gpu(size);
        const Tensor matmul = gpu.random(DType::fp32, 1), before = gpu.random(dtype, 2), there = gpu.random(dtype, 3);
        const OnDevice m = gpu.put(matmul), u = gpu.put(before), dx = gpu.put(there);
        finish_input_gradient(gpu.native(), gpu.finish_rows(m, matmul), u.view(before), {dx.view(there), adds}, {});
        gpu.stream->synchronize();
        Tensor output(size.rows, size.columns, dtype);
        dx.read(output);
        Doubles expected = matmul.values();
        const Doubles inputs = before.values(), old = there.values();
        for (std::size_t i = 0; i < expected.size(); ++i)
          expected[i] = (expected[i] + (adds ? old[i] : 0)) * gelu_new_slope(inputs[i]);
        CHECK(relative_error(output.values(), expected) < tolerance(dtype));
      }
    }
  }
}

TEST_CASE("finish: a gradient is the matmul, stored or added", "[linear]") {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const bool adds : {false, true}) {
      for (const Size& size : kSizes) {
        INFO(name_of(dtype) << " adds " << adds << " " << size.rows << "x" << size.columns);
        const FinishingGpu gpu(size);
        const Tensor matmul = gpu.random(DType::fp32, 1), there = gpu.random(dtype, 2);
        const OnDevice m = gpu.put(matmul), g = gpu.put(there);
        finish_gradient(gpu.native(), gpu.finish_rows(m, matmul), {g.view(there), adds});
        gpu.stream->synchronize();
        Tensor output(size.rows, size.columns, dtype);
        g.read(output);
        Doubles expected = matmul.values();
        const Doubles before = there.values();
        for (std::size_t i = 0; i < expected.size() && adds; ++i) expected[i] += before[i];
        CHECK(relative_error(output.values(), expected) < tolerance(dtype));
      }
    }
  }
}
