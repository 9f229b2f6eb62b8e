#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "tessera/base/counter_rng.hpp"

using namespace tessera;

namespace {

using Block = std::array<std::uint32_t, 4>;

/// Philox of a counter and a key of 32-bit words, as tables of known answers write them.
Block philox_of_words(const Block& counter, const std::array<std::uint32_t, 2>& key) {
  const auto wide = [](std::uint32_t low, std::uint32_t high) { return std::uint64_t{high} << 32 | low; };
  return philox(wide(key[0], key[1]), static_cast<RandomUse>(counter[3]), counter[2], wide(counter[0], counter[1]));
}

}  // namespace

TEST_CASE("Philox gives the known answers of Random123") {
  // kat_vectors of Random123 1.14, philox4x32 with 10 rounds.
  CHECK(philox_of_words({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(philox_of_words({ones, ones, ones, ones}, {ones, ones}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox_of_words({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("Seed, use, stream and counter give different numbers") {
  std::set<Block> seen;
  for (const std::uint64_t seed : {0ULL, 1ULL, 1ULL << 32}) {
    for (const RandomUse use : {RandomUse::initialization, RandomUse::dropout, RandomUse::sample_order}) {
      for (const std::uint32_t stream : {0u, 1u, 7u}) {
        for (const std::uint64_t counter : {0ULL, 1ULL, 1ULL << 32}) seen.insert(philox(seed, use, stream, counter));
      }
    }
  }
  CHECK(seen.size() == 3 * 3 * 3 * 3);
}

TEST_CASE("Uniform numbers are below one") {
  CHECK(to_uniform(0) == 0.0f);
  CHECK(to_uniform(0xff) == 0.0f);
  CHECK(to_uniform(0x80000000u) == 0.5f);
  CHECK(to_uniform(0xffffffffu) == 1.0f - 0x1p-24f);
}

namespace {

float normal_at(std::uint64_t seed, std::uint32_t stream, std::uint64_t index) {
  return normal_block(seed, stream, index / 4).at(index % 4);
}

}  // namespace

TEST_CASE("Normal numbers have the moments of a standard normal distribution") {
  constexpr std::uint64_t count = 100'000;
  double sum = 0, squares = 0, fourth = 0, neighbours = 0, before = 0;
  std::set<float> seen;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = normal_at(7, 3, i);
    sum += x, squares += x * x, fourth += x * x * x * x, neighbours += x * before;
    before = x;
    if (i < 1000) seen.insert(normal_at(7, 3, i));
  }
  const double n = count, deviation = 1 / std::sqrt(n);  // of the mean; for the others sqrt(2), sqrt(96) and 1 times it
  CHECK(std::abs(sum / n) < 5 * deviation);
  CHECK(std::abs(squares / n - 1) < 5 * std::sqrt(2.0) * deviation);
  CHECK(std::abs(fourth / n - 3) < 5 * std::sqrt(96.0) * deviation);
  CHECK(std::abs(neighbours / n) < 5 * deviation);
  CHECK(seen.size() == 1000);
  CHECK(normal_at(7, 3, 5) != normal_at(8, 3, 5));
  CHECK(normal_at(7, 3, 5) != normal_at(7, 4, 5));
}
