// Trainings of which some units are frozen: what trains gets the bits that it would get if all trained.
#include <catch2/catch.hpp>
#include <cstring>
#include <set>

#include "draw.hpp"
#include "sanitized.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr std::int64_t kMicroBatches = 8;

/// Returns the names of the tensors of every second unit (0: from the first on, 1: from the second), of the first (2)
/// or of the last (3); none if all units or none would be frozen.
std::set<std::string> frozen_tensors(const Drawn& c, int which) {
  const ModelParts model = declare_parts(small_model(c.family), 1, 1, DType::fp32);
  const UnitLayout layout = divide_into_units(model, c.options.shard.wrap, c.options.shard.min_params, 1);
  std::set<std::string> names;
  for (const UnitId unit : layout.units.ids()) {
    const bool is_frozen = which < 2    ? unit.number() % 2 == which
                           : which == 2 ? unit == UnitId(0)
                                        : unit + 1 == layout.units.end_id();
    for (const TensorPlace& place : layout.units[unit].tensors)
      if (is_frozen) names.insert(model.tensors[place.tensor].name);
  }
  if (names.size() == model.tensors.size()) names.clear();
  return names;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("frozen units change no bit of the others' gradients, whatever strategy and world") {
  Options options = base_options();
  options.optim.clip = 0;  // the norm of what trains is another
  options.train.steps = 1;
  options.train.accumulation = kMicroBatches;
  options.shard.strategy = Strategy::ddp;
  const References all(options);
  options.train.steps = 3;
  int cases = 0;
  for (std::uint64_t seed = 1; cases < static_cast<int>(draws(40, 6)); ++seed) {
    Drawn c = draw(seed, options, kMicroBatches);
    const std::set<std::string> frozen = frozen_tensors(c, cases % 4);
    if (frozen.empty()) continue;
    INFO(c.text << ", frozen " << *frozen.begin() << " and others, " << cases % 4);
    const Architecture architecture = small_model(c.family);
    const auto trains = [&](const ParameterTensor& tensor) { return !frozen.contains(tensor.name); };
    const auto run = [&](const Options& o, std::int64_t steps, std::int64_t world, std::int64_t ranks_per_node) {
      Options with = o;
      with.train.steps = steps;
      return train_locally(with, architecture, world, ranks_per_node, c.machine, {}, c.bucket, trains);
    };
    const RunOutcome first = run(c.options, 1, c.world, c.ranks_per_node);
    const RunOutcome& full = all.of(c);
    REQUIRE(first.losses == full.losses);
    REQUIRE(first.bytes_sent == first.bytes_planned);
    const auto tensors = parameter_tensors(architecture);
    for (const TensorId id : tensors.ids()) {
      if (!trains(tensors[id])) continue;
      INFO(tensors[id].name);
      REQUIRE(same_bits(first.gradients[id], full.gradients[id]));
      REQUIRE(same_bits(first.weights[id], full.weights[id]));
    }
    Options alone = options;
    alone.optim = c.options.optim;
    alone.shard.wrap = c.options.shard.wrap, alone.shard.min_params = c.options.shard.min_params;
    const RunOutcome reference = run(alone, 3, 1, 1), drawn = run(c.options, 3, c.world, c.ranks_per_node);
    REQUIRE(drawn.losses == reference.losses);
    REQUIRE(drawn.norms == reference.norms);
    REQUIRE(drawn.evaluations == reference.evaluations);
    for (const TensorId id : tensors.ids()) REQUIRE(same_bits(drawn.weights[id], reference.weights[id]));
    ++cases;
  }
}
