// `bench memory`: every combination's planned bytes are written, and little is in use that has no name.

#include <algorithm>
#include <cstdlib>

#include "bench/tables.hpp"
#include "mpi_world.hpp"
#include "sanitized.hpp"

using namespace tessera;
using test::world;

namespace {

MachineShape machine() {
  MachineShape machine;
  machine.machine_ranks = static_cast<int>(world().size());
  return machine;
}

/// Odd sizes: storages whose bytes are not multiples of their alignment.
Options small_run(std::vector<std::string> more = {}) {
  std::vector<std::string> words{"--model.family=gpt2",   "--model.layers=3",       "--model.heads=3",
                                 "--model.width=63",      "--model.vocab=97",       "--model.context=33",
                                 "--train.micro_batch=2", "--train.accumulation=2", "--run.threads=1",
                                 "--bench.warmup=2",      "--run.timeout=60",       "--data.synthetic_tokens=6000",
                                 "--train.eval_batches=4"};
  words.insert(words.end(), more.begin(), more.end());
  return parse_arguments(words);
}

bool is_possible(const MemoryCase& one) {
  return one.offload != Offload::params || rules_of(one.strategy).life != ParameterLife::rest;
}

/// Checks every rank's bytes in both memory spaces, and returns how many combinations were measured.
std::size_t check_used(const std::vector<MemoryRow>& rows) {
  std::size_t measured = 0;
  for (const MemoryRow& row : rows) {
    INFO(describe(row.one) << " " << row.refused);
    REQUIRE_ALL(row.refused.empty() == is_possible(row.one));
    if (!is_possible(row.one)) continue;
    ++measured;
    CHECK(row.use.unused == std::vector<std::string>{});
    CHECK(static_cast<std::int64_t>(row.use.ranks.size()) == world().size());
    for (const RankMemoryUse& use : row.use.ranks) {
      CHECK(use.used == use.planned);
      CHECK(use.planned[0] > 0);
      CHECK((use.planned[1] > 0) == (row.one.offload != Offload::none));
    }
  }
  return measured;
}

}  // namespace

TEST_CASE("planned bytes are those that are written, to the byte, in every combination") {
  if (world().size() != 2) return;
  // Of the 63 combinations nine offload parameters that stay full.
  REQUIRE_ALL(check_used(memory_rows(world(), small_run(), machine())) == 54);
}

TEST_CASE("planned bytes are those that are written where groups are replicas of each other") {
  if (world().size() != 4) return;
  for (const char* const strategy : {"--shard.strategy=hsdp", "--shard.strategy=hsdp-zero2"}) {
    const Options options = small_run({strategy, "--shard.group_size=2", "--memory.checkpoint=selective",
                                       "--memory.checkpoint_blocks=1/2", "--precision.compute=bf16"});
    REQUIRE_ALL(check_used(memory_rows(world(), options, machine())) == 3);
  }
}

TEST_CASE("snapshots of asynchronous checkpoints are planned and written, too") {
  if (world().size() != 2) return;
  const Options options = small_run({"--shard.strategy=zero3", "--memory.checkpoint=none", "--shard.offload=none",
                                     "--checkpoint.async=true", "--checkpoint.every=1"});
  const std::vector<MemoryRow> rows = memory_rows(world(), options, machine());
  REQUIRE_ALL(rows.size() == 1 && rows.front().refused.empty());
  for (const RankMemoryUse& use : rows.front().use.ranks) {
    CHECK(use.used == use.planned);
    CHECK(use.planned[1] > 0);
  }
}

TEST_CASE("what is in use is what is planned and named, and goes with the session") {
  if (world().size() != 2 || testing::kSanitized) return;  // a sanitizer adds its own memory
  const std::vector<std::string> large{"--model.preset=nano", "--run.threads=1", "--bench.warmup=2",
                                       "--train.eval_batches=4"};
  const std::vector<std::vector<std::string>> runs{
      {"--shard.strategy=ddp", "--memory.checkpoint=none", "--shard.offload=none"},
      {"--shard.strategy=zero3", "--memory.checkpoint=block", "--shard.offload=optimizer"},
      {"--shard.strategy=zero2", "--memory.checkpoint=selective", "--shard.offload=params"}};
  for (const std::vector<std::string>& run : runs) {
    std::vector<std::string> words = large;
    words.insert(words.end(), run.begin(), run.end());
    const std::vector<MemoryRow> rows = memory_rows(world(), parse_arguments(words), machine());
    for (const RankMemoryUse& use : rows.at(0).use.ranks) {
      const std::int64_t planned = use.planned_in_use(DeviceKind::cpu);
      CAPTURE(describe(rows[0].one), planned, use.in_use, use.before, use.named[0], use.named[1], use.named[2],
              use.left);
      CHECK(planned > 15'000'000);
      // Pages of libraries count less for a process when another one maps them too, so they are left out.
      CHECK(use.in_use - use.before - use.named[0] > planned - planned / 20);
      // The bound is 5% and 20 MB; of so small a plan the 20 MB would allow all.
      CHECK(std::abs(use.unnamed(DeviceKind::cpu)) < planned / 20 + 3'000'000);
      CHECK(use.left - use.named[0] < planned / 2);  // but for libraries that the session loaded
    }
  }
}

TEST_CASE("a run for which no combination is possible is refused with the reason") {
  if (world().size() != 2) return;
  Options options = small_run({"--shard.strategy=ddp"});
  options.shard.offload = Offload::params;  // as if it had been given
  options.given.insert("shard.offload");
  CHECK_THROWS_WITH(memory_rows(world(), options, machine()), Catch::Contains("keeps full parameters on every rank"));
}
