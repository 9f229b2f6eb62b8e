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
        device->checksum(*device.stream, x.floats() + 3, n, first, &whole);
        CHECK(whole - 5 == expected);
        const std::int64_t half = n / 3;
        device->checksum(*device.stream, x.floats() + 3 + half, n - half, first + half, &parts);
        device->checksum(*device.stream, x.floats() + 3, half, first, &parts);
        CHECK(parts == whole);
      }
    }
  }
}

TEST_CASE("Checksums follow the state that an update changes, and a flipped bit stays in them", "[checksum]") {
  const bool muon = GENERATE(false, true), skips = GENERATE(false, true);
  const DType dtype = GENERATE(DType::fp32, DType::bf16), copied = GENERATE(DType::fp32, DType::bf16);
  constexpr std::int64_t n = 9001, first = 4096;
  const std::int64_t from = GENERATE(0, 3);  // aligned or not
  INFO(muon << skips << name_of(dtype) << from);
  std::vector<Tensor> state;
  for (int i = 0; i < 3; ++i) state.push_back(Tensor::random(1, n + from, DType::fp32, static_cast<std::uint32_t>(i)));
  for (std::int64_t i = 0; i < n + from; ++i) state[2].floats()[i] = std::abs(state[2].floats()[i]);
  const Tensor gradient = Tensor::random(1, n + from, dtype, 4),
               direction = Tensor::random(1, n + from, DType::fp32, 5);
  Tensor copy(1, n + from, copied);
  StepScalars scalars;
  scalars.learning_rate = 1e-2f, scalars.skip = skips ? 1 : 0;
  const std::vector<DecayRun> runs = {{0, 101, true}, {101, 128, false, true}, {128, 5001, false}, {5001, 9000, true}};
  std::vector<float*> states{state[1].floats() + from};
  if (!muon) states.push_back(state[2].floats() + from);
  UpdateArguments a;
  a.elements = n, a.master = state[0].floats() + from, a.states = states, a.runs = runs, a.scalars = &scalars;
  a.gradient = static_cast<const std::byte*>(gradient.data()) + from * size_of(dtype), a.gradient_dtype = dtype;
  a.copy = static_cast<std::byte*>(copy.data()) + from * size_of(copied), a.copy_dtype = copied;
  if (muon) a.direction = direction.floats() + from;
  a.first = first;
  const auto sums_of_state = [&] {
    std::vector<std::uint64_t> sums{plain_checksum(a.master, n, first)};
    for (const float* one : states) sums.push_back(plain_checksum(one, n, first));
    return sums;
  };
  Device device(2);
  const auto update = [&] { muon ? device->muon(*device.stream, a) : device->adamw(*device.stream, a); };
  std::vector<std::uint64_t> sums = sums_of_state();
  const std::vector<std::uint64_t> before = sums;
  a.sums = sums.data();
  update();
  CHECK(sums == sums_of_state());
  CHECK((sums == before) == skips);
  // Bit 20 of an element in the middle of a run: its change is never taken back.
  for (std::size_t kind = 0; kind <= states.size(); ++kind) {
    float* const element = (kind == 0 ? a.master : states[kind - 1]) + 4000;
    std::uint32_t bits = 0;
    std::memcpy(&bits, element, 4);
    const std::uint64_t change = bits >> 20 & 1 ? -(std::uint64_t{1} << 20) : std::uint64_t{1} << 20;
    bits ^= 1u << 20;
    std::memcpy(element, &bits, 4);
    for (int step = 0; step < 2; ++step) {
      update();
      CHECK(sums_of_state()[kind] - sums[kind] == change * (2 * (first + 4000) + 1));
    }
    std::ranges::copy(sums_of_state(), sums.begin());
  }
}
