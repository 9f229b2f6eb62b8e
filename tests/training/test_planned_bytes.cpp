// What is planned is used: memory is filled, a run plays everything, and no planned piece may be as it was.
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "filled_memory.hpp"
#include "plan_run.hpp"
#include "session_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Trains the ranks of one machine on a plan, evaluates and takes a snapshot if there is one. Returns the storages of
/// passing values, by name, that have a piece which some rank never wrote.
std::set<std::string> unwritten_storages(const Options& options, const PlannedRun& planned) {
  std::mutex mutex;
  std::set<std::string> found;
  const std::int64_t world = planned.schedule.grid.world();
  run_ranks(world, world, [&](RankContext& context) {
    const StateLoader fill_regions = [&](const StepSchedule&, const Resources& resources) {
      for (const MemorySpace space : {MemorySpace::device, MemorySpace::host}) {
        for (const RegionKind kind : {RegionKind::shared, RegionKind::private_})
          fill(resources.memory->region(kind, space));
      }
      context.control().barrier();  // before a rank writes to the memory of another one
      return std::optional<StartPoint>();
    };
    const Dataset data = open_dataset(options, small_gpt2().vocab, planned.schedule.model.sequence);
    TrainingSession session(context, options, planned, data, {}, {}, fill_regions);
    for (int i = 0; i < 2; ++i) session.train_step();
    session.evaluate(world);
    session.player().finish_step();
    if (!planned.schedule.snapshot.empty()) session.take_snapshot();
    const std::lock_guard lock(mutex);
    for (const StorageId id : planned.schedule.storages.ids()) {
      const Storage& storage = planned.schedule.storage(id);
      if (storage.region == RegionKind::at_rest) continue;
      if (unwritten(session.resources().memory->bytes_of(planned.schedule, id)) > 0) found.insert(storage.name);
    }
  });
  return found;
}

}  // namespace

TEST_CASE("planned bytes are those that are written, in every combination") {
  std::minstd_rand random(7);
  for (const StrategyRules& rules : all_strategies()) {
    for (const auto checkpoint :
         {ActivationCheckpointing::none, ActivationCheckpointing::selective, ActivationCheckpointing::block}) {
      for (const Offload offload : {Offload::none, Offload::optimizer, Offload::params}) {
        if (offload == Offload::params && rules.life == ParameterLife::rest) continue;
        Options options = base_options();
        options.train.accumulation = 2;
        options.checkpoint.async = true;
        options.shard.strategy = rules.strategy;
        if (rules.is_hybrid()) options.shard.group_size = 2;
        options.shard.offload = offload;
        options.memory.checkpoint = checkpoint;
        if (checkpoint == ActivationCheckpointing::selective) options.memory.recomputed_halves = "attention";
        if (random() % 2 == 0) options.precision.compute = DType::bf16;
        const std::int64_t world = rules.is_hybrid() ? 4 : 2;
        const PlannedRun planned = plan_run(options, small_gpt2(), world, world);
        INFO(name_of(rules.strategy) << ' ' << name_of(checkpoint) << ' ' << name_of(offload) << ' '
                                     << name_of(options.precision.compute));
        CHECK(unwritten_storages(options, planned) == std::set<std::string>{});
      }
    }
  }
}

TEST_CASE("a storage that nobody writes is found") {
  const Options options = base_options();
  PlannedRun planned = plan_run(options, small_gpt2(), 2, 2);
  planned.schedule.storages.add({"idle", 1000, RegionKind::private_, MemorySpace::device, Category::activations});
  RegionPlan& region = planned.plan.spaces[0].regions[static_cast<std::size_t>(RegionKind::private_)];
  planned.plan.offset.push_back(region.bytes);
  region.bytes += 1024;
  CHECK(unwritten_storages(options, planned) == std::set<std::string>{"idle"});
}
