#include <algorithm>
#include <catch2/catch.hpp>

#include "plan_run.hpp"
#include "tessera/config/choices.hpp"
#include "training/checkpoint_slices.hpp"
#include "training/session_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Every element of every tensor in one run of one rank; each rank's runs end to end in its file.
void require_each_once(const StepSchedule& schedule) {
  IndexedVector<TensorId, std::vector<int>> written;
  for (const ParameterTensor& tensor : schedule.model.tensors)
    written.emplace_back(static_cast<std::size_t>(tensor.elements), 0);
  for (std::int64_t rank = 0; rank < schedule.grid.world(); ++rank) {
    const auto owned = owned_runs(schedule, rank);
    std::int64_t file_offset = 0, most = 0;
    for (const OwnedRun& one : owned) {
      REQUIRE(one.file_offset == file_offset);
      REQUIRE(one.run.count > 0);
      file_offset += one.run.count;
      auto& tensor = written.at(TensorId(one.run.tensor));
      for (std::int64_t i = 0; i < one.run.count; ++i) ++tensor.at(static_cast<std::size_t>(one.run.first + i));
    }
    for (const Unit& unit : schedule.layout.units) most += unit.padded / schedule.grid.world();
    REQUIRE(file_offset <= most);  // so that no rank writes more than its even share
  }
  for (const TensorId t : written.ids()) {
    INFO(schedule.model.tensors[t].name);
    REQUIRE(std::ranges::count(written[t], 1) == schedule.model.tensors[t].elements);
  }
}

}  // namespace

TEST_CASE("ranks share the writing of every element evenly, whatever they hold of it") {
  for (const auto& [strategy, name] : choices<Strategy>()) {
    for (const std::int64_t world : {1, 2, 3, 4, 6}) {
      for (const Wrap wrap : {Wrap::block, Wrap::model}) {
        Options options;
        options.shard.strategy = strategy;
        options.shard.wrap = wrap;
        const bool hybrid = rules_of(strategy).is_hybrid();
        if (hybrid && world % 2 != 0) continue;
        if (hybrid) options.shard.group_size = 2;
        options.train.seq_len = 5;
        INFO(name << ", " << world << " ranks, wrap " << name_of(wrap));
        require_each_once(plan_run(options, small_gpt2(), world, world).schedule);
      }
    }
  }
}
