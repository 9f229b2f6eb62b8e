// Training sessions between processes: the bits (or, for odd worlds, the losses) of one rank, for drawn configurations.
#include "mpi_world.hpp"
#include "plan_run.hpp"
#include "training/draw.hpp"

using namespace tessera;
using namespace tessera::test;
using namespace tessera::testing;

namespace {

/// This rank's part of a run on nodes of that shape: all losses, and weights where this rank holds them (NaN
/// elsewhere).
RunOutcome train_here(const Drawn& c, const Architecture& architecture) {
  world().set_ranks_per_node(c.ranks_per_node);
  const PlannedRun planned = plan_run(c.options, architecture, c.world, c.ranks_per_node);
  RunOutcome outcome = empty_outcome(planned);
  std::mutex mutex;
  train_rank(world(), c.options, planned, c.machine, {}, true, outcome, mutex);
  return outcome;
}

std::int64_t elements_of(const std::vector<std::vector<float>>& tensors) {
  std::int64_t sum = 0;
  for (const auto& tensor : tensors) sum += static_cast<std::int64_t>(tensor.size());
  return sum;
}

struct Comparison {
  std::int64_t held = 0, different = 0;  ///< elements
};

Comparison compare(const std::vector<std::vector<float>>& reference, const std::vector<std::vector<float>>& mine) {
  Comparison result;
  for (std::size_t t = 0; t < reference.size(); ++t) {
    for (std::size_t i = 0; i < reference[t].size(); ++i) {
      if (std::isnan(mine[t][i])) continue;
      ++result.held;
      if (std::memcmp(&mine[t][i], &reference[t][i], sizeof(float)) != 0) ++result.different;
    }
  }
  return result;
}

/// Checks that every rank's numbers and slices are the reference's, and that together they hold every element equally
/// often. Collective.
void require_reference_bits(const RunOutcome& reference, const RunOutcome& mine) {
  REQUIRE_ALL(mine.losses == reference.losses);
  REQUIRE_ALL(mine.norms == reference.norms);
  REQUIRE_ALL(mine.evaluations == reference.evaluations);
  REQUIRE_ALL(mine.bytes_sent == mine.bytes_planned);
  const Comparison weights = compare(reference.weights, mine.weights);
  REQUIRE_ALL(weights.different == 0);
  const std::int64_t copies = world().control().sum(weights.held);
  REQUIRE_ALL(copies > 0);
  REQUIRE_ALL(copies % elements_of(reference.weights) == 0);
}

bool is_power_of_two(std::int64_t n) { return (n & (n - 1)) == 0; }

/// TESSERA_LONG=1 runs the full counts (tests/long.sh).
std::int64_t configurations(std::int64_t usual) { return std::getenv("TESSERA_LONG") != nullptr ? 5 * usual : usual; }

}  // namespace

TEST_CASE("drawn configurations over processes give the bits of one rank") {
  if (!is_power_of_two(world().size())) return;
  Options options = base_options();
  options.train.steps = 3;
  for (const std::int64_t micro_batches : {4, 8}) {
    options.train.accumulation = micro_batches;
    options.shard.strategy = Strategy::ddp;
    const References references(options);
    const std::uint64_t first = static_cast<std::uint64_t>(world().size() * 100 + micro_batches) * 1000000;
    for (std::int64_t i = 0; i < configurations(150); ++i) {
      const Drawn c = draw(first + static_cast<std::uint64_t>(i), options, micro_batches, world().size());
      INFO(c.text);
      require_reference_bits(references.of(c), train_here(c, small_model(c.family)));
    }
  }
}

TEST_CASE("drawn configurations over worlds that are no power of two stay within 1e-5 of one rank") {
  if (is_power_of_two(world().size())) return;
  Options options = base_options();
  options.train.steps = 20;
  options.optim.lr = 0.003;
  const Architecture architecture = small_gpt2();
  const std::int64_t micro_batches = 2 * world().size();
  options.train.accumulation = micro_batches;
  options.shard.strategy = Strategy::ddp;
  std::map<std::pair<OptimizerName, StateType>, RunOutcome> references;
  for (const OptimizerName optimizer : {OptimizerName::adamw, OptimizerName::muon}) {
    for (const StateType moments : {StateType::fp32, StateType::bf16}) {
      options.optim.name = optimizer, options.optim.moments = moments;
      references[{optimizer, moments}] = train_locally(options, architecture, 1, 1);
    }
  }
  options.optim.moments = StateType::fp32;
  for (std::int64_t i = 0; i < configurations(100); ++i) {
    const Drawn c = draw(static_cast<std::uint64_t>(i + 1), options, micro_batches, world().size());
    INFO(c.text);
    const RunOutcome mine = train_here(c, architecture),
                     &reference = references.at({c.options.optim.name, c.options.optim.moments});
    double furthest = mine.losses.size() == reference.losses.size() ? 0 : 1;
    for (std::size_t step = 0; step < mine.losses.size(); ++step) {
      furthest = std::max(furthest, std::abs(mine.losses[step] / reference.losses[step] - 1));
    }
    INFO("furthest loss: " << furthest);
    // Another last bit of a gradient may round a moment to its other neighbour.
    REQUIRE_ALL(furthest < (c.options.optim.moments == StateType::fp32 ? 1e-5 : 1e-3));
    REQUIRE_ALL(mine.bytes_sent == mine.bytes_planned);
  }
}
