#pragma once
// Words of pinned host memory that a stream writes when it comes there, also in graphs.

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace tessera {

class StreamWrites {
 public:
  /// Tries out, on `stream`, whether the driver's own write (cuStreamWriteValue32) can be captured. That write needs no
  /// place on the GPU's processors. Where it does not work, a kernel of one thread takes its place.
  explicit StreamWrites(cudaStream_t stream);

  /// Enqueues word = value, visible to the host after all earlier work of the stream.
  void write(cudaStream_t stream, std::uint32_t* word, std::uint32_t value) const;
  bool uses_driver() const { return drivers_ != nullptr; }

 private:
  PFN_cuStreamWriteValue32_v11070 drivers_ = nullptr;
};

/// Enqueues word = value as a kernel.
void launch_store_word(cudaStream_t stream, std::uint32_t* word, std::uint32_t value);

}  // namespace tessera
