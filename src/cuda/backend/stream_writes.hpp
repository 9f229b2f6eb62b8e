#pragma once
// Words of pinned host memory that a stream writes when it comes there, also in graphs.

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace tessera {

class StreamWrites {
 public:
  /// Tries out, on `stream`, whether the driver's own write (cuStreamWriteValue32) can be captured. It needs no place
  /// on the GPU's processors; a kernel of one thread does the same where it does not work.
  explicit StreamWrites(cudaStream_t stream);

  /// Enqueues word = value, visible to the host after all earlier work of the stream.
  void write(cudaStream_t stream, std::uint32_t* word, std::uint32_t value) const;
  bool is_drivers() const { return drivers_ != nullptr; }

 private:
  PFN_cuStreamWriteValue32_v11070 drivers_ = nullptr;
};

/// Enqueues word = value as a kernel.
void launch_store_word(cudaStream_t stream, std::uint32_t* word, std::uint32_t value);

}  // namespace tessera
