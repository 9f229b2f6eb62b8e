// Numerics contract 2: strategies and world sizes are invisible; the same bits from all of them.
#include <catch2/catch.hpp>

#include "session_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

void require_same_bits(const RunOutcome& a, const RunOutcome& b) {
  REQUIRE(a.losses == b.losses);
  REQUIRE(a.norms == b.norms);
  REQUIRE(a.evaluations == b.evaluations);
  REQUIRE(a.weights.size() == b.weights.size());
  for (std::size_t i = 0; i < a.weights.size(); ++i) {
    INFO("tensor " << i);
    REQUIRE(a.weights[i].size() == b.weights[i].size());
    REQUIRE(std::memcmp(a.weights[i].data(), b.weights[i].data(), a.weights[i].size() * 4) == 0);
  }
}

}  // namespace

TEST_CASE("all strategies and worlds give the bits of one rank") {
  Options options = base_options();
  const Architecture architecture = small_gpt2();
  const std::int64_t micro_batches = 8;  // world x accumulation
  options.train.accumulation = micro_batches;
  options.shard.strategy = Strategy::ddp;
  const RunOutcome reference = train_locally(options, architecture, 1, 1);
  REQUIRE(reference.losses.back() < reference.losses.front());
  for (const std::int64_t world : {1, 2, 4, 8}) {
    for (const Strategy strategy : {Strategy::ddp, Strategy::zero1, Strategy::zero2, Strategy::zero3, Strategy::hsdp, Strategy::hsdp_zero2}) {
      for (const std::int64_t group : {1, 2, 4, 8}) {
        if (is_hybrid(strategy) ? (group > world) : group != 1) continue;
        options.shard.strategy = strategy;
        options.shard.group_size = is_hybrid(strategy) ? group : 0;
        options.train.accumulation = micro_batches / world;
        for (const ReduceWhen reduce : {ReduceWhen::micro_step, ReduceWhen::step}) {
          options.shard.reduce = reduce;
          INFO(name_of(strategy) << " world " << world << " group " << group << " reduce " << name_of(reduce));
          const RunOutcome run = train_locally(options, architecture, world, world);
          require_same_bits(reference, run);
          REQUIRE(run.bytes_sent == run.bytes_planned);
        }
      }
    }
  }
}
