// Attention of documents that are packed into one sequence, and within windows.
#include <catch2/catch.hpp>

#include "kernels/attention_case.hpp"
#include "tessera/kernels/kernel_call.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Returns positions of documents of these lengths, one after the other; the last one fills what is left.
Positions documents_of(const AttentionShape& shape, const std::vector<std::int64_t>& lengths) {
  Positions positions(static_cast<std::size_t>(shape.batch * shape.sequence));
  for (std::int64_t row = 0, document = 0, at = 0; row < std::ssize(positions); ++row, ++at) {
    const bool ends = document < std::ssize(lengths) && at == lengths[static_cast<std::size_t>(document)];
    if (ends) ++document;
    if (ends || row % shape.sequence == 0) at = 0;
    positions[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(at);
  }
  return positions;
}

}  // namespace

namespace {

/// Shapes that meet every kernel: tiles of 32 and 64 keys, of 32 to 128 queries, heads of up to 64 and beyond.
std::vector<AttentionShape> shapes() {
  if (tested_kind() == DeviceKind::cpu) return {{2, 200, 4, 2, 16}, {1, 131, 1, 1, 5}};
  return {{1, 200, 2, 1, 16}, {2, 70, 1, 1, 72}, {1, 40, 1, 1, 136}};
}

std::vector<std::vector<std::int64_t>> borders() {
  if (tested_kind() == DeviceKind::cpu)
    return {{1, 1, 1},        {63, 1, 64},         {64, 64},          {65, 62, 1, 2}, {5, 130},
            {1, 127, 1, 150}, {128, 65, 33, 1, 7}, {200, 3, 1, 1, 1}, {1000}};
  return {{1, 63, 1, 64}, {128, 3, 33, 1, 7}, {5, 130, 31}};
}

}  // namespace

TEST_CASE("attention within documents, with borders at odd places and at those of tiles", "[attention]") {
  Device device;
  for (const DType dtype : kFloatTypes) {
    for (const AttentionShape& shape : shapes()) {
      for (const auto& lengths : borders()) {
        const Problem p{shape, dtype};
        const Positions positions = documents_of(shape, lengths);
        INFO(name_of(dtype) << " " << shape.batch << " x " << shape.sequence << ", " << lengths.size()
                            << " documents, the first of " << lengths[0]);
        const Tensor qkv = Tensor::random(p.tokens(), p.width(), dtype, 1),
                     upstream = Tensor::random(p.tokens(), p.out_width(), dtype, 2);
        const Reference reference(p, qkv.values(), upstream.values(), no_mask, positions);
        const Result r = run_attention(device, p, qkv, upstream, {}, positions);
        check_result(r, reference, dtype);
        if (tested_kind() != DeviceKind::cpu && dtype != DType::bf16) continue;
        Device other(3);
        const Result again = run_attention(other, p, qkv, upstream, {}, positions);
        CHECK((again.output.same_bits(r.output) && again.gradient.same_bits(r.gradient)));
      }
    }
  }
}

TEST_CASE("attention forward and backward within documents whose borders are told", "[attention]") {
  Device device;
  const std::pair<AttentionShape, std::vector<std::vector<std::int64_t>>> cases[] = {
      {{2, 33, 2, 1, 16}, {{1000}, {1, 31, 1}, {1, 1, 1, 1, 5}}},  // whole sequences, single tokens
      {{1, 70, 2, 2, 64}, {{64, 6}, {5, 60, 5}}},
      {{3, 20, 1, 1, 72}, {{7, 30, 2}}},  // cut where sequences end
      {{1, 16, 2, 2, 16}, {{3, 13}}},
  };
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const auto& [shape, borders] : cases) {
      for (const auto& lengths : borders) {
        const Positions positions = documents_of(shape, lengths);
        for (const std::int64_t empty : {0, 1, 5}) {
          Problem p{shape, dtype};
          p.shape.documents = std::ranges::count(positions, 0) + empty;
          INFO(name_of(dtype) << " " << shape.batch << " x " << shape.sequence << ", heads of " << shape.head_width
                              << ", " << p.shape.documents << " documents, " << empty << " of them empty");
          const Tensor qkv = Tensor::random(p.tokens(), p.width(), dtype, 1),
                       upstream = Tensor::random(p.tokens(), p.out_width(), dtype, 2);
          if (!computes_documents()) {
            CHECK_THROWS_AS(run_attention(device, p, qkv, upstream, {}, positions), UsageError);
            continue;
          }
          const Reference reference(p, qkv.values(), upstream.values(), no_mask, positions);
          const Result r = run_attention(device, p, qkv, upstream, {}, positions);
          check_result(r, reference, dtype);
          if (tested_attention() == GpuAttention::cudnn) continue;
          CHECK(run_attention(device, p, qkv, upstream, {}, positions).gradient.same_bits(r.gradient));
        }
      }
    }
  }
}

