#include <bit>
#include <catch2/catch.hpp>
#include <vector>

#include "kernels/tensors.hpp"
#include "tessera/base/counter_rng.hpp"
#include "tessera/kernels/state_rounding.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

StepScalars some_scalars() {
  StepScalars s;
  s.learning_rate = 1e-2f;
  s.clip_coefficient = 0.37f;
  return s;
}

constexpr double kMomentum = 0.95, kDecay = 0.1;

/// Momentum after a step, and the direction that is made orthogonal.
struct Formula {
  Formula(double m, double gradient, const StepScalars& s) : g(gradient * static_cast<double>(s.clip_coefficient)) {
    moved = m + (1 - kMomentum) * (g - m);
    direction = g + kMomentum * (moved - g);
  }
  double g, moved = 0, direction = 0;
};

}  // namespace

TEST_CASE("Muon's direction follows the formula in double and leaves the state alone", "[muon]") {
  for (const DType dtype : kFloatTypes) {
    for (const std::int64_t n : {1, 7, 64, 20011}) {
      INFO(name_of(dtype) << " " << n);
      const StepScalars scalars = some_scalars();
      const Tensor state = Tensor::random(1, n, DType::fp32, 1, 0.1), gradient = Tensor::random(1, n, dtype, 2);
      Tensor output(1, n, DType::fp32);
      Device device;
      MuonDirection a;
      a.elements = n, a.state = state.floats(), a.gradient = gradient.data(), a.gradient_dtype = dtype;
      a.momentum = kMomentum, a.output = output.floats(), a.scalars = &scalars;
      device.run(a);
      const Doubles m = state.values(), g = gradient.values();
      Doubles wanted;
      for (std::size_t i = 0; i < m.size(); ++i) wanted.push_back(Formula(m[i], g[i], scalars).direction);
      CHECK(relative_error(output.values(), wanted) < tolerance(DType::fp32));
      CHECK((state.intact() && gradient.intact() && output.intact()));
    }
  }
}

TEST_CASE("Muon's update follows the formula in double, by runs, with copies, and skips where told", "[muon]") {
  for (const DType dtype : kFloatTypes) {
    const std::int64_t n = 20011;
    const StepScalars scalars = some_scalars();
    const std::vector<DecayRun> runs = {
        {0, 101, true, false, 2.5f}, {101, 128, false, true}, {128, 9000, false, false, 0.5f}, {9024, 20000, true}};
    const Tensor gradient = Tensor::random(1, n, dtype, 4), direction = Tensor::random(1, n, DType::fp32, 5);
    const Tensor p0 = Tensor::random(1, n, DType::fp32, 6), m0 = Tensor::random(1, n, DType::fp32, 7, 0.1);
    Tensor p = p0, m = m0, copy(1, n, DType::bf16), cast(1, n, DType::bf16);
    Device device;
    void* const states[] = {m.floats()};
    ParameterUpdate a;
    a.rule = UpdateRule::muon;
    a.elements = n, a.master = p.floats(), a.states = states, a.direction = direction.floats();
    a.gradient = gradient.data(), a.gradient_dtype = dtype, a.momentum = kMomentum, a.weight_decay = kDecay;
    a.runs = runs, a.scalars = &scalars, a.copy = copy.data(), a.copy_dtype = DType::bf16;
    device.run(a);
    Doubles wanted_p = p0.values(), wanted_m = m0.values();
    const Doubles g = gradient.values(), o = direction.values();
    const auto rate = static_cast<double>(scalars.learning_rate);
    for (const DecayRun& run : runs) {
      for (auto i = static_cast<std::size_t>(run.begin); !run.is_padding && i < static_cast<std::size_t>(run.end);
           ++i) {
        wanted_m[i] = Formula(wanted_m[i], g[i], scalars).moved;
        wanted_p[i] -= run.decays ? rate * kDecay * wanted_p[i] : 0;
        wanted_p[i] -= rate * static_cast<double>(run.scale) * o[i];
      }
    }
    CHECK(relative_error(p.values(), wanted_p) < tolerance(DType::fp32));
    CHECK(relative_error(m.values(), wanted_m) < tolerance(DType::fp32));
    device.run(Cast{{p.data(), DType::fp32}, {cast.data(), DType::bf16}, n});
    const Doubles copied = copy.values(), casted = cast.values();
    for (const DecayRun& run : runs) {
      for (auto i = static_cast<std::size_t>(run.begin); i < static_cast<std::size_t>(run.end); ++i)
        REQUIRE(copied[i] == casted[i]);
    }
    CHECK((p.intact() && m.intact() && copy.intact()));

    StepScalars skip = scalars;
    skip.skip = 1;
    a.scalars = &skip, a.copy = nullptr;
    const Tensor before = p, state = m;
    device.run(a);
    CHECK((p.same_bits(before) && m.same_bits(state)));
  }
}

