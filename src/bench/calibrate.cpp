#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <set>

#include "bench/calibration.hpp"
#include "tessera/backend/cores.hpp"
#include "tessera/backend/device_monitor.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

/// Returns the first core's clock now, in Hz; 0 if the system does not tell.
double core_clock() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("cpu MHz")) return 1e6 * std::strtod(line.c_str() + line.find(':') + 1, nullptr);
  }
  return 0;
}

void append(std::vector<PricedCalls>& to, std::vector<PricedCalls> more) {
  for (PricedCalls& one : more) to.push_back(std::move(one));
}

/// Returns the highest rate of a table of linears, in FLOP/s.
double best_rate(const PriceTable& linear) {
  double best = 0;
  std::size_t i = 0;
  for (const double tokens : linear.axes()[0].values) {
    for (const double in : linear.axes()[1].values) {
      for (const double out : linear.axes()[2].values)
        best = std::max(best, 2 * tokens * in * out / linear.points()[i++]);
    }
  }
  return best;
}

/// Turns the prices of linears in fp8 into a factor of those that others have.
void add_fp8(const std::vector<PricedCalls>& calls, Cluster& cluster) {
  double in_fp8 = 0, exact = 0;
  for (const PricedCalls& one : calls) {
    if (one.exact.empty()) continue;
    const PriceTable price = cluster.prices.extract(one.name).mapped();
    WorkSize size{};
    for (const PriceTable::Axis& axis : price.axes()) size[static_cast<std::size_t>(axis.axis)] = axis.values.back();
    in_fp8 += price.seconds(size);
    exact += cluster.price(one.exact).seconds(size);
  }
  if (exact > 0) cluster.fp8_matmuls = in_fp8 / exact;
}

/// Measures kernels and copies.
void add_kernels(MeasuredRank& bench, const LadderSizes& sizes, Cluster& cluster) {
  KernelLadder ladder(*bench.device, bench.compute->kernels(Queue::compute), sizes);
  RotatingMemory on_host(*bench.device, MemoryKind::pinned, sizes.memory);
  RotatingMemory on_device(*bench.device, MemoryKind::device, sizes.memory);
  std::vector<PricedCalls> calls;
  const std::set types{DType::fp32, DType::bf16, bench.options.precision.compute};
  for (const DType dtype : types) append(calls, ladder.all(dtype));
  if (bench.device->multiplies_fp8()) append(calls, ladder.of_fp8(DType::bf16));
  PricedCalls down{price_name(OperationKind::store), {{PriceAxis::bytes, {}}}, {}};
  PricedCalls up{price_name(OperationKind::load), {{PriceAxis::bytes, {}}}, {}};
  for (const std::int64_t bytes : sizes.messages) {
    down.axes[0].values.push_back(static_cast<double>(bytes)), up.axes[0].values.push_back(static_cast<double>(bytes));
    down.calls.push_back([&, bytes](Stream& s) { bench.copy(s, on_host.next(bytes), on_device.next(bytes), bytes); });
    up.calls.push_back([&, bytes](Stream& s) { bench.copy(s, on_device.next(bytes), on_host.next(bytes), bytes); });
  }
  append(calls, {down, up});
  if (traits_of(cluster.device).has_own_memory) {
    time_calls(bench.context, *bench.device, *bench.stream, calls, sizes.seconds);
    add_prices(bench, calls, cluster);
  } else {
    add_shared_prices(bench, *bench.device, *bench.stream, calls, sizes.seconds, cluster);
  }
  add_fp8(calls, cluster);
  for (const DType dtype : types) {
    const auto linear = std::ranges::find(calls, forward_price(dtype), &PricedCalls::name);
    cluster.peak[std::string(name_of(dtype))] = best_rate(price_of(bench.context, *linear));
  }
}

/// Measures what the host runs for a GPU; on cores that is the device's own.
void add_host(MeasuredRank& bench, const LadderSizes& sizes, Cluster& cluster) {
  const auto host = make_cpu_device();
  const auto stream = host->make_caller_stream("host");
  KernelLadder ladder(*host, bench.compute->kernels(Queue::host), host_sizes(sizes));
  std::vector<PricedCalls> calls = ladder.of_host(DType::fp32);
  append(calls, ladder.of_host(DType::bf16));
  add_shared_prices(bench, *host, *stream, calls, sizes.seconds / 8, cluster);
}

