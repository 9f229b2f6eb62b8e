// run.replay_every: what a rank computes wrongly is found and located, and nothing else is.
#include <cstdlib>

#include "sanitized.hpp"
#include "training/checkpoint_case.hpp"
#include "training/flip_case.hpp"
#include "training/replay_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Returns configuration `seed`, replayed at every step.
Drawn replayed(std::uint64_t seed, std::int64_t world) {
  Drawn drawn = checked(seed, world);
  drawn.options.run.replay_every = 1;
  drawn.options.train.micro_batch = 1 + static_cast<std::int64_t>(seed % 2);  // 1: an odd number of elements
  drawn.options.model.dropout = seed % 4 == 1 ? 0.1 : 0.0;
  if (seed % 3 == 0) {  // activations are kept as codes, with gaps behind them
    drawn.options.precision.linear = LinearPrecision::fp8;
    drawn.options.precision.fp8_smallest = 0;
    drawn.options.memory.keep_activated = Tristate::yes;
  }
  return drawn;
}

}  // namespace

TEST_CASE("a wrong result of an operation is found and located, 200 times of 200") {
  const char* const given = std::getenv("TESSERA_FLIP_SEED");
  const std::uint64_t first = given != nullptr ? std::stoull(given) : 1;
  std::fprintf(stderr, "wrong results from TESSERA_FLIP_SEED=%llu\n", static_cast<unsigned long long>(first));
  for (std::uint64_t seed = first; seed < first + draws(200, 20); ++seed)
    require_wrong_result_found(replayed(seed, 1 + static_cast<std::int64_t>(seed % 4)), seed);
}

TEST_CASE("replays find nothing where nothing is wrong, and change no bit") {
  for (std::uint64_t seed = 1; seed <= draws(40, 10); ++seed) {
    Drawn drawn = replayed(seed, 0);
    drawn.options.run.replay_every = 1 + static_cast<std::int64_t>(seed % 3);
    INFO(drawn.text);
    WrongResult none;
    for (const std::string& one : train_with_wrong_result(drawn, 0, none)) REQUIRE(one == "");
  }
  Options options = base_options();
  const Shape shape{Strategy::zero3, 2, 2, 0, Wrap::block, 4};
  const Outcome plain = run(options, shape, RunPlace().path(), 6, 0);
  options.run.check_every = options.run.replay_every = 2;
  require_same_state(plain, run(options, shape, RunPlace().path(), 6, 0));
}

TEST_CASE("of wrong results in steps drawn at random, replays find those in their own") {
  constexpr int kEvery = 4;
  const std::uint64_t drawn_steps = draws(200, 20);
  int found = 0, replayed_steps = 0;
  for (std::uint64_t seed = 1; seed <= drawn_steps; ++seed) {
    Drawn drawn = replayed(seed, 2);
    drawn.options.run.replay_every = kEvery;
    drawn.options.train.steps = 2 * kEvery;
    drawn.options.train.accumulation = 1;
    WrongResult fault;
    found += train_with_wrong_result(drawn, seed, fault, nullptr, true)[0].empty() ? 0 : 1;
    replayed_steps += (fault.step + 1) % kEvery == 0 ? 1 : 0;
  }
  std::fprintf(stderr, "found %d of %d wrong results, with a replay every %d steps\n", found,
               static_cast<int>(drawn_steps), kEvery);
  CHECK(found == replayed_steps);
}
