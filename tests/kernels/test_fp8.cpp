// Linears whose operands are fp8: docs/numerics.md, contract 8.
#include <catch2/catch.hpp>
#include <deque>
#include <optional>

#include "kernels/tensors.hpp"
#include "tessera/base/fp8.hpp"
#include "tessera/base/math.hpp"
#include "tessera/kernels/needs.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

bool packs() { return kernel_needs(tested_kind()).packs_fp8(); }

/// A matrix in fp8: its copies, as the device's linears read them.
class Rounded {
 public:
  Rounded(Device& device, const ConstView& from, std::int64_t rows, std::int64_t columns, Fp8 type, bool lies = true,
          bool turned = true, const float* largest = nullptr, std::optional<DType> wide = {})
      : factors_(2 * sizeof(float)) {
    const DType dtype = packs() ? dtype_of(type) : wide.value_or(from.dtype);
    const auto whole = [](std::int64_t n) { return packs() ? round_up(n, kFp8Pad) : n; };
    ToFp8 a{rows, columns, type, from, {}, {}};
    a.factor = factors_.as<float>(), a.largest = largest;
    if (lies || !packs()) a.output = copies_.emplace_back(whole(rows), whole(columns), dtype).view();
    if (turned && packs()) a.turned = copies_.emplace_back(whole(columns), whole(rows), dtype).view();
    device.run(a);
    operand_ = {a.output, a.turned, a.factor};
    for (const Tensor& copy : copies_) CHECK(copy.intact());
    CHECK(factors_.intact());
    if (lies || !packs()) lying_ = inner(copies_.front().values(), a.output.stride, rows, columns, false);
    if (!a.turned) return;
    const Doubles turned_back = inner(copies_.back().values(), a.turned.stride, rows, columns, true);
    if (lies) CHECK(turned_back == lying_);
    lying_ = turned_back;
  }

  float factor() const { return *operand_.factor; }
  const Fp8Operand& operand() const { return operand_; }
  /// [rows, columns]
  const Doubles& numbers() const { return lying_; }
  /// What it is taken for: its fp8 numbers, scaled back.
  Doubles values() const {
    Doubles values = lying_;
    for (double& v : values) v *= factor();
    return values;
  }

 private:
  /// The matrix without what surrounds it, which must be zeros.
  static Doubles inner(const Doubles& all, std::int64_t stride, std::int64_t rows, std::int64_t columns, bool turned) {
    Doubles matrix(static_cast<std::size_t>(rows * columns));
    bool is_zero_around = true;
    for (std::int64_t i = 0; i < std::ssize(all); ++i) {
      const std::int64_t row = turned ? i % stride : i / stride, column = turned ? i / stride : i % stride;
      const double x = all[static_cast<std::size_t>(i)];
      if (row < rows && column < columns)
        matrix[static_cast<std::size_t>(row * columns + column)] = x;
      else
        is_zero_around &= x == 0;
    }
    CHECK(is_zero_around);
    return matrix;
  }

  Guarded factors_;
  std::deque<Tensor> copies_;
  Fp8Operand operand_;
  Doubles lying_;
};

/// Computes a b of [rows, depth] and [depth, columns], with a or b read transposed.
Doubles multiplied(const Doubles& a, bool a_turned, const Doubles& b, bool b_turned, std::int64_t rows,
                   std::int64_t depth, std::int64_t columns) {
  Doubles c(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k)
        sum += (a_turned ? at(a, rows, k, i) : at(a, depth, i, k)) *
               (b_turned ? at(b, depth, j, k) : at(b, columns, k, j));
      c[static_cast<std::size_t>(i * columns + j)] = sum;
    }
  }
  return c;
}

}  // namespace