/// Measures attention by own kernels, where a library's can take their place.
void add_own_attention(MeasuredRank& bench, const LadderSizes& sizes, Cluster& cluster) {
  if (!traits_of(cluster.device).has_library_choice) return;
  ResourceSettings settings = bench.settings;
  settings.attention = AttentionChoice::own;
  const auto compute =
      backend_of(bench.options).make_compute(*bench.device, settings, bench.workspace->data(), nullptr, nullptr);
  KernelLadder ladder(*bench.device, compute->kernels(Queue::compute), sizes);
  std::vector<PricedCalls> calls = ladder.of_own_attention(DType::fp32);
  append(calls, ladder.of_own_attention(DType::bf16));
  time_calls(bench.context, *bench.device, *bench.stream, calls, sizes.seconds / 8);
  add_prices(bench, calls, cluster);
}

/// Returns "2026-11-25, version 0.1.0 (0123abc), clock 2.4 GHz".
std::string when_and_with_what(const Device& device) {
  std::string text = format_utc(static_cast<double>(std::time(nullptr))).substr(0, 10);
  for (const auto& [name, value] : build_facts()) {
    if (name == "version" || name == "git_revision") text += fmt::format(", {} {}", name, value);
  }
  std::string why;
  const auto monitor = device.identity().empty() ? nullptr : open_device_monitor(device.identity(), why);
  const double clock = monitor == nullptr ? core_clock() : monitor->sample().clock;
  if (clock > 0) text += fmt::format(", clock {:.2f} GHz", clock * 1e-9);
  if (device.identity().empty()) text += fmt::format(", load {:.1f}", load_average());
  return text;
}

}  // namespace

LadderSizes ladder_sizes(DeviceKind device, const MachineShape& machine) {
  LadderSizes sizes;
  if (!traits_of(device).has_own_memory) {
    const std::int64_t cache = std::max<std::int64_t>(0, sysconf(_SC_LEVEL3_CACHE_SIZE));
    sizes = {{128, 512, 2048},
             {64, 256, 1024},
             {128, 512},
             {64, 512},
             {256, 2048, 16384},
             {2, 16},
             {64, 128, 256, 1024},
             {32, 128},
             {1 << 14, 1 << 17, 1 << 20, 1 << 23},
             {64, 256},
             {1 << 12, 1 << 16, 1 << 20, 1 << 24},
             0,
             24,
             0};
    // All that the ranks of a machine walk through together is twice its last cache, or more.
    sizes.memory = std::clamp(cache / (2 * machine.machine_ranks), 128 * kMebibyte, 512 * kMebibyte);
    sizes.cached = cache / (2 * machine.machine_ranks);
  } else {
    sizes = {{2048, 8192, 32768},
             {256, 1024, 4096, 16384},
             {2048, 8192},
             {1024, 4096},
             {8192, 32768, 131072},
             {64, 512},
             {512, 2048, 8192},
             {64, 128},
             {1 << 16, 1 << 20, 1 << 24, 1 << 27},
             {512, 2048},
             {1 << 14, 1 << 18, 1 << 22, 1 << 26, 1 << 28},
             2048 * kMebibyte,
             20,
             0};
  }
  return sizes;
}

Cluster calibrate(RankContext& context, const Options& options, const MachineShape& machine, const LadderSizes& sizes) {
  if (traits_of(device_of(options.run)).has_library_choice && is_deterministic(options.run)) {
    throw refuse("run.deterministic", true)
        .because(
            "prices are those of other runs, and predictions take its cost from untimed_matmuls and "
            "deterministic_attention")
        .use("false");
  }
  MeasuredRank bench(context, options, machine);
  Cluster cluster;
  cluster.device = bench.device->kind();
  cluster.name = bench.device->identity().empty() ? cpu_model() : bench.device->model();
  cluster.host = cpu_model();
  cluster.memory =
      bench.device->total_memory() > 0 ? bench.device->total_memory() : usable_memory() / machine.machine_ranks;
  cluster.ranks_per_node = context.ranks_per_node();
  cluster.threads = bench.settings.threads;
  add_kernels(bench, sizes, cluster);
  cluster.measured = when_and_with_what(*bench.device);  // at once, before the clock rises again
  add_host(bench, sizes, cluster);
  add_own_attention(bench, sizes, cluster);
  add_collectives(bench, Group::world, sizes, cluster);
  if (context.ranks_per_node() < context.size()) add_collectives(bench, Group::node, sizes, cluster);
  add_slowdowns(bench, sizes, cluster);
  add_host_times(bench, cluster);
  return cluster;
}

}  // namespace tessera
