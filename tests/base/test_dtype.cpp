#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "tessera/base/dtype.hpp"

using namespace tessera;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <class T>
T of_bits(std::uint32_t bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

/// Between each two neighbours of T, from 0 to the largest: a float below the middle, in the middle and above it.
/// Doubles hold the middle exactly.
template <class T>
void require_nearest_even(std::uint32_t largest) {
  for (std::uint32_t bits = 0; bits < largest; ++bits) {
    const double low = static_cast<float>(of_bits<T>(bits)), high = static_cast<float>(of_bits<T>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    for (const float sign : {1.0f, -1.0f}) {
      const std::uint32_t mark = sign < 0 ? 0x8000u : 0u;
      const auto rounded = [&](float x) { return std::uint32_t{T(sign * x).bits}; };
      const bool right = rounded(middle) == (mark | even) && rounded(std::nextafter(middle, 0.0f)) == (mark | bits) &&
                         rounded(std::nextafter(middle, kInfinity)) == (mark | (bits + 1));
      if (!right) FAIL(name_of(dtype_of<T>()) << " around " << sign * middle);
    }
  }
}

template <class T>
void require_round_trip(std::uint32_t infinity) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto value = static_cast<float>(of_bits<T>(bits));
    const bool is_nan = (bits & 0x7fff) > infinity;
    if (std::isnan(value) != is_nan) FAIL("bits " << bits << " are " << value);
    if (is_nan ? !std::isnan(static_cast<float>(T(value))) : T(value).bits != bits) FAIL("bits " << bits);
  }
}

}  // namespace

TEST_CASE("16-bit floats come back from fp32 as they were, NaN as NaN") {
  require_round_trip<bf16>(0x7f80);
  require_round_trip<fp16>(0x7c00);
}

TEST_CASE("16-bit floats round to the nearest, ties to even, subnormals too") {
  require_nearest_even<bf16>(0x7f7f);
  require_nearest_even<fp16>(0x7bff);
}

TEST_CASE("16-bit floats overflow to infinity half a step above their largest value") {
  CHECK(static_cast<float>(fp16(65504.0f)) == 65504.0f);
  CHECK(fp16(std::nextafter(65520.0f, 0.0f)).bits == 0x7bff);
  CHECK(fp16(65520.0f).bits == 0x7c00);
  CHECK(fp16(-1e30f).bits == 0xfc00);
  CHECK(bf16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(bf16(-kInfinity).bits == 0xff80);
  // A NaN whose set bits are all cut off stays one.
  CHECK(std::isnan(static_cast<float>(bf16(std::bit_cast<float>(0x7f800001u)))));
  CHECK(std::isnan(static_cast<float>(fp16(std::bit_cast<float>(0xff800001u)))));
  CHECK(static_cast<float>(fp16(0x1p-24f)) == 0x1p-24f);
  CHECK(fp16(0x1p-25f).bits == 0);
  CHECK(fp16(-0.0f).bits == 0x8000);
}

TEST_CASE("Types have a size, a name of their own and a C++ type") {
  std::set<std::string_view> names;
  for (const DType type :
       {DType::fp32, DType::bf16, DType::fp16, DType::fp64, DType::int32, DType::int64, DType::byte}) {
    names.insert(name_of(type));
    CHECK(size_of(type) > 0);
  }
  CHECK(names.size() == 7);
  for (const DType type : {DType::fp32, DType::bf16, DType::fp16}) {
    CHECK(with_float_type(type, []<class T>() { return dtype_of<T>(); }) == type);
    CHECK(with_float_type(type, []<class T>() { return std::int64_t{sizeof(T)}; }) == size_of(type));
  }
  CHECK_THROWS_WITH(with_float_type(DType::int32, []<class T>() { return sizeof(T); }), Catch::Contains("int32"));
}
