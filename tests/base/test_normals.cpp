// The vector kernels of normal numbers: the bits of normal_block(), and the error bounds on which that rests.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <random>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/normals.hpp"
#include "sanitized.hpp"
#include "tessera/base/counter_rng.hpp"

// The parts of the kernel as they are for any processor.
#define TESSERA_SET tested
#define TESSERA_BYTES 16
#define TESSERA_INTRINSIC(name) _mm_##name
#include "base/normals/normals_kernel.inc"

using namespace tessera;
using detail::FillNormals;

namespace {

bool same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

/// Box-Muller as normal_block() does it, of two words.
std::array<float, 2> reference(std::uint32_t radius_bits, std::uint32_t angle_bits) {
  const double u1 = (radius_bits + 1.0) * 0x1p-32, u2 = angle_bits * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u1)), angle = 2.0 * std::numbers::pi * u2;
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

/// Words at the borders of exponents, of the mantissa's range and of quarters of a turn, and drawn ones.
std::vector<std::uint32_t> words(int drawn) {
  std::vector<std::uint32_t> result;
  const std::uint32_t root = 0xb504f333;  // sqrt(1/2) 2^32
  for (std::uint32_t near = 0; near < 7; ++near) {
    for (int i = 0; i < 32; ++i) result.push_back((1u << i) + near - 3), result.push_back((root >> i) + near - 3);
    for (std::uint32_t eighth = 0; eighth < 8; ++eighth) result.push_back((eighth << 29) + near - 3);
  }
  std::mt19937 generator(3);
  for (int i = 0; i < drawn; ++i) result.push_back(static_cast<std::uint32_t>(generator()));
  return result;
}

tested::Words lanes(std::uint32_t word) { return std::uint64_t{word} - tested::Words{}; }

/// Returns how many elements differ from normal_block()'s, and adds the blocks that were left to it.
std::int64_t different(FillNormals* fill, std::uint64_t first_block, std::int64_t blocks, std::int64_t& left) {
  std::vector<float> out(static_cast<std::size_t>(4 * blocks), NAN);
  left += fill({42, 5}, first_block, blocks, 0.02f, out.data());
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < out.size(); i += 4) {
    const std::array<float, 4> expected = normal_block(42, 5, first_block + i / 4);
    for (std::size_t j = 0; j < 4; ++j) wrong += same(out[i + j], 0.02f * expected.at(j)) ? 0 : 1;
  }
  return wrong;
}

}  // namespace

TEST_CASE("normals have normal_block's bits on every instruction set") {
  // TESSERA_LONG=1 asks for the full count (tests/long.sh).
  const bool all = std::getenv("TESSERA_LONG") != nullptr;
  const std::int64_t blocks = all ? std::int64_t{1} << 26 : testing::kSanitized ? 1 << 14 : 1 << 17, at_once = 1 << 14;
  for (const auto set : {InstructionSet::scalar, InstructionSet::avx2, InstructionSet::avx512}) {
    if (!is_supported(set)) continue;
    INFO(name_of(set));
    FillNormals* const fill = detail::fill_normals_of(set);
    std::int64_t left = 0, wrong = 0;
    for (std::int64_t done = 0; done < blocks; done += at_once)
      wrong += different(fill, static_cast<std::uint64_t>(done), at_once, left);
    CHECK(wrong == 0);
    CHECK((left > 0 || blocks < 1 << 17));
    CHECK(left < blocks / 1000);
    if (all) fmt::print("long: {}: {} numbers, {} blocks left to libm\n", name_of(set), 4 * blocks, left);
    for (std::int64_t count = 0; count < 20; ++count)  // counts that are not a multiple of the lanes, high counters
      CHECK(different(fill, (std::uint64_t{1} << 32) - 7, count, left) == 0);
  }
}

TEST_CASE("random words of any range are philox's on every instruction set") {
  std::vector<std::uint32_t> words(160);
  for (const auto set : {InstructionSet::scalar, InstructionSet::avx2, InstructionSet::avx512}) {
    if (!is_supported(set)) continue;
    INFO(name_of(set));
    for (std::uint64_t first = (std::uint64_t{1} << 34) - 9; first % 64 != 0; ++first) {
      for (const std::size_t count : {0, 1, 2, 5, 31, 32, 33, 100, 159}) {
        std::ranges::fill(words, 0);
        detail::fill_words(set, {42, 5, RandomUse::rounding}, first, std::span(words).first(count));
        for (std::uint64_t i = 0; i < count; ++i)
          REQUIRE(words[i] == philox(42, RandomUse::rounding, 5, (first + i) / 4).at((first + i) % 4));
        REQUIRE(words[count] == 0);
      }
    }
  }
}

TEST_CASE("normals of any range are those of the whole") {
  std::vector<float> whole(4 * 64), part(whole.size());
  fill_normals(7, 3, 0, 1.5f, whole);
  for (std::uint64_t i = 0; i < whole.size(); ++i) REQUIRE(same(whole[i], 1.5f * normal_block(7, 3, i / 4).at(i % 4)));
  for (std::size_t first = 0; first < 40; ++first) {
    for (std::size_t count = 0; first + count <= 80; ++count) {
      std::ranges::fill(part, -8.0f);
      fill_normals(7, 3, first, 1.5f, std::span(part).first(count));
      REQUIRE(std::equal(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count),
                         whole.begin() + static_cast<std::ptrdiff_t>(first)));
      REQUIRE(part[count] == -8.0f);
    }
  }
}

TEST_CASE("normals: logarithm, sine and cosine are as near as the margin assumes") {
  constexpr long double kTurn = 2 * std::numbers::pi_v<long double> * 0x1p-32L;
  for (const std::uint32_t word : words(testing::kSanitized ? 1000 : 200'000)) {
    const long double log = std::log((word + 1.0L) * 0x1p-32L);
    const double found = tested::log_of_uniform(lanes(word))[1];
    REQUIRE(std::abs(found - log) <= -0x1p-44L * log);
    const auto [sine, cosine] = tested::sine_cosine_of_turn(lanes(word));
    REQUIRE(std::abs(sine[0] - std::sin(word * kTurn)) < 0x1p-45L);
    REQUIRE(std::abs(cosine[1] - std::cos(word * kTurn)) < 0x1p-45L);
  }
}

TEST_CASE("normals: a number without doubt is libm's, also at the borders") {
  const std::vector<std::uint32_t> edges = words(300);
  std::int64_t doubtful = 0, wrong = 0, unseen_zeros = 0;
  for (const std::uint32_t radius : edges) {
    for (const std::uint32_t angle : edges) {
      const tested::Pair pair = tested::normal_pair(lanes(radius), lanes(angle));
      const std::array<float, 2> expected = reference(radius, angle);
      const auto count = [&](const tested::Rounded& found, float libm) {
        doubtful += found.doubt[0] != 0 ? 1 : 0;
        wrong += found.doubt[0] == 0 && !same(found.value[0], libm) ? 1 : 0;
        unseen_zeros += found.doubt[0] == 0 && std::abs(libm) < 1e-15f ? 1 : 0;
      };
      count(pair.first, expected[0]);
      count(pair.second, expected[1]);
    }
  }
  CHECK(wrong == 0);
  CHECK(unseen_zeros == 0);
  CHECK(doubtful > 0);
}
