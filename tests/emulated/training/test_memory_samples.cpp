// The memory of a rank on a GPU, as a run records it.
#include <catch2/catch.hpp>

#include "gpu_case.hpp"
#include "plan_run.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/record/rank_reports.hpp"
#include "tessera/text/corpus.hpp"

using namespace tessera;
using namespace tessera::testing;

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
    MemorySamples samples(*session.resources().device, 0);
    samples.sample(true);
    const std::int64_t taken = session.resources().device->memory_taken().value();
    CHECK(taken > 0);
    CHECK(samples.peak() == static_cast<double>(taken));
    memory.reset();
    MemorySamples later(*session.resources().device, 0);
    later.sample(true);
    CHECK(session.resources().device->memory_taken().value() < 0);
    CHECK(later.average() == static_cast<double>(session.resources().device->memory_taken().value()));
  });
}
