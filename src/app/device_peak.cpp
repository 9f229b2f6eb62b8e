#include "app/device_peak.hpp"

#include <algorithm>
#include <chrono>

#include "app/bench_device.hpp"
#include "app/machine_rates.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

/// Small enough for a slow machine, large enough for a fast one.
constexpr ProductShape kShort{256, 512, 256}, kLong{512, 768, 768};

double flops_of(const ProductShape& shape) { return 2.0 * static_cast<double>(shape.tokens * shape.in * shape.out); }

/// The best of one shape in so many seconds; at least two products.
double best_rate(BenchDevice& device, DType compute, const ProductShape& shape, double seconds) {
  ProductRate rate(device.device(), device.stream(), device.kernels(), compute, {{shape}, 0});
  const auto start = Clock::now();
  do {
    rate.sample();
  } while (std::chrono::duration<double>(Clock::now() - start).count() < seconds);
  return rate.best();
}

}  // namespace

DevicePeak measure_core_peak(RankContext& context, const Options& options, const MachineShape& machine) {
  constexpr double kSeconds = 0.01;
  BenchDevice device(context, options, machine);
  context.control().barrier();
  double best = best_rate(device, options.precision.compute, kShort, kSeconds);
  if (2 * flops_of(kLong) / best < 2 * kSeconds)
    best = std::max(best, best_rate(device, options.precision.compute, kLong, kSeconds));
  // Of more threads than cores each has a core only for a part of the time; the best product may have had one to
  // itself.
  const double threads = static_cast<double>(threads_of(options, machine)) * machine.machine_ranks;
  best *= std::min(1.0, machine.machine_cores / threads);
  return {context.control().sum(best) / static_cast<double>(context.size()),
          fmt::format("measured at the start: {} products", name_of(options.precision.compute))};
}

DevicePeak datasheet_peak(const Device& device, DType compute) {
  const double rate = datasheet_rate(device.model(), compute);
  return rate > 0 ? DevicePeak{rate, fmt::format("datasheet: {}, {}", device.model(), name_of(compute))} : DevicePeak{};
}

}  // namespace tessera