TEST_CASE("an operand in fp8 has one scale, which takes its largest magnitude to the largest number", "[fp8]") {
  if (!tested_has_fp8()) return;
  const DType dtype = GENERATE(DType::fp32, DType::bf16, DType::fp16);
  const Fp8 type = GENERATE(Fp8::e4m3, Fp8::e5m2);
  Device one(1), three(3);
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 1030}, {65, 33}, {130, 7}, {144, 288}}) {
    const Tensor whole = Tensor::random(rows, columns + 7, dtype, 5, 3e-4);
    for (const std::int64_t first : {0, 3}) {  // aligned rows only where they begin the memory, if at all
      const ConstView x = whole.view().columns_from(first);
      const Doubles all = whole.values();
      Doubles from;
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) from.push_back(at(all, columns + 7, i, first + j));
      }
      double largest = 0;
      for (const double v : from) largest = std::max(largest, std::abs(v));
      const float scale = largest_of(type) / static_cast<float>(largest);
      const Rounded got(one, x, rows, columns, type);
      CHECK(got.factor() == 1 / scale);
      for (std::size_t i = 0; i < from.size(); ++i)
        REQUIRE(got.numbers()[i] == round_to_fp8(type, static_cast<float>(from[i]) * scale));
      for (const auto& [lies, turned] : {std::pair{true, true}, {true, false}, {false, true}}) {
        const Rounded again(three, x, rows, columns, type, lies, turned);
        CHECK((again.numbers() == got.numbers() && again.factor() == got.factor()));
      }
      Guarded known(sizeof(float));
      *known.as<float>() = static_cast<float>(2 * largest);  // not what would be found
      CHECK(Rounded(three, x, rows, columns, type, true, true, known.as<float>()).factor() == 2 / scale);
    }
  }
}

TEST_CASE("zeros have the scale 1, tiny numbers a finite one, and what is not finite has none", "[fp8]") {
  if (!tested_has_fp8()) return;
  Device device;
  Tensor x(2, 3, DType::fp32);
  const auto factor_with = [&](float number) {
    std::fill_n(x.floats(), 6, 0.0f);
    x.floats()[4] = number;
    return Rounded(device, x.view(), 2, 3, Fp8::e4m3).factor();
  };
  CHECK(factor_with(0) == 1);
  CHECK(factor_with(-448) == 1);
  CHECK(factor_with(1e-42f) == 0x1p-126f);
  const auto is_none = [&](float number) {  // the copies have a NaN or not, which the factor covers
    std::fill_n(x.floats(), 6, 0.0f);
    x.floats()[4] = number;
    Guarded factors(2 * sizeof(float));
    Tensor copy = packs() ? Tensor(16, 16, DType::e4m3) : Tensor(2, 3, DType::fp32);
    device.run(ToFp8{2, 3, Fp8::e4m3, x.view(), copy.view(), {}, factors.as<float>()});
    return std::isnan(*factors.as<float>());
  };
  CHECK(is_none(std::numeric_limits<float>::infinity()));
  CHECK(is_none(-std::numeric_limits<float>::quiet_NaN()));
}

