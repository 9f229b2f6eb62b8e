#include <bit>
#include <catch2/catch.hpp>

#include "kernels/tensors.hpp"
#include "tessera/base/counter_rng.hpp"
#include "tessera/kernels/state_rounding.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

struct State {
  explicit State(std::int64_t n, DType moments_dtype = DType::fp32)
      : moments(moments_dtype),
        p(Tensor::random(1, n, DType::fp32, 1)),
        m(Tensor::random(1, n, moments, 2, 0.1)),
        v(Tensor::random(1, n, moments, 3, 0.01)) {
    Doubles squares = v.values();
    for (double& square : squares) square = std::abs(square);
    from_doubles(squares, moments, v.data());
  }
  bool same_bits(const State& o) const { return p.same_bits(o.p) && m.same_bits(o.m) && v.same_bits(o.v); }
  DType moments;
  Tensor p, m, v;
  std::array<void*, 2> addresses = {};
};

StepScalars some_scalars() {
  StepScalars s;
  s.learning_rate = 1e-2f;
  s.bias_correction1 = static_cast<float>(1 - std::pow(0.9, 3)),
  s.bias_correction2 = static_cast<float>(1 - std::pow(0.999, 3));
  s.clip_coefficient = 0.37f;
  s.seed = 11, s.step = 3;
  return s;
}

/// The random word of an element of a run, as docs/numerics.md says.
std::uint32_t word_of(const StepScalars& scalars, const DecayRun& run, std::int64_t i) {
  const std::int64_t element = run.first + i - run.begin;
  const std::uint64_t block =
      (static_cast<std::uint64_t>(scalars.step) << 32) + static_cast<std::uint64_t>(element / 4);
  return philox(scalars.seed, RandomUse::rounding, run.tensor, block).at(static_cast<std::size_t>(element % 4));
}

ParameterUpdate arguments(State& state, const Tensor& gradient, DType dtype, std::int64_t n,
                          std::span<const DecayRun> runs, const StepScalars& scalars, std::int64_t from = 0) {
  const std::int64_t skipped = from * size_of(state.moments);
  state.addresses = {static_cast<std::byte*>(state.m.data()) + skipped,
                     static_cast<std::byte*>(state.v.data()) + skipped};
  ParameterUpdate a;
  a.elements = n;
  a.master = state.p.floats() + from, a.states = state.addresses, a.states_dtype = state.moments;
  a.gradient = static_cast<const std::byte*>(gradient.data()) + from * size_of(dtype), a.gradient_dtype = dtype;
  a.weight_decay = 0.1;
  a.runs = runs, a.scalars = &scalars;
  return a;
}

}  // namespace

TEST_CASE("AdamW follows the formula in double, decays where told and leaves padding alone", "[adamw]") {
  for (const DType dtype : kFloatTypes) {
    const std::int64_t n = 20011;
    const StepScalars scalars = some_scalars();
    const std::vector<DecayRun> runs = {{0, 101, true}, {128, 9000, false}, {9024, 20000, true}};
    const Tensor gradient = Tensor::random(1, n, dtype, 4);
    State state(n);
    const State before = state;
    Device device;
    device.run(arguments(state, gradient, dtype, n, runs, scalars));
    const Doubles p = before.p.values(), m = before.m.values(), v = before.v.values(), g = gradient.values();
    Doubles p_step(p.size()), step(p.size()), m_new = m, v_new = v;
    for (const DecayRun& run : runs) {
      for (std::int64_t k = run.begin; k < run.end; ++k) {
        const auto i = static_cast<std::size_t>(k);
        const double grad = g[i] * static_cast<double>(scalars.clip_coefficient),
                     lr = static_cast<double>(scalars.learning_rate);
        m_new[i] = 0.9 * m[i] + 0.1 * grad;
        v_new[i] = 0.999 * v[i] + 0.001 * grad * grad;
        p_step[i] = -(run.decays ? lr * 0.1 * p[i] : 0) -
                    lr * (m_new[i] / static_cast<double>(scalars.bias_correction1)) /
                        (std::sqrt(v_new[i] / static_cast<double>(scalars.bias_correction2)) + 1e-8);
      }
    }
    const Doubles after = state.p.values();
    for (std::size_t i = 0; i < after.size(); ++i) step[i] = after[i] - p[i];
    CHECK(relative_error(step, p_step) < 1e-5);  // a difference of parameters: their own rounding shows
    CHECK(relative_error(state.m.values(), m_new) < 1e-6);
    CHECK(relative_error(state.v.values(), v_new) < 1e-6);
    CHECK(state.p.floats()[110] == before.p.floats()[110]);
    CHECK(state.v.floats()[20005] == before.v.floats()[20005]);
    CHECK((state.p.intact() && state.m.intact() && state.v.intact()));
  }
}