TEST_CASE("Muon's update has the same bits for every split of the range", "[muon]") {
  const std::int64_t n = 40000, half = 17344;
  const StepScalars scalars = some_scalars();
  const Tensor gradient = Tensor::random(1, n, DType::fp32, 4), direction = Tensor::random(1, n, DType::fp32, 5);
  Tensor whole = Tensor::random(1, n, DType::fp32, 6), m = Tensor::random(1, n, DType::fp32, 7);
  Tensor parts = whole, m_parts = m;
  Device device;
  const auto update = [&](Tensor& master, Tensor& state, std::int64_t first, std::int64_t count) {
    const DecayRun run{0, count, true, false, 1.5f};
    void* const states[] = {state.floats() + first};
    ParameterUpdate a;
    a.rule = UpdateRule::muon;
    a.elements = count, a.master = master.floats() + first, a.states = states;
    a.direction = direction.floats() + first, a.gradient = gradient.floats() + first;
    a.momentum = kMomentum, a.weight_decay = kDecay, a.runs = {&run, 1}, a.scalars = &scalars;
    device.run(a);
  };
  update(whole, m, 0, n);
  update(parts, m_parts, 0, half);
  update(parts, m_parts, half, n - half);
  CHECK((parts.same_bits(whole) && m_parts.same_bits(m)));
}

TEST_CASE("Muon keeps its momentum in bf16 as its fp32 update of it, rounded by the words of their places", "[muon]") {
  const std::int64_t n = 9001;
  StepScalars scalars = some_scalars();
  scalars.seed = 11, scalars.step = 3;
  const std::vector<DecayRun> runs = {{0, 101, true, false, 1, 7, 4}, {128, 9000, false, false, 1, 8, 2}};
  const Tensor gradient = Tensor::random(1, n, DType::bf16, 4), direction = Tensor::random(1, n, DType::fp32, 5);
  Tensor p = Tensor::random(1, n, DType::fp32, 6), m = Tensor::random(1, n, DType::bf16, 7, 0.1);
  Tensor p_wide = p, m_wide(1, n, DType::fp32), made(1, n, DType::fp32), made_wide(1, n, DType::fp32);
  from_doubles(m.values(), DType::fp32, m_wide.data());
  Device device;
  const auto update = [&](Tensor& master, Tensor& state, Tensor& output, DType dtype) {
    MuonDirection d;
    d.elements = n, d.state = state.data(), d.state_dtype = dtype, d.output = output.floats();
    d.gradient = gradient.data(), d.gradient_dtype = DType::bf16, d.scalars = &scalars;
    device.run(d);
    void* const states[] = {state.data()};
    ParameterUpdate a;
    a.rule = UpdateRule::muon;
    a.elements = n, a.master = master.floats(), a.states = states, a.states_dtype = dtype;
    a.direction = direction.floats(), a.gradient = gradient.data(), a.gradient_dtype = DType::bf16;
    a.momentum = kMomentum, a.weight_decay = kDecay, a.runs = runs, a.scalars = &scalars;
    device.run(a);
  };
  Doubles wanted = m.values();
  update(p, m, made, DType::bf16);
  update(p_wide, m_wide, made_wide, DType::fp32);
  CHECK((p.same_bits(p_wide) && made.same_bits(made_wide)));
  for (const DecayRun& run : runs) {
    for (std::int64_t i = run.begin; i < run.end; ++i) {
      std::uint32_t word = 0;
      fill_words(11, RandomUse::rounding, run.tensor, rounding_word(3, run.first + i - run.begin), {&word, 1});
      const std::uint32_t bits = rounded_at_random(std::bit_cast<std::uint32_t>(m_wide.floats()[i]), word);
      wanted[static_cast<std::size_t>(i)] = static_cast<double>(std::bit_cast<float>(bits));
    }
  }
  CHECK(m.values() == wanted);
}