TEST_CASE("the largest magnitude of numbers is that of what they become in another type", "[fp8]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16, DType::fp16);
  const DType to = GENERATE(DType::fp32, DType::bf16, DType::fp16);
  Device device(3);
  Guarded found(sizeof(std::int64_t));
  const auto largest_in = [&](const Tensor& x, std::int64_t first, std::int64_t end) {
    device.run(LargestMagnitude{{x.view().columns_from(first).data, dtype}, end - first, to, found.as<std::int64_t>()});
    CHECK(found.intact());
    return *found.as<std::int64_t>();
  };
  for (const std::int64_t n : {1, 7, 1024, 1030, 50'000}) {
    const Tensor x = Tensor::random(1, n, dtype, 5);
    Tensor y(1, n, to);
    device.run(Cast{{x.view().data, dtype}, {y.view().data, to}, n});
    float largest = 0;
    for (const double v : y.values()) largest = std::max(largest, static_cast<float>(std::abs(v)));
    const std::int64_t bits = std::bit_cast<std::uint32_t>(largest);
    *found.as<std::int64_t>() = 0;
    CHECK(largest_in(x, 0, n) == bits);
    *found.as<std::int64_t>() = 0;
    if (n > 64) {  // in pieces
      largest_in(x, 0, 64);
      CHECK(largest_in(x, 64, n) == bits);
    }
    *found.as<std::int64_t>() = bits + 1;
    CHECK(largest_in(x, 0, n) == bits + 1);
  }
  Tensor x(1, 3, DType::fp32);
  x.floats()[1] = -std::numeric_limits<float>::quiet_NaN(), x.floats()[2] = std::numeric_limits<float>::infinity();
  *found.as<std::int64_t>() = 0;
  device.run(LargestMagnitude{{x.floats(), DType::fp32}, 3, to, found.as<std::int64_t>()});
  CHECK(*found.as<std::int64_t>() > 0x7f800000);
}

TEST_CASE("codes of a weight's numbers are those of the operand that is made of them", "[fp8]") {
  if (!tested_has_fp8()) return;
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const DType to = GENERATE(DType::fp32, DType::bf16, DType::fp16);
  Device device(3);
  for (const auto& [rows, columns] : {std::pair{3, 37}, {65, 33}, {144, 288}}) {
    const std::int64_t n = rows * columns;
    const Tensor x = Tensor::random(1, n, dtype, 5);
    Tensor y(rows, columns, to), codes(1, n, DType::e4m3);
    device.run(Cast{{x.view().data, dtype}, {y.view().data, to}, n});
    Guarded largest(sizeof(std::int64_t));
    *largest.as<std::int64_t>() = 0;
    device.run(LargestMagnitude{{x.view().data, dtype}, n, to, largest.as<std::int64_t>()});
    device.run(ToCodes{.x = {x.view().data, dtype},
                       .elements = n,
                       .rounded_to = to,
                       .largest = largest.as<std::int64_t>(),
                       .codes = codes.view().data});
    CHECK(codes.intact());
    const Rounded expected(device, y.view(), rows, columns, Fp8::e4m3);
    CHECK(codes.values() == expected.numbers());
    // Codes stay what they are, as they lie and turned, with the factor of their magnitude.
    const ConstView again{codes.view().data, DType::e4m3, columns};
    for (const auto& [lies, turned] : {std::pair{true, true}, {true, false}, {false, true}}) {
      const Rounded from_codes(device, again, rows, columns, Fp8::e4m3, lies, turned, largest.as<float>(), to);
      CHECK((from_codes.numbers() == expected.numbers() && from_codes.factor() == expected.factor()));
    }
    Guarded factors(2 * sizeof(float));
    if (packs()) {
      device.run(ToFp8{rows, columns, Fp8::e4m3, again, {}, {}, factors.as<float>(), largest.as<float>()});
      CHECK(*factors.as<float>() == expected.factor());
    }
  }
}

TEST_CASE("cores take numbers of e4m3 to their codes and back", "[fp8]") {
  if (packs()) return;
  const DType dtype = GENERATE(DType::fp32, DType::bf16, DType::fp16);
  Device device;
  Tensor codes(1, 256, DType::e4m3), numbers(1, 256, dtype), again(1, 256, DType::e4m3);
  auto* const all = static_cast<std::uint8_t*>(codes.view().data);
  for (int code = 0; code < 256; ++code) all[code] = static_cast<std::uint8_t>(code);
  device.run(Cast{{all, DType::e4m3}, {numbers.view().data, dtype}, 256});
  device.run(Cast{{numbers.view().data, dtype}, {again.view().data, DType::e4m3}, 256});
  const Doubles expected = codes.values(), got = numbers.values();
  for (std::size_t code = 0; code < 256; ++code) {
    INFO(code);
    CHECK(static_cast<const std::uint8_t*>(again.view().data)[code] == code);
    if (code % 128 == 127)
      CHECK(std::isnan(got[code]));
    else
      CHECK((got[code] == expected[code] && std::signbit(got[code]) == std::signbit(expected[code])));
  }
}

TEST_CASE("linears of fp8 operands multiply their numbers, and scale back", "[fp8][linear]") {
  if (!tested_has_fp8()) return;
  const auto pieces = GENERATE(Pieces::usual, Pieces::small);
  Device device(2, best_instruction_set(), pieces);
  const DType dtype = GENERATE(DType::fp32, DType::bf16, DType::fp16);
  const WeightLayout layout = GENERATE(WeightLayout::in_out, WeightLayout::out_in);
  const auto [tokens, in, out] = GENERATE(std::tuple{70, 37, 130}, std::tuple{64, 48, 96}, std::tuple{50, 24, 40});
  const Fp8 type = GENERATE(Fp8::e4m3, Fp8::e5m2);
  const bool turned = layout == WeightLayout::out_in;
  const std::int64_t height = turned ? out : in, width = turned ? in : out;
  const Tensor bias = Tensor::random(1, out, dtype, 3), gradient = Tensor::random(tokens, out, dtype, 4, 1e-3);
  const Tensor input = Tensor::random(tokens, in, dtype, 1), weight = Tensor::random(height, width, dtype, 2, 0.1);
  const Rounded x(device, input.view(), tokens, in, Fp8::e4m3), w(device, weight.view(), height, width, Fp8::e4m3);
  const Rounded g(device, gradient.view(), tokens, out, type);
  // An H100's fast accumulation loses up to 4e-3 of the result, and its usual one 1e-4.
  const bool is_gpu = packs();
  const double forward_bound = is_gpu ? std::max(1e-2, tolerance(dtype)) : tolerance(dtype);
  const auto backward_bound = [&](DType type_of_result) {
    return is_gpu ? std::max(5e-4, tolerance(type_of_result)) : tolerance(type_of_result);
  };

  Tensor y(tokens, out, dtype), dx(tokens, in, dtype), db(1, out, DType::fp32);
  Tensor dw = Tensor::random(height, width, DType::fp32, 7, 1e-2);
  LinearForward f;
  f.tokens = tokens, f.in = in, f.out = out, f.layout = layout, f.bias = bias.view(), f.output = y.view();
  f.input = input.view(), f.weight = weight.view(), f.input8 = x.operand(), f.weight8 = w.operand(), f.scale = 0.5f;
  device.run(f);
  const Doubles shift = bias.values(), exact = gradient.values();
  Doubles expected = multiplied(x.values(), false, w.values(), turned, tokens, in, out);
  for (std::int64_t i = 0; i < tokens * out; ++i) {
    double& sum = expected[static_cast<std::size_t>(i)];
    sum = sum / 2 + shift[static_cast<std::size_t>(i % out)];
  }
  CHECK(relative_error(y.values(), expected) < forward_bound);

  LinearBackward b;
  b.tokens = tokens, b.in = in, b.out = out, b.layout = layout;
  b.input = input.view(), b.weight = weight.view(), b.output_gradient = gradient.view();
  b.input8 = x.operand(), b.weight8 = w.operand(), b.gradient8 = g.operand();
  b.input_gradient = dx.view(), b.weight_gradient = dw.gradient(true), b.bias_gradient = db.gradient();
  const Doubles before = dw.values();
  device.run(b);
  CHECK(relative_error(dx.values(), multiplied(g.values(), false, w.values(), !turned, tokens, out, in)) <
        backward_bound(dtype));
  const Doubles left = turned ? g.values() : x.values(), right = turned ? x.values() : g.values();
  Doubles sum = multiplied(left, true, right, false, height, tokens, width);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += before[i];
  CHECK(relative_error(dw.values(), sum) < backward_bound(DType::fp32));
  Doubles sums(static_cast<std::size_t>(out));
  for (std::int64_t i = 0; i < tokens * out; ++i)
    sums[static_cast<std::size_t>(i % out)] += exact[static_cast<std::size_t>(i)];
  CHECK(relative_error(db.values(), sums) < tolerance(DType::fp32));
}
