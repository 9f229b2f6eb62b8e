#include <catch2/catch.hpp>

#include "kernels/tensors.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

struct Problem {
  std::int64_t batch, sequence, heads, head_width, stride;
  std::int64_t tokens() const { return batch * sequence; }
};

/// (cos, sin) of any angles, [sequence, head_width / 2, 2].
std::vector<float> random_table(const Problem& p) {
  std::mt19937 generator(17);
  std::uniform_real_distribution<double> angle(-7.0, 7.0);
  std::vector<float> table;
  for (std::int64_t i = 0; i < p.sequence * p.head_width / 2; ++i) {
    const double a = angle(generator);
    table.push_back(static_cast<float>(std::cos(a)));
    table.push_back(static_cast<float>(std::sin(a)));
  }
  return table;
}

/// As Hugging Face writes it: x cos + rotate_half(x) sin, with cos and sin repeated for both halves.
Doubles rotated(const Problem& p, const Doubles& x, const std::vector<float>& table, double sign) {
  Doubles out = x;
  const std::int64_t half = p.head_width / 2;
  for (std::int64_t t = 0; t < p.tokens(); ++t) {
    for (std::int64_t h = 0; h < p.heads; ++h) {
      for (std::int64_t i = 0; i < p.head_width; ++i) {
        const std::int64_t angle = (t % p.sequence) * half + i % half;
        const double c = static_cast<double>(table[static_cast<std::size_t>(2 * angle)]);
        const double s = sign * static_cast<double>(table[static_cast<std::size_t>(2 * angle + 1)]);
        const std::int64_t at0 = h * p.head_width;
        const double other = i < half ? -at(x, p.stride, t, at0 + i + half) : at(x, p.stride, t, at0 + i - half);
        out[static_cast<std::size_t>(t * p.stride + at0 + i)] = at(x, p.stride, t, at0 + i) * c + other * s;
      }
    }
  }
  return out;
}

Rotate arguments(const Problem& p, const std::vector<float>& table, ConstView input, View output) {
  Rotate a;
  a.batch = p.batch, a.sequence = p.sequence, a.heads = p.heads, a.head_width = p.head_width;
  a.table = table.data(), a.input = input, a.output = output;
  return a;
}

/// Odd counts of heads and widths around the vector's 16 lanes; the last number is the width of the heads' row.
constexpr Problem kProblems[] = {{1, 1, 1, 2, 2},     {2, 5, 3, 6, 20},     {1, 33, 1, 32, 32},
                                 {3, 17, 5, 34, 190}, {2, 64, 14, 64, 900}, {1, 7, 2, 256, 513}};

}  // namespace

TEST_CASE("rotary rotates pairs as Hugging Face's rotate_half does, and back", "[rotary]") {
  for (const InstructionSet set : kInstructionSets) {
    if (!is_supported(set)) continue;
    Device device(2, set);
    for (const DType dtype : kFloatTypes) {
      for (const Problem& p : kProblems) {
        INFO(name_of(set) << " " << name_of(dtype) << " " << p.batch << " x " << p.sequence << ", " << p.heads
                          << " heads of " << p.head_width);
        const std::vector<float> table = random_table(p);
        const Tensor input = Tensor::random(p.tokens(), p.stride, dtype, 1);
        Tensor output = input;  // memory between the heads stays
        Rotate a = arguments(p, table, input.view(), output.view());
        device.run(a);
        CHECK(relative_error(output.values(), rotated(p, input.values(), table, 1)) < tolerance(dtype));
        Tensor in_place = input;
        a.input = in_place.view(), a.output = in_place.view();
        device.run(a);
        CHECK(in_place.same_bits(output));
        a.inverse = true;
        device.run(a);
        CHECK(relative_error(in_place.values(), input.values()) < 2 * tolerance(dtype));
        CHECK(relative_error(in_place.values(), rotated(p, output.values(), table, -1)) < tolerance(dtype));
        CHECK((output.intact() && in_place.intact()));
      }
    }
  }
}

TEST_CASE("rotary has the same bits on all instruction sets and thread counts, and passes NaN on", "[rotary]") {
  const Problem p{2, 37, 3, 38, 150};
  const std::vector<float> table = random_table(p);
  for (const DType dtype : kFloatTypes) {
    const Tensor input = Tensor::random(p.tokens(), p.stride, dtype, 1);
    std::vector<Tensor> outputs;
    for (const InstructionSet set : kInstructionSets) {
      if (!is_supported(set)) continue;
      for (const int threads : {1, 3}) {
        Device device(threads, set);
        outputs.push_back(input);
        device.run(arguments(p, table, input.view(), outputs.back().view()));
        CHECK(outputs.back().same_bits(outputs.front()));
      }
    }
  }
  Device device;
  Tensor x = Tensor::random(p.tokens(), p.stride, DType::fp32, 1);
  x.floats()[5] = NAN;
  device.run(arguments(p, table, x.view(), x.view()));
  CHECK((std::isnan(x.floats()[5]) && std::isnan(x.floats()[5 + 19]) && std::isfinite(x.floats()[6])));
}

TEST_CASE("rotary by given positions rotates each row as a sequence that has it there", "[rotary]") {
  Device device;
  const Problem p{2, 6, 3, 10, 30};
  const std::vector<float> table = random_table(p);
  const std::vector<std::int32_t> positions{0, 1, 2, 0, 1, 0, 0, 1, 2, 3, 4, 5};
  for (const DType dtype : kFloatTypes) {
    const Tensor input = Tensor::random(p.tokens(), p.stride, dtype, 1);
    Tensor output(p.tokens(), p.stride, dtype);
    Rotate a = arguments(p, table, input.view(), output.view());
    a.positions = positions.data();
    device.run(a);
    for (std::int64_t t = 0; t < p.tokens(); ++t) {
      // The row alone, in a sequence of one whose table begins at its position.
      const std::int64_t position = positions[static_cast<std::size_t>(t)];
      const Problem one{1, 1, p.heads, p.head_width, p.stride};
      const std::vector<float> from(table.begin() + static_cast<std::ptrdiff_t>(position * p.head_width), table.end());
      Doubles row(static_cast<std::size_t>(p.stride)), found(row.size());
      for (std::int64_t i = 0; i < p.stride; ++i) {
        row[static_cast<std::size_t>(i)] = at(input.values(), p.stride, t, i);
        found[static_cast<std::size_t>(i)] = at(output.values(), p.stride, t, i);
      }
      CHECK(relative_error(found, rotated(one, row, from, 1)) < tolerance(dtype));
    }
    CHECK(output.intact());
  }
}
