// Planned memory that nobody writes is found, wherever it lies.
#include <catch2/catch.hpp>

#include "tessera/engine/used_bytes.hpp"
#include "training/session_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr auto kDevice = static_cast<std::size_t>(MemorySpace::device);
constexpr auto kHost = static_cast<std::size_t>(MemorySpace::host);

Options offloading() {
  Options options = base_options();
  options.optim.schedule = LearningRateSchedule::constant;
  options.optim.warmup_steps = 0;
  options.shard.offload = Offload::optimizer;
  return options;
}

/// Trains two ranks on a plan. Returns rank 0's use of both spaces.
std::array<SpaceUse, kMemorySpaces> use_of(const Options& options, const PlannedRun& planned) {
  std::array<SpaceUse, kMemorySpaces> uses;
  MachineShape machine;
  machine.fill = true;
  run_ranks(2, 2, [&](RankContext& context) {
    const Dataset data = open_dataset(options, small_gpt2().vocab, planned.schedule.model.sequence);
    TrainingSession session(context, options, planned, data, machine);
    for (int i = 0; i < 2; ++i) session.train_step();
    session.evaluate(2);
    const UsedBytes bytes(session.schedule(), session.resources());
    session.train_step();
    session.player().finish_step();
    const auto own = bytes.read();
    if (context.rank() == 0) uses = own;
  });
  return uses;
}

/// Adds a storage of 1000 bytes, which are planned as 1024, at the end of its region.
void add_storage(PlannedRun& planned, const Storage& storage) {
  planned.schedule.storages.add(storage);
  RegionPlan& region =
      planned.plan.spaces[static_cast<std::size_t>(storage.space)].regions[static_cast<std::size_t>(storage.region)];
  planned.plan.offset.push_back(region.bytes);
  region.bytes += 1024;
}

}  // namespace

TEST_CASE("a storage that nobody writes is missing from the used bytes, under its name") {
  const Options options = offloading();
  const PlannedRun planned = plan_run(options, small_gpt2(), 2, 2);
  const auto whole = use_of(options, planned);
  for (const RegionKind kind : {RegionKind::at_rest, RegionKind::shared, RegionKind::private_}) {
    for (const MemorySpace space : {MemorySpace::device, MemorySpace::host}) {
      if (kind == RegionKind::shared && space == MemorySpace::host) continue;  // cores have none
      for (const bool carried : {false, true}) {                               // state at rest starts as zeros
        PlannedRun more = planned;
        add_storage(more, {"idle", 1000, kind, space, Category::activations, carried, carried});
        const auto uses = use_of(options, more);
        INFO(static_cast<int>(kind) << " " << static_cast<int>(space) << " " << carried);
        const SpaceUse& with = uses[static_cast<std::size_t>(space)];
        const SpaceUse& without = whole[static_cast<std::size_t>(space)];
        CHECK(with.planned == without.planned + 1024);
        CHECK(with.used == without.used);
        REQUIRE(with.unused.contains("idle"));
        CHECK(with.unused.at("idle") == 1024);
      }
    }
  }
}

TEST_CASE("constants are used, although no step changes them") {
  const Options options = offloading();
  const auto uses = use_of(options, plan_run(options, small_model(Family::llama), 2, 2));  // it has a rotary table
  for (const SpaceUse& use : uses) {
    CHECK(use.used == use.planned);
    CHECK(use.unused.empty());
  }
}

TEST_CASE("bytes between storages have no name, and state that a step leaves alone is not used") {
  const Options options = offloading();
  PlannedRun planned = plan_run(options, small_gpt2(), 2, 2);
  planned.plan.spaces[kDevice].regions[static_cast<std::size_t>(RegionKind::private_)].bytes += 512;
  const auto uses = use_of(options, planned);
  REQUIRE(uses[kDevice].unused.contains(""));
  CHECK(uses[kDevice].unused.at("") == 512);
  CHECK(uses[kHost].unused.empty());
  // Without a rate no master moves.
  Options still = options;
  still.optim.lr = 0;
  const auto unmoved = use_of(still, plan_run(still, small_gpt2(), 2, 2));
  CHECK(unmoved[kHost].used < unmoved[kHost].planned);
}
