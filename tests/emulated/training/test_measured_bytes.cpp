// How much of a GPU's planned memory a step touches, by category.
#include <catch2/catch.hpp>

#include "gpu_case.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/engine/used_bytes.hpp"
#include "tessera/record/rank_reports.hpp"
#include "tessera/text/corpus.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Rank 0's bytes by category after `steps` steps, and the plan's.
struct Measured {
  CategoryBytes before{}, after{}, planned{};
  std::int64_t private_bytes = 0;
};

Measured measured(const Options& options, std::int64_t world, bool measure) {
  const Architecture architecture = tiny_gpt2();
  const PlannedRun planned = plan_run(options, architecture, world, world);
  Measured found;
  found.planned = planned.plan.at(MemorySpace::device).own_peak;
  found.private_bytes = planned.plan.region(MemorySpace::device, RegionKind::private_).bytes;
  MachineShape machine;
  machine.measure = measure;
  run_ranks(world, world, [&](RankContext& context) {
    const Dataset data = open_dataset(options, architecture.vocab, planned.schedule.model.sequence);
    TrainingSession session(context, options, planned, data, machine);
    const CategoryBytes before = measured_bytes(session.schedule(), session.resources());
    session.train_step();
    const CategoryBytes after = measured_bytes(session.schedule(), session.resources());
    if (context.rank() != 0) return;
    found.before = before, found.after = after;
  });
  return found;
}

std::int64_t of(const CategoryBytes& bytes, Category category) { return bytes[static_cast<std::size_t>(category)]; }

}  // namespace

TEST_CASE("what a step touches of a GPU's memory is read back by category") {
  const GpuCount gpus(2);
  Options options = gpu_options();
  options.train.steps = 1;
  options.optim.warmup_steps = 0;
  options.comm.backend = CommBackend::nccl;
  options.shard.strategy = Strategy::zero3;
  options.shard.prefetch_forward = 0;  // nothing is gathered before the first step
  const Measured found = measured(options, 2, true);
  // State at rest is there from the start, and everything else once a step has used it.
  CHECK(of(found.before, Category::optimizer_state) == of(found.planned, Category::optimizer_state));
  CHECK(of(found.after, Category::optimizer_state) == of(found.planned, Category::optimizer_state));
  for (const Category category : {Category::gradients, Category::gathered_units, Category::activations}) {
    INFO(name_of(category));
    CHECK(of(found.before, category) == 0);
    CHECK(of(found.after, category) > of(found.planned, category) / 2);
    CHECK(of(found.after, category) <= 2 * of(found.planned, category));
  }
  // Of the kernels' workspace a small run uses little.
  CHECK(of(found.after, Category::workspace) > 0);
  CHECK(of(found.after, Category::workspace) < of(found.planned, Category::workspace) / 8);
}

TEST_CASE("a GPU that was not filled is not measured") {
  Options options = gpu_options();
  options.train.steps = 1;
  options.optim.warmup_steps = 0;
  const Measured found = measured(options, 1, false);
  CHECK(of(found.after, Category::optimizer_state) == -1);
  CHECK(of(found.after, Category::activations) == -1);
}

TEST_CASE("a rank's memory is the GPU's, even if others free more there than it takes") {
  const GpuCount gpus(1);
  const Options options = gpu_options();
  const Architecture architecture = tiny_gpt2();
  const PlannedRun planned = plan_run(options, architecture, 1, 1);
  run_ranks(1, 1, [&](RankContext& context) {
    const auto neighbour = make_cuda_device(0);
    auto memory = neighbour->allocate(MemoryKind::device, 256 << 20);
    const Dataset data = open_dataset(options, architecture.vocab, planned.schedule.model.sequence);
    const TrainingSession session(context, options, planned, data, MachineShape{});
    MemorySamples samples(session.schedule(), session.resources(), 0);
    samples.sample(true);
    const std::int64_t taken = session.resources().device->memory_taken().value();
    CHECK(taken > 0);
    CHECK(samples.peak() == static_cast<double>(taken));
    memory.reset();
    MemorySamples later(session.schedule(), session.resources(), 0);
    later.sample(true);
    CHECK(session.resources().device->memory_taken().value() < 0);
    CHECK(later.average() == static_cast<double>(session.resources().device->memory_taken().value()));
  });
}