TEST_CASE("AdamW keeps moments in bf16 as its fp32 update of them, rounded by the words of their places", "[adamw]") {
  const std::int64_t n = 20011;
  const StepScalars scalars = some_scalars();
  const std::vector<DecayRun> runs = {{0, 101, true, false, 1, 7, 12},
                                      {128, 9000, false, false, 1, 8, 0},
                                      {9024, 20000, true, false, 1, 9, (std::int64_t{1} << 33) + 3}};
  for (const DType dtype : kFloatTypes) {
    const Tensor gradient = Tensor::random(1, n, dtype, 4);
    State narrow(n, DType::bf16), wide(n);
    from_doubles(narrow.m.values(), DType::fp32, wide.m.data());
    from_doubles(narrow.v.values(), DType::fp32, wide.v.data());
    const Doubles m = narrow.m.values(), v = narrow.v.values();
    Device device;
    device.run(arguments(narrow, gradient, dtype, n, runs, scalars));
    device.run(arguments(wide, gradient, dtype, n, runs, scalars));
    CHECK(narrow.p.same_bits(wide.p));
    const auto kept = [](float x, std::uint32_t random) {
      return static_cast<double>(std::bit_cast<float>(rounded_at_random(std::bit_cast<std::uint32_t>(x), random)));
    };
    const Doubles m_after = narrow.m.values(), v_after = narrow.v.values();
    Doubles m_wanted = m, v_wanted = v;
    for (const DecayRun& run : runs) {
      for (std::int64_t i = run.begin; i < run.end; ++i) {
        const std::uint32_t word = word_of(scalars, run, i);
        m_wanted[static_cast<std::size_t>(i)] = kept(wide.m.floats()[i], word);
        v_wanted[static_cast<std::size_t>(i)] = kept(wide.v.floats()[i], word >> 16);
      }
    }
    CHECK(m_after == m_wanted);
    CHECK(v_after == v_wanted);
    CHECK((narrow.m.intact() && narrow.v.intact()));
  }
}

TEST_CASE("AdamW: the same bits under any split, instruction set and number of threads", "[adamw]") {
  const std::int64_t n = 33333;
  const StepScalars scalars = some_scalars();
  const std::vector<DecayRun> runs = {
      {0, 777, true}, {777, 20000, false, false, 1, 1, 5}, {20000, n, true, false, 1, 2, 8}};
  const DType moments = GENERATE(DType::fp32, DType::bf16);
  std::mt19937 generator(6);
  for (const DType dtype : kFloatTypes) {
    const Tensor gradient = Tensor::random(1, n, dtype, 4);
    State first(n, moments);
    bool have_first = false;
    for (const InstructionSet set : kInstructionSets) {
      if (!is_supported(set)) continue;
      for (const int threads : {1, 2, 3}) {
        INFO(name_of(dtype) << " " << name_of(set) << " " << threads);
        Device device(threads, set);
        State whole(n, moments), split(n, moments);
        device.run(arguments(whole, gradient, dtype, n, runs, scalars));
        for (std::int64_t begin = 0; begin < n;) {
          const std::int64_t end = std::min(n, begin + 1 + static_cast<std::int64_t>(generator() % 5000));
          std::vector<DecayRun> part;
          for (const DecayRun& r : runs) {
            const std::int64_t from = std::max(r.begin, begin);
            const DecayRun cut{from - begin, std::min(r.end, end) - begin, r.decays, false, 1,
                               r.tensor,     r.first + from - r.begin};
            if (cut.begin < cut.end) part.push_back(cut);
          }
          device.run(arguments(split, gradient, dtype, end - begin, part, scalars, begin));
          begin = end;
        }
        if (!have_first) first = whole, have_first = true;
        CHECK(whole.same_bits(first));
        CHECK(split.same_bits(first));
      }
    }
  }
}

TEST_CASE("AdamW does nothing when the step is skipped", "[adamw]") {
  StepScalars scalars = some_scalars();
  scalars.skip = 1;
  const DecayRun run{0, 100, true};
  const Tensor gradient = Tensor::random(1, 100, DType::fp32, 4);
  State state(100);
  const State before = state;
  Device device;
  device.run(arguments(state, gradient, DType::fp32, 100, {&run, 1}, scalars));
  CHECK(state.same_bits(before));
}

TEST_CASE("AdamW's copy is the cast of the master that it leaves, with padding and in skipped steps", "[adamw]") {
  const std::int64_t n = 10007;
  const std::vector<DecayRun> runs = {{0, 101, true},     {101, 128, false, true}, {128, 5000, false},
                                      {5003, 9001, true}, {9001, 9002, true},      {9856, 9937, false, true}};
  Device device;
  for (const DType dtype : kFloatTypes) {
    const Tensor gradient = Tensor::random(1, n, dtype, 4);
    for (const DType copy_dtype : kFloatTypes) {
      for (const std::int64_t from : {0, 64, 3}) {
        for (const bool skips : {false, true}) {
          INFO(name_of(dtype) << " to " << name_of(copy_dtype) << " from " << from << (skips ? ", skipped" : ""));
          StepScalars scalars = some_scalars();
          scalars.skip = skips ? 1 : 0;
          State before(n);
          before.p.floats()[300] = 1e30f, before.p.floats()[302] = -1e-30f, before.p.floats()[303] = std::nanf("");
          State alone = before, copied = before;
          Tensor copy(1, n, copy_dtype), cast(1, n, copy_dtype);
          const auto at = [&](Tensor& t, std::int64_t i) {
            return static_cast<std::byte*>(t.data()) + (from + i) * size_of(copy_dtype);
          };
          ParameterUpdate a = arguments(alone, gradient, dtype, n - from, runs, scalars, from);
          device.run(a);
          a = arguments(copied, gradient, dtype, n - from, runs, scalars, from);
          a.copy = at(copy, 0), a.copy_dtype = copy_dtype;
          device.run(a);
          CHECK(copied.same_bits(alone));
          CHECK(copied.same_bits(before) == skips);
          for (const DecayRun& run : runs) {
            const float* const master = copied.p.floats() + from + run.begin;
            if (run.is_padding) CHECK(*master == before.p.floats()[from + run.begin]);
            device.run(Cast{{master, DType::fp32}, {at(cast, run.begin), copy_dtype}, run.end - run.begin});
          }
          CHECK(copy.same_bits(cast));  // between the runs, too: nothing is written there
          CHECK((copy.intact() && copied.p.intact() && copied.m.intact() && copied.v.intact()));
        }
      }
    }
  }
}
