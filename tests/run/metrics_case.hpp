#pragma once
// A metrics file's layout and rows, as read_metrics.py expects them.

#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include "file_support.hpp"
#include "tessera/run/metrics_file.hpp"

namespace tessera::test {

enum : std::size_t { kSteps, kEvals, kRanks, kCheckpoints };
inline constexpr std::array kCollectives = {"all_gather", "reduce_scatter", "all_reduce", "broadcast", "exchange"};

inline void add_communication(MetricsTable& table, const std::string& group, std::int64_t width) {
  for (const char* const kind : kCollectives) {
    table.push_back({group + kind + "/calls", ColumnKind::integer, width});
    table.push_back({group + kind + "/bytes", ColumnKind::integer, width});
    table.push_back({group + kind + "/seconds", ColumnKind::real, width});
  }
}

inline MetricsLayout layout() {
  MetricsLayout layout;
  MetricsTable steps, ranks;
  for (const char* const name : {"step", "skipped", "timed"})
    steps.push_back({std::string("steps/") + name, ColumnKind::integer});
  for (const char* const name :
       {"loss", "grad_norm", "lr", "seconds", "unix_time", "tokens_per_second", "time/forward", "time/backward"})
    steps.push_back({std::string("steps/") + name});
  add_communication(steps, "comm/", 0);
  for (const char* const name : {"report", "steps", "timed_steps", "straggler"})
    ranks.push_back({std::string("ranks/") + name, ColumnKind::integer});
  ranks.push_back({"ranks/behind_seconds"});
  for (const char* const name : {"time/forward", "time/backward", "memory/peak", "memory/average", "device/utilization",
                                 "device/power", "device/energy"})
    ranks.push_back({std::string("ranks/") + name, ColumnKind::real, 3});
  for (const char* const name : {"memory/process/measured", "device/memory_used"})
    ranks.push_back({std::string("ranks/") + name, ColumnKind::integer, 3});
  add_communication(ranks, "ranks/comm/", 3);
  layout.tables = {
      steps, {{"eval/step", ColumnKind::integer}, {"eval/loss"}}, ranks, {{"checkpoints/step", ColumnKind::integer}}};
  layout.memory = {{"parameters", {100, 200, 300}}, {"process", {10, 20, 30}}};
  AttributeGroup config{"config", {}};
  // More attributes than a compact object header takes, and one that is long.
  for (int i = 0; i < 120; ++i)
    config.values.emplace_back("section.option" + std::to_string(i), "value " + std::to_string(i));
  config.values.emplace_back("data.long", std::string(70000, 'z'));
  layout.attributes = {
      config,
      {"provenance", {{"version", "0.1.0"}, {"seconds_to_first_step", std::nan("")}, {"load_average_start", 0.25}}},
      {"model", {{"parameters", std::int64_t{1234}}, {"steps_per_epoch", 2.5}, {"device_peak_source", "unknown"}}}};
  layout.schedule =
      R"({"strategy":"zero3","of":")" + std::string(100'000, 'y') + "\"}";  // more than a chunk of HDF5's heap
  layout.schedule_format = "a format";
  layout.flush_after = std::chrono::hours(24);  // tests decide when rows reach the file
  return layout;
}

/// The row of /steps that read_metrics.py expects.
inline MetricsRow row(std::int64_t step) {
  const auto s = static_cast<double>(step);
  MetricsRow row{{s, step % 3 == 0 ? 1.0 : 0.0, step % 2 == 0 ? 1.0 : 0.0, 10.0 / (s + 1), s, 1e-3 * s, 0.5, 1.7e9 + s,
                  1000 + s, 0.25 * s, 0.5 * s}};
  for (std::size_t k = 0; k < kCollectives.size(); ++k) {
    const auto kind = static_cast<double>(k);
    for (const double value : {kind + 1, s * (kind + 1), 0.001 * kind}) row.values.push_back(value);
  }
  return row;
}

/// The report that read_metrics.py expects after a step, of three ranks.
inline MetricsRow report(std::int64_t step) {
  const auto s = static_cast<double>(step);
  MetricsRow row{{s, 7, 2, step % 20 == 0 ? -1.0 : 1.0, 0.5 * s}};
  const auto add = [&](auto&& value) {
    for (int rank = 0; rank < 3; ++rank) row.values.push_back(value(static_cast<double>(rank)));
  };
  add([&](double r) { return s + r; });
  add([&](double r) { return s - r; });
  add([&](double r) { return 2 * s + r; });
  add([&](double r) { return s + r / 4; });
  add([&](double r) { return 0.5 * r; });
  add([&](double r) { return 100 + r; });
  add([&](double r) { return s * r; });
  add([&](double r) { return s + r; });
  add([&](double r) { return s * r; });
  for (std::size_t k = 0; k < kCollectives.size(); ++k) {
    const auto kind = static_cast<double>(k);
    add([&](double r) { return r + kind; });
    add([&](double r) { return s * (r + 1) + kind; });
    add([&](double r) { return s + r + 0.5 * kind; });
  }
  return row;
}

/// Writes `steps` rows and everything else, waits until they are in the file.
inline void fill(MetricsFile& metrics, int steps) {
  for (int i = 0; i < steps; ++i) metrics.append(kSteps, row(i));
  for (int i = 0; i < 3; ++i) metrics.append(kEvals, {{100.0 * i, 2.5 * i}});
  metrics.set_process_memory({11, 22, 33});
  for (int i = 0; i < 300; ++i) metrics.append(kRanks, report(i));
  metrics.set_number("seconds_to_first_step", 1.75);
  metrics.flush();
}

}  // namespace tessera::test
