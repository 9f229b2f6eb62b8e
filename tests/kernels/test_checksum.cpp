#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "kernels/tensors.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

std::uint64_t plain_checksum(const void* data, std::int64_t words, std::int64_t first) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < words; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(data) + 4 * i, 4);
    sum += word * (2 * static_cast<std::uint64_t>(first + i) + 1);
  }
  return sum;
}

}  // namespace

TEST_CASE("A checksum is the weighted sum of words, however it is split", "[checksum]") {
  constexpr std::int64_t kLarge = (std::int64_t{1} << 33) + 5;
  for (const std::int64_t n : {0, 1, 7, 16, 63, 1000, 65536, 200003}) {
    const Tensor x = Tensor::random(1, n + 3, DType::fp32, 9);
    for (const std::int64_t first : {std::int64_t{0}, std::int64_t{77}, kLarge}) {
      const std::uint64_t expected = plain_checksum(x.floats() + 3, n, first);
      for (const InstructionSet set : kInstructionSets) {
        if (!is_supported(set)) continue;
        Device device(3, set);
        std::uint64_t whole = 5, parts = 5;
        device.run(AddChecksum{x.floats() + 3, n, first, &whole});
        CHECK(whole - 5 == expected);
        const std::int64_t half = n / 3;
        device.run(AddChecksum{x.floats() + 3 + half, n - half, first + half, &parts});
        device.run(AddChecksum{x.floats() + 3, half, first, &parts});
        CHECK(parts == whole);
      }
    }
  }
}

TEST_CASE("Checksums follow the state that an update changes, and a flipped bit stays in them", "[checksum]") {
  const bool muon = GENERATE(false, true), skips = GENERATE(false, true);
  const DType dtype = GENERATE(DType::fp32, DType::bf16), copied = GENERATE(DType::fp32, DType::bf16);
  const DType moments = GENERATE(DType::fp32, DType::bf16);
  constexpr std::int64_t n = 9002, first = 4096;
  const std::int64_t from = GENERATE(0, 3);  // aligned or not
  INFO(muon << skips << name_of(dtype) << from);
  std::vector<Tensor> state;
  for (std::uint32_t i = 0; i < 3; ++i) state.push_back(Tensor::random(1, n + from, i == 0 ? DType::fp32 : moments, i));
  Doubles squares = state[2].values();
  for (double& square : squares) square = std::abs(square);
  from_doubles(squares, moments, state[2].data());
  const auto at = [&](Tensor& t) { return static_cast<std::byte*>(t.data()) + from * size_of(moments); };
  const Tensor gradient = Tensor::random(1, n + from, dtype, 4),
               direction = Tensor::random(1, n + from, DType::fp32, 5);
  Tensor copy(1, n + from, copied);
  StepScalars scalars;
  scalars.learning_rate = 1e-2f, scalars.skip = skips ? 1 : 0;
  const std::vector<DecayRun> runs = {{0, 101, true}, {101, 128, false, true}, {128, 5001, false}, {5002, 9000, true}};
  std::vector<void*> states{at(state[1])};
  if (!muon) states.push_back(at(state[2]));
  ParameterUpdate a;
  a.elements = n, a.master = state[0].floats() + from, a.states = states, a.states_dtype = moments;
  a.runs = runs, a.scalars = &scalars;
  a.gradient = static_cast<const std::byte*>(gradient.data()) + from * size_of(dtype), a.gradient_dtype = dtype;
  a.copy = static_cast<std::byte*>(copy.data()) + from * size_of(copied), a.copy_dtype = copied;
  if (muon) a.rule = UpdateRule::muon, a.direction = direction.floats() + from;
  a.first = first;
  const auto sums_of_state = [&] {
    std::vector<std::uint64_t> sums{plain_checksum(a.master, n, first)};
    const std::int64_t each = 4 / size_of(moments);  // elements of a word
    for (const void* one : states) sums.push_back(plain_checksum(one, n / each, first / each));
    return sums;
  };
  Device device(2);
  const auto update = [&] { device.run(a); };
  std::vector<std::uint64_t> sums = sums_of_state();
  const std::vector<std::uint64_t> before = sums;
  a.sums = sums.data();
  update();
  CHECK(sums == sums_of_state());
  CHECK((sums == before) == skips);
  // Bit 4 of a word in the middle of a run: its change is never taken back.
  for (std::size_t kind = 0; kind <= states.size(); ++kind) {
    const std::int64_t each = kind == 0 ? 1 : 4 / size_of(moments), word = 4000 / each;
    auto* const place = static_cast<std::byte*>(kind == 0 ? a.master : states[kind - 1]) + 4 * word;
    const bool was_set = (*place & std::byte{16}) != std::byte{};
    *place ^= std::byte{16};
    for (int step = 0; step < 2; ++step) {
      update();
      CHECK(sums_of_state()[kind] - sums[kind] ==
            (was_set ? -std::uint64_t{16} : 16) * checksum_weight(first / each + word));
    }
    std::ranges::copy(sums_of_state(), sums.begin());
  }
}