TEST_CASE("attention: one document a sequence has the bits of no documents, with dropout too", "[attention]") {
  Device device;
  StepScalars scalars;
  Dropout dropout;
  dropout.probability = 0.3f, dropout.sequence = 150, dropout.site = DropoutSite::attention, dropout.scalars = &scalars;
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const Problem p{{tested_kind() == DeviceKind::cpu ? 2 : 1, 150, 2, 1, 16}, dtype};
    const Tensor qkv = Tensor::random(p.tokens(), p.width(), p.dtype, 1),
                 upstream = Tensor::random(p.tokens(), p.out_width(), p.dtype, 2);
    for (const Dropout& d : {Dropout{}, dropout}) {
      const Result whole = run_attention(device, p, qkv, upstream, d);
      const Result same = run_attention(device, p, qkv, upstream, d, documents_of(p.shape, {}));
      CHECK((whole.output.same_bits(same.output) && whole.gradient.same_bits(same.gradient)));
    }
    Positions bad = documents_of(p.shape, {});
    bad[7] = 5;
    if (tested_kind() == DeviceKind::cpu)  // a GPU's kernel cannot throw
      CHECK_THROWS_AS(run_attention(device, p, qkv, upstream, {}, bad), InternalError);
  }
}

TEST_CASE("attention within documents, with dropout", "[attention][dropout]") {
  Device device;
  StepScalars scalars;
  Dropout dropout;
  dropout.probability = 0.3f, dropout.sequence = 90, dropout.site = DropoutSite::attention, dropout.scalars = &scalars;
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const std::int64_t head_width : {16, 72}) {
      const Problem p{{1, 90, 2, 2, head_width}, dtype};
      const Positions positions = documents_of(p.shape, {7, 60});
      const Tensor qkv = Tensor::random(p.tokens(), p.width(), dtype, 1),
                   upstream = Tensor::random(p.tokens(), p.out_width(), dtype, 2);
      const Mask mask = mask_of(dropout, p.shape);
      const Reference reference(p, qkv.values(), upstream.values(), mask, positions);
      const Result r = run_attention(device, p, qkv, upstream, dropout, positions);
      check_result(r, reference, dtype);
    }
  }
}

TEST_CASE("attention within windows, of odd lengths and those of tiles, in documents too", "[attention]") {
  Device device;
  const std::int64_t windows[] = {1, 2, 31, 63, 64, 65, 130, 199};
  int number = 0;
  for (const DType dtype : kFloatTypes) {
    for (AttentionShape shape : shapes()) {
      for (const std::int64_t window : windows) {
        if (window >= shape.sequence || (tested_kind() != DeviceKind::cpu && ++number % 3 > 0)) continue;
        shape.window = window;
        const Problem p{shape, dtype};
        INFO(name_of(dtype) << " " << shape.batch << " x " << shape.sequence << ", windows of " << window);
        const Tensor qkv = Tensor::random(p.tokens(), p.width(), dtype, 1),
                     upstream = Tensor::random(p.tokens(), p.out_width(), dtype, 2);
        for (const Positions& positions : {Positions{}, documents_of(shape, {7, 90, 1})}) {
          const Reference reference(p, qkv.values(), upstream.values(), no_mask, positions);
          const Result r = run_attention(device, p, qkv, upstream, {}, positions);
          check_result(r, reference, dtype);
        }
      }
    }
  }
}

TEST_CASE("attention: a window as long as the sequence has the bits of none", "[attention]") {
  Device device;
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    Problem p{{1, 90, 2, 1, 16}, dtype};
    const Tensor qkv = Tensor::random(p.tokens(), p.width(), p.dtype, 1),
                 upstream = Tensor::random(p.tokens(), p.out_width(), p.dtype, 2);
    const Result whole = run_attention(device, p, qkv, upstream);
    for (const std::int64_t window : {90, 91, 1000}) {
      p.shape.window = window;
      const Result same = run_attention(device, p, qkv, upstream);
      CHECK((whole.output.same_bits(same.output) && whole.gradient.same_bits(same.gradient)));
    }
  }
}

TEST_CASE("attention's FLOPs are those of the keys that queries see", "[attention]") {
  for (const std::int64_t sequence : {1, 2, 7, 40}) {
    for (const std::int64_t window : {0, 1, 2, 6, 7, 39, 40, 50}) {
      AttentionForward a;
      a.shape = {3, sequence, 4, 2, 8, window};
      double pairs = 0;
      for (std::int64_t query = 0; query < sequence; ++query)
        pairs += static_cast<double>(window == 0 ? query + 1 : std::min(query + 1, window));
      CHECK(describe(a)->cost.flops == 2 * 2 * pairs * 3 * 4 * 8);  // two matmuls
    }
  }
}
