#pragma once
// The ceilings that a machine sets to kernels, measured.

#include <cstdint>
#include <memory>

#include "tessera/backend/region.hpp"
#include "tessera/backend/stream.hpp"
#include "tessera/base/dtype.hpp"
#include "tessera/kernels/kernels.hpp"

namespace tessera {

/// The rate of matrix products, large ones and some that suit caches, through linear_forward: the best of all samples,
/// so that products are measured as often, and at the same times, as what is compared with them.
class ProductRate {
 public:
  explicit ProductRate(Kernels& kernels, DType dtype);
  /// Times each of several shapes twice.
  void sample();
  /// FLOP/s; 0 without samples.
  double best() const { return best_; }

 private:
  Kernels& kernels_;
  DType dtype_;
  std::unique_ptr<Stream> stream_;
  Region input_, weight_, output_;
  double best_ = 0;
};

/// Bytes per second, read and written, of the best of several copies (fp32 to fp32 by Kernels::cast) between buffers
/// much larger than the caches.
double copy_rate(Kernels& kernels);

}  // namespace tessera
