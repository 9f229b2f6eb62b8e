#include "tessera/bench/device_peak.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "bench/machine_rates.hpp"
#include "tessera/base/clock.hpp"

namespace tessera {

namespace {

/// Small enough for a slow machine, large enough for a fast one.
constexpr MatmulShape kShort{256, 512, 256}, kLong{512, 768, 768};

/// Returns the seconds that cores worked for this process.
double core_seconds() {
  timespec time{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) throw InternalError("a process has no clock");
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Returns the FLOP/s of matmuls of one shape while `threads` threads compute, over `seconds` of core time each, ending
/// after at most five times that by the wall clock. Core time counts because others may use the cores too. The kernel
/// accounts for other threads' time in ticks of some milliseconds, so a single matmul would seem too fast or too slow.
double mean_rate(Kernels& kernels, DType compute, const MatmulShape& shape, int threads, double seconds) {
  const auto device = make_cpu_device();
  const auto stream = device->make_caller_stream("bench");
  Ceiling matmuls = matmul_ceiling(*device, *stream, kernels, compute, {shape});
  matmuls.sample();  // the library selects its code
  const auto start = std::chrono::steady_clock::now();
  const double before = core_seconds();
  double flops = 0, spent = 0;
  do {
    matmuls.sample();
    flops += 2 * flops_of(shape);
    spent = (core_seconds() - before) / threads;
  } while (spent < seconds && seconds_since(start) < 5 * seconds);
  return flops / std::max(spent, 1e-9);
}

}  // namespace

DevicePeak measure_core_peak(RankContext& context, const Options& options, const MachineShape& machine) {
  constexpr double kSeconds = 0.04;
  const int threads = threads_of(options, machine);
  ThreadPool pool(threads, threads_on_cores(threads, machine));
  const auto kernels = make_cpu_kernels(pool);
  context.control().barrier();
  const DType compute = options.precision.compute;
  double best = mean_rate(*kernels, compute, kShort, threads, kSeconds);
  if (2 * flops_of(kLong) / best < 2 * kSeconds)
    best = std::max(best, mean_rate(*kernels, compute, kLong, threads, kSeconds));
  // If threads outnumber cores, each has a core for only part of the time.
  best *= std::min(1.0, machine.machine_cores / (static_cast<double>(threads) * machine.machine_ranks));
  return {context.control().maximum(best), fmt::format("measured at the start: {} matmuls", name_of(compute))};
}

DevicePeak datasheet_peak(const Device& device, const PrecisionOptions& precision) {
  const double rate = datasheet_rate(device.model(), precision);
  const bool full = precision.matmul == MatmulPrecision::fp32;
  const std::string_view type = full ? name_of(precision.compute) : name_of(precision.matmul);
  return rate > 0 ? DevicePeak{rate, fmt::format("datasheet: {}, {}", device.model(), type)} : DevicePeak{};
}

}  // namespace tessera
