// Who computes attention on a GPU, and the memory that a plan sets aside for it.
#include <catch2/catch.hpp>

#include "tessera/kernels/needs.hpp"

using namespace tessera;

TEST_CASE("cuDNN is given attention in 16 bits without masks, with heads that it has") {
  const AttentionShape shape{2, 64, 4, 2, 64};
  for (const DType dtype : {DType::bf16, DType::fp16}) CHECK(cudnn_obstacle(shape, dtype, false).empty());
  CHECK_FALSE(cudnn_obstacle(shape, DType::fp32, false).empty());
  CHECK_FALSE(cudnn_obstacle(shape, DType::bf16, true).empty());
  CHECK(cudnn_obstacle({2, 64, 4, 2, 64, 0, 9}, DType::bf16, false).empty());
  for (std::int64_t width = 1; width <= 256; ++width)
    CHECK(cudnn_obstacle({2, 64, 4, 2, width}, DType::bf16, false).empty() == (width % 8 == 0 && width <= 128));
  CHECK_FALSE(cudnn_obstacle({2, 1, 4, 2, 64}, DType::bf16, false).empty());
  for (const std::int64_t window : {1, 63, 64, 65})
    CHECK(cudnn_obstacle({2, 64, 4, 2, 64, window}, DType::bf16, false).empty() == (window >= 64));
}

TEST_CASE("plans set aside what cuDNN's deterministic backward asks for, and little more") {
  // Read off plans of cuDNN 9.16, 9.19, 9.25 and 9.28 for compute capability 9.0.
  const std::pair<AttentionShape, std::int64_t> asked[] = {{{64, 1024, 12, 12, 64}, 1610612992},
                                                           {{16, 1024, 12, 2, 128}, 503316736},
                                                           {{3, 65, 2, 2, 64}, 196864},
                                                           {{2, 100, 6, 2, 8}, 431872}};
  for (const auto& [shape, bytes] : asked) {
    const auto needed = [&, shape = shape](GpuAttention by) {
      return kernel_needs(DeviceKind::cuda).attention_backward(shape, DType::bf16, by);
    };
    const std::int64_t own = needed(GpuAttention::own), all = needed(GpuAttention::deterministic_cudnn);
    CHECK((own + bytes <= all && all <= own + bytes + (65 << 10)));
    CHECK(own < needed(GpuAttention::cudnn));
  }
}

TEST_CASE("with documents, plans set aside what cuDNN was measured to take for them") {
  // Of 69 documents in 16 x 1024 tokens on an H100, cuDNN 9.19: workspaces of its frontend, which hold the same.
  struct Measured {
    AttentionShape shape;
    GpuAttention by;
    std::int64_t bytes;
  };
  const AttentionShape gpt2{16, 1024, 25, 25, 64, 0, 69}, qwen2{16, 1024, 12, 2, 128, 0, 69};
  for (const Measured& one : {Measured{gpt2, GpuAttention::cudnn, 459291136},
                              {gpt2, GpuAttention::deterministic_cudnn, 3624679936},
                              {qwen2, GpuAttention::cudnn, 871630592},
                              {qwen2, GpuAttention::deterministic_cudnn, 2173961984}}) {
    const std::int64_t planned = kernel_needs(DeviceKind::cuda).attention_backward(one.shape, DType::bf16, one.by);
    CHECK((one.bytes <= planned && planned <= one.bytes + (128 << 10)));
  }
}
