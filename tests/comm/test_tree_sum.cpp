#include <catch2/catch.hpp>
#include <limits>

#include "comm/collective_cases.hpp"
#include "comm/tree_sum.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

std::vector<detail::TreeSum*> variants() {
  std::vector<detail::TreeSum*> result;
  for (const auto set : {InstructionSet::scalar, InstructionSet::avx2, InstructionSet::avx512}) {
    if (is_supported(set)) result.push_back(detail::tree_sum_of(set));
  }
  return result;
}

}  // namespace

TEST_CASE("the sum is the contract's tree, to the bit, for every count, dtype and instruction set") {
  for (auto* const sum : variants()) {
    for (const DType wire : {DType::fp32, DType::bf16, DType::fp16}) {
      for (const DType shard : {DType::fp32, DType::bf16, DType::fp16}) {
        for (const std::int64_t size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 23, 31, 33, 64, 77}) {
          const std::int64_t elements = size < 5 ? 1031 : 37;
          std::vector<std::vector<std::byte>> data;
          std::vector<const void*> sources;
          for (std::int64_t s = 0; s < size; ++s) {
            data.emplace_back(static_cast<std::size_t>(elements * 4));
            fill_contribution(data.back().data(), wire, 5, s, elements);
            sources.push_back(data.back().data());
          }
          std::vector<float> out(static_cast<std::size_t>(elements));
          sum(sources.data(), size, wire, out.data(), shard, elements);
          REQUIRE(wrong_sums(out.data(), shard, wire, 5, size, 0, elements) == 0);
        }
      }
    }
  }
}

TEST_CASE("the order of the tree is visible: the reference would notice another one") {
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::vector<float> terms{term(1, 0, i), term(1, 1, i), term(1, 2, i), term(1, 3, i)};
    if (tree_reference(terms, 0, 4) != ((terms[0] + terms[1]) + terms[2]) + terms[3]) ++different;
  }
  REQUIRE(different > 50);
}

TEST_CASE("16-bit conversions of the sum are those of the base types, for all values") {
  std::vector<fp16> halves(65536);
  std::vector<bf16> brains(65536);
  for (std::size_t i = 0; i < 65536; ++i) halves[i].bits = brains[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> wide(65536);
  const auto same = [](float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); };
  for (auto* const sum : variants()) {
    const void* source = halves.data();
    sum(&source, 1, DType::fp16, wide.data(), DType::fp32, 65536);
    for (std::size_t i = 0; i < 65536; ++i) REQUIRE(same(wide[i], static_cast<float>(halves[i])));
    source = brains.data();
    sum(&source, 1, DType::bf16, wide.data(), DType::fp32, 65536);
    for (std::size_t i = 0; i < 65536; ++i) REQUIRE(same(wide[i], static_cast<float>(brains[i])));

    // Every 16-bit float, the points half way to the next, and their neighbours.
    std::vector<float> values{0x1p-126f, 0x1p-149f, std::numeric_limits<float>::max(), 65519.99f, 65520.f, -0.f};
    for (std::uint32_t i = 0; i < 65536; ++i) {
      for (const std::uint32_t low : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
        values.push_back(std::bit_cast<float>((i << 16) | low));
      }
    }
    std::vector<fp16> to_half(values.size());
    std::vector<bf16> to_brain(values.size());
    source = values.data();
    const auto count = static_cast<std::int64_t>(values.size());
    sum(&source, 1, DType::fp32, to_half.data(), DType::fp16, count);
    sum(&source, 1, DType::fp32, to_brain.data(), DType::bf16, count);
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (to_half[i].bits != fp16(values[i]).bits || to_brain[i].bits != bf16(values[i]).bits) ++wrong;
    }
    REQUIRE(wrong == 0);
  }
}
