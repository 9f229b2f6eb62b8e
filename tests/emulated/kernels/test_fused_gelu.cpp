// Which GELU a linear layer has: ours, of the stored value, or the library's, of the sum before it is rounded.

#include <algorithm>
#include <catch2/catch.hpp>

#include "kernels/tensors.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("the library's GELU is for runs that keep it or need not be deterministic, 16-bit types and aligned rows") {
  // Whether gelu(what was stored) has the layer's bits: only if that is how they were made.
  const auto is_ours = [](Pieces pieces, DType dtype, std::int64_t out, std::int64_t kept_stride = 0,
                          bool is_kept = false) {
    Device device(2, best_instruction_set(), pieces);
    const Tensor x = Tensor::random(64, 32, dtype, 1), w = Tensor::random(32, out, dtype, 2),
                 b = Tensor::random(1, out, dtype, 3);
    Tensor before(64, std::max(out, kept_stride), dtype), activated(64, out, dtype), again(64, out, dtype);
    LinearForward a;
    a.tokens = 64, a.in = 32, a.out = out, a.layout = WeightLayout::in_out;
    a.input = x.view(), a.weight = w.view(), a.bias = b.view();
    a.output = before.view(), a.activated = activated.view();
    a.is_kept = is_kept;
    device.run(a);
    device.run(GeluForward{64, out, before.view(), again.view()});
    return again.same_bits(activated);
  };
  for (const DType dtype : kFloatTypes) {
    INFO(name_of(dtype));
    CHECK(is_ours(Pieces::usual, dtype, 96));
    CHECK(is_ours(Pieces::usual, dtype, 96, 0, true) == (dtype == DType::fp32));
    CHECK(is_ours(Pieces::loose, dtype, 96) == (dtype == DType::fp32));
    CHECK(is_ours(Pieces::loose, dtype, 97));
    CHECK(is_ours(Pieces::loose, dtype, 96, 128) ==
          (dtype == DType::fp32));  // kept and activated lie apart differently
    CHECK(is_ours(Pieces::loose, dtype, 96, 100));
  }
}
