// The combinations of `bench memory`, as options. tests/mpi/test_bench_memory.cpp measures them.

#include <catch2/catch.hpp>
#include <set>

#include "bench/memory_cases.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/recomputation.hpp"
#include "tessera/config/validate.hpp"

using namespace tessera;

TEST_CASE("bench memory varies strategy, recomputation and offload, each combination once") {
  const std::vector<MemoryCase> cases = memory_cases({});
  CHECK(cases.size() == 7 * 3 * 3);
  std::set<std::string> names;
  for (const MemoryCase& one : cases) names.insert(describe(one));
  CHECK(names.size() == cases.size());
  CHECK(names.contains("hsdp-zero2, selective, params"));
}

TEST_CASE("what the user gave is not varied") {
  const Options options = parse_arguments(
      {"--shard.strategy=zero2", "--memory.checkpoint=selective", "--memory.checkpoint_parts=mlp", "--run.threads=1"});
  const std::vector<MemoryCase> cases = memory_cases(options);
  REQUIRE(cases.size() == 3);
  for (const MemoryCase& one : cases) {
    CHECK(one.strategy == Strategy::zero2);
    CHECK(describe(recomputation_of(case_options(one, options).memory)) == "mlp");
  }
  CHECK(cases[0].offload == Offload::none);
  CHECK(cases[2].offload == Offload::params);
}

TEST_CASE("options that a combination has no use for get their defaults") {
  const Options options = parse_arguments(
      {"--shard.limit_all_gathers=3", "--shard.prefetch_backward=2", "--optim.schedule=linear", "--optim.min_lr=1e-5"});
  std::size_t refused = 0;
  for (const MemoryCase& one : memory_cases(options)) {
    const Options of_case = case_options(one, options);
    const bool gathers = rules_of(one.strategy).life == ParameterLife::phase;
    INFO(describe(one));
    CHECK(of_case.shard.limit_all_gathers == (gathers ? 3 : ShardOptions{}.limit_all_gathers));
    CHECK(of_case.shard.strategy == one.strategy);
    CHECK(of_case.shard.offload == one.offload);
    CHECK(of_case.memory.checkpoint == one.checkpoint);
    CHECK(of_case.optim.schedule == LearningRateSchedule::constant);
    const bool is_possible = one.offload != Offload::params || rules_of(one.strategy).life != ParameterLife::rest;
    if (is_possible) {
      CHECK_NOTHROW(validate(of_case));
      continue;
    }
    ++refused;
    CHECK_THROWS_WITH(validate(of_case), Catch::Contains("keeps full parameters on every rank"));
  }
  CHECK(refused == 3 * 3);  // ddp, zero1, hsdp-zero1
}
