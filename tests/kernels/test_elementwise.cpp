#include <catch2/catch.hpp>
#include <limits>

#include "kernels/tensors.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr std::int64_t kLengths[] = {0, 1, 15, 16, 17, 63, 1000, 16385, 40001};

/// Awkward floats: zeros, subnormals, ties, infinities, NaN, beyond fp16.
std::vector<float> awkward() {
  std::vector<float> v = {0.0f,
                          -0.0f,
                          1.0f,
                          -1.0f,
                          1e-45f,
                          -1e-40f,
                          6.1e-5f,
                          5.96e-8f,
                          2.98e-8f,
                          2.99e-8f,
                          65504.0f,
                          65519.9f,
                          65520.0f,
                          1e38f,
                          -3.4e38f,
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::quiet_NaN(),
                          1.00390625f,
                          1.01171875f};
  std::mt19937 generator(1);
  for (int i = 0; i < 5000; ++i) {
    const auto bits = static_cast<std::uint32_t>(generator());
    v.push_back(std::bit_cast<float>(bits));
  }
  return v;
}

}  // namespace

TEST_CASE("cast rounds as the storage types do, on every instruction set", "[elementwise]") {
  const std::vector<float> values = awkward();
  const auto n = static_cast<std::int64_t>(values.size());
  for (const InstructionSet set : kInstructionSets) {
    if (!is_supported(set)) continue;
    Device device(2, set);
    for (const DType dtype : kFloatTypes) {
      INFO(name_of(set) << " " << name_of(dtype));
      Tensor out(1, n, dtype), back(1, n, DType::fp32), same(1, n, dtype);
      device.run(Cast{{values.data(), DType::fp32}, {out.data(), dtype}, n});
      device.run(Cast{{out.data(), dtype}, {back.data(), DType::fp32}, n});
      device.run(Cast{{out.data(), dtype}, {same.data(), dtype}, n});
      CHECK(same.same_bits(out));
      with_float_type(dtype, [&]<class T>() {
        for (std::int64_t i = 0; i < n; ++i) {
          const float x = values[static_cast<std::size_t>(i)];
          const T expected = static_cast<T>(x), got = static_cast<const T*>(out.data())[i];
          if (std::memcmp(&expected, &got, sizeof(T)) != 0)
            FAIL_CHECK("cast of " << x << " is " << static_cast<float>(got));
          const auto widened = static_cast<float>(expected);
          if (std::memcmp(&widened, &back.floats()[i], 4) != 0 &&
              !(std::isnan(widened) && std::isnan(back.floats()[i]))) {
            FAIL_CHECK("cast back of " << widened << " is " << back.floats()[i]);
          }
        }
      });
      CHECK((out.intact() && back.intact() && same.intact()));
    }
  }
}

TEST_CASE("add and zeros: any length, any types, in place", "[elementwise]") {
  Device device;
  for (const std::int64_t n : kLengths) {
    for (const DType a_type : kFloatTypes) {
      for (const DType out_type : kFloatTypes) {
        INFO(n << " " << name_of(a_type) << " to " << name_of(out_type));
        const Tensor a = Tensor::random(1, n, a_type, 1), b = Tensor::random(1, n, DType::fp32, 2);
        Tensor expected(1, n, out_type), out(1, n, out_type);
        const Doubles x = a.values(), y = b.values();
        Doubles sums(x.size());
        for (std::size_t i = 0; i < x.size(); ++i)
          sums[i] = static_cast<double>(static_cast<float>(x[i]) + static_cast<float>(y[i]));
        from_doubles(sums, out_type, expected.data());
        device.run(Add{{a.data(), a_type}, {b.data(), DType::fp32}, {out.data(), out_type}, n});
        CHECK(out.same_bits(expected));
        CHECK(out.intact());
        if (a_type == out_type) {
          Tensor in_place = a;
          device.run(Add{{in_place.data(), a_type}, {b.data(), DType::fp32}, {in_place.data(), out_type}, n});
          CHECK(in_place.same_bits(expected));
        }
        device.run(FillZero{out.data(), n * size_of(out_type)});
        for (const double v : out.values()) CHECK(v == 0);
        CHECK(out.intact());
      }
    }
  }
}

TEST_CASE("a sum of squares is right, and the same bits under any split at multiples of 64", "[elementwise]") {
  std::mt19937 generator(5);
  for (const DType dtype : kFloatTypes) {
    for (const std::int64_t n : kLengths) {
      const Tensor x = Tensor::random(1, n, dtype, 1, 0.1);
      double expected = 0;
      for (const double v : x.values()) expected += v * v;
      double first = NAN;
      for (const InstructionSet set : kInstructionSets) {
        if (!is_supported(set)) continue;
        Device device(3, set);
        ExactSum whole, split;
        whole.clear(), split.clear();
        device.run(SquareSum{{x.data(), dtype}, n, &whole});
        for (std::int64_t begin = 0; begin < n;) {
          const std::int64_t end = std::min(n, begin + 64 * (1 + static_cast<std::int64_t>(generator() % 50)));
          device.run(SquareSum{
              {static_cast<const std::byte*>(x.data()) + begin * size_of(dtype), dtype}, end - begin, &split});
          begin = end;
        }
        if (std::isnan(first)) first = whole.value();
        CHECK(whole.value() == Approx(expected).epsilon(1e-12));
        CHECK(whole.value() == first);
        CHECK(split.value() == first);
      }
    }
  }
}

TEST_CASE("a sum of squares counts what is not finite", "[elementwise]") {
  Device device;
  Tensor x = Tensor::random(1, 1000, DType::fp32, 1);
  ExactSum sum;
  sum.clear();
  x.floats()[999] = NAN, x.floats()[3] = HUGE_VALF;
  device.run(SquareSum{{x.data(), DType::fp32}, 1000, &sum});
  CHECK(sum.non_finite == 2);
  CHECK(std::isnan(sum.value()));
}
