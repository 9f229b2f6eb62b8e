#include "cuda/kernels/attention_proof.hpp"

#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/cuda/check.hpp"

namespace tessera {

namespace {

using Bits = std::vector<std::uint16_t>;

/// Waits for the gradients of queries, keys and values, and returns them.
Bits gradients_of(cudaStream_t stream, const AttentionBackward& a) {
  const AttentionShape& s = a.shape;
  const std::int64_t rows = s.batch * s.sequence, of_queries = s.heads * s.head_width,
                     of_keys = s.kv_heads * s.head_width;
  Bits bits(static_cast<std::size_t>(rows * (of_queries + 2 * of_keys)));
  std::uint16_t* to = bits.data();
  const auto take = [&](const View& from, std::int64_t columns) {
    const auto bytes = static_cast<std::size_t>(columns) * 2;
    TESSERA_CHECK_CUDA(cudaMemcpy2DAsync(to, bytes, from.data, static_cast<std::size_t>(from.stride) * 2, bytes,
                                         static_cast<std::size_t>(rows), cudaMemcpyDeviceToHost, stream));
    to += rows * columns;
  };
  take(a.query_gradient, of_queries), take(a.key_gradient, of_keys), take(a.value_gradient, of_keys);
  TESSERA_CHECK_CUDA(cudaStreamSynchronize(stream));
  return bits;
}

}  // namespace

void prove_deterministic(cudaStream_t stream, const AttentionBackward& a, std::int64_t scratch_bytes,
                         const std::string& name, const std::function<void()>& play) {
  const auto played = [&](int contents) {
    TESSERA_CHECK_CUDA(cudaMemsetAsync(a.scratch, contents, static_cast<std::size_t>(scratch_bytes), stream));
    play();
    return gradients_of(stream, a);
  };
  if (played(0xff) == played(0)) return;
  throw DeviceError(
      "{} computed a deterministic attention backward twice, and its gradients differ. Own kernels have the same bits "
      "each time: use run.attention = own.",
      name);
}

}  // namespace tessera
