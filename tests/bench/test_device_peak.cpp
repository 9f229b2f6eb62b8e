#include <catch2/catch.hpp>
#include <cmath>

#include "bench_options.hpp"
#include "local_world/local_world.hpp"
#include "tessera/bench/device_peak.hpp"

using namespace tessera;

namespace {

/// Measures on some ranks, which must come to the same result.
DevicePeak peak_on(std::int64_t ranks, const Options& options, const MachineShape& machine) {
  std::vector<DevicePeak> peaks(static_cast<std::size_t>(ranks));
  run_ranks(ranks, ranks, [&](RankContext& context) {
    peaks[static_cast<std::size_t>(context.rank())] = measure_core_peak(context, options, machine);
  });
  for (const DevicePeak& peak : peaks) CHECK((peak.flops == peaks[0].flops && peak.source == peaks[0].source));
  return peaks[0];
}

}  // namespace

TEST_CASE("ranks measure the same peak, in the run's compute type") {
  MachineShape machine;
  machine.machine_ranks = 2;
  Options options = test::small_run();
  const DevicePeak peak = peak_on(2, options, machine);
  CHECK((peak.flops > 1e6 && std::isfinite(peak.flops)));
  CHECK(peak.source == "measured at the start: fp32 matmuls");
  // A thousand threads on a core get a thousandth each, which no noise of a measurement hides.
  machine.machine_ranks = 1000, machine.machine_cores = 1;
  options.precision.compute = DType::bf16;
  const DevicePeak shared = peak_on(1, options, machine);
  CHECK(shared.source == "measured at the start: bf16 matmuls");
  machine.machine_ranks = 1;
  CHECK(shared.flops * 50 < peak_on(1, options, machine).flops);
}

TEST_CASE("a device without a datasheet has no peak, and says so") {
  const DevicePeak peak = datasheet_peak(*make_cpu_device(), {DType::bf16});
  CHECK(std::isnan(peak.flops));
  CHECK(peak.source == "unknown");
}
