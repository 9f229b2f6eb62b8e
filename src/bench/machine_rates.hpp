#pragma once
// A machine's ceilings for kernels: measured ones, and those of the GPUs' datasheets.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/stream_clock.hpp"
#include "tessera/backend/device.hpp"
#include "tessera/base/dtype.hpp"
#include "tessera/config/options.hpp"
#include "tessera/kernels/kernels.hpp"

namespace tessera {

/// [tokens, in] times [in, out].
struct MatmulShape {
  std::int64_t tokens = 0, in = 0, out = 0;
};

double flops_of(const MatmulShape& shape);

/// The sizes at which ceilings are measured.
struct RateSizes {
  std::vector<MatmulShape> matmuls;
  std::int64_t copy_bytes = 0;  ///< read by a copy; as many are written
  double held_seconds = 0;      ///< for how long a ceiling must be held; 0: not measured
};

/// Returns the sizes of a device. CPU: large matmuls and some that suit caches, and copies of four times the last level
/// of cache. GPU: squares of 8192 and 4096 and copies of 1 GiB; less if its memory is below some 80 GB.
/// Because a GPU's clock falls under load, its ceilings are also held for two seconds.
RateSizes rate_sizes(const Device& device);
/// Returns a GPU's sizes by its total and free memory, because `bench step` measures after its session filled the GPU.
RateSizes gpu_rate_sizes(std::int64_t total, std::int64_t free);

/// Samples of a ceiling are taken as often, and at the same times, as the measurements it is compared with; the best
/// counts. Device, stream and kernels must outlive it. On a GPU sample() only enqueues.
class MatmulRate {
 public:
  MatmulRate(Device& device, Stream& stream, Kernels& kernels, DType dtype, const RateSizes& sizes);
  /// Runs matmuls through linear_forward, each shape twice.
  void sample();
  /// Returns FLOP/s; 0 without samples. Waits for them.
  double best();
  /// Returns the FLOP/s of the first shape over the second half of `seconds` of nothing else; NaN if `seconds` is 0.
  double held(double seconds);

 private:
  void multiply(const MatmulShape& shape);

  Stream& stream_;
  Kernels& kernels_;
  DType dtype_;
  std::vector<MatmulShape> shapes_;
  StreamClock clock_;
  std::unique_ptr<DeviceMemory> input_, weight_, output_;
  double best_ = 0;
};

class CopyRate {
 public:
  CopyRate(Device& device, Stream& stream, Kernels& kernels, const RateSizes& sizes);
  /// Copies between buffers much larger than the caches: by Kernels::cast (fp32 to fp32) and by the device's own copy.
  void sample();
  /// Returns bytes per second, read and written; 0 without samples. Waits for them.
  double best();
  /// Returns the bytes per second of Kernels::cast, held as in MatmulRate::held.
  double held(double seconds);

 private:
  void cast();

  Device& device_;
  Stream& stream_;
  Kernels& kernels_;
  StreamClock clock_;
  std::unique_ptr<DeviceMemory> from_, to_;
  double best_ = 0;
};

/// Returns the FLOP/s of dense matmuls of that precision by the datasheet of the GPU of this name (Device::model); 0 if
/// that is not known here.
double datasheet_rate(const std::string& model, const PrecisionOptions& precision);

/// Formats human-readable FLOP/s: "411 GFLOP/s", "788.1 TFLOP/s".
std::string flop_rate_text(double rate);

}  // namespace tessera
