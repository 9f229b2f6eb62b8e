#pragma once
// A machine's ceilings for kernels: measured ones, and those of the GPUs' datasheets.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/stream_clock.hpp"
#include "tessera/backend/device.hpp"
#include "tessera/base/dtype.hpp"
#include "tessera/comm/rank_context.hpp"
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
/// Because a GPU's clock falls under load, its ceilings are also held for two seconds. Collective between GPUs.
RateSizes rate_sizes(RankContext& context, const Device& device);
/// Returns a GPU's sizes by its total and free memory, because `bench step` measures after its session filled the GPU.
/// The rank with the least decides, because ranks agree on the algorithm of each matmul. Collective.
RateSizes gpu_rate_sizes(RankContext& context, std::int64_t total, std::int64_t free);

/// The highest rate of some calls, in units of their work per second. Samples are taken as often, and at the same
/// times, as the measurements that it is compared with. Device, stream and what calls use must outlive it.
class Ceiling {
 public:
  struct Call {
    double work = 0;
    StreamWork run;
  };
  Ceiling(Device& device, Stream& stream, std::vector<Call> calls)
      : stream_(stream), calls_(std::move(calls)), clock_(device, stream) {}

  /// Makes each call once; on a GPU these are only enqueued.
  void sample();
  /// Returns the best rate so far; 0 without samples. Waits for them.
  double best();
  /// Returns the rate of the first call over the second half of `seconds` of nothing else; NaN if `seconds` is 0.
  double held(double seconds);

 private:
  void make(const Call& call) { clock_.begin(), call.run(stream_), clock_.end(); }

  Stream& stream_;
  std::vector<Call> calls_;
  StreamClock clock_;
  double best_ = 0;
};

/// Returns the ceiling of matmuls through LinearForward, each shape twice, in FLOP/s.
Ceiling matmul_ceiling(Device& device, Stream& stream, Kernels& kernels, DType dtype,
                       const std::vector<MatmulShape>& shapes);
/// Returns the ceiling of copies between buffers much larger than the caches, by Cast (fp32 to fp32) and by
/// the device's own copy, in bytes per second, read and written.
Ceiling copy_ceiling(Device& device, Stream& stream, Kernels& kernels, std::int64_t bytes);

/// Returns the FLOP/s of dense matmuls of that precision by the datasheet of the GPU of this name (Device::model); 0 if
/// that is not known here.
double datasheet_rate(const std::string& model, const PrecisionOptions& precision);

/// Formats human-readable FLOP/s: "411 GFLOP/s", "788.1 TFLOP/s".
std::string flop_rate_text(double rate);

}  // namespace tessera
