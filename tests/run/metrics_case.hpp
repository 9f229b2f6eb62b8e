#pragma once
// A metrics file's layout and rows, as read_metrics.py expects them.

#include <cmath>
#include <cstdint>
#include <string>

#include "file_support.hpp"
#include "tessera/run/metrics_file.hpp"

namespace tessera::test {

inline MetricsLayout layout() {
  MetricsLayout layout;
  layout.step_times = layout.rank_times = {"forward", "backward"};
  layout.memory = {{"parameters", {100, 200, 300}}, {"process", {10, 20, 30}}};
  // More attributes than a compact object header takes, and one that is long.
  for (int i = 0; i < 120; ++i)
    layout.config.emplace_back("section.option" + std::to_string(i), "value " + std::to_string(i));
  layout.config.emplace_back("data.long", std::string(70000, 'z'));
  layout.provenance = {{"version", "0.1.0"}, {"hosts", "node1 x2"}};
  layout.numbers = {{"seconds_to_first_step", std::nan("")}, {"load_average_start", 0.25}};
  layout.model = {{"parameters", std::int64_t{1234}}, {"steps_per_epoch", 2.5}, {"device_peak_source", "unknown"}};
  layout.schedule =
      R"({"strategy":"zero3","of":")" + std::string(100'000, 'y') + "\"}";  // more than a chunk of HDF5's heap
  layout.schedule_format = "a format";
  layout.device = true;
  layout.flush_after = std::chrono::hours(24);  // tests decide when rows reach the file
  return layout;
}

/// The row that read_metrics.py expects.
inline StepRow row(std::int64_t step) {
  const auto s = static_cast<double>(step);
  StepRow row{step, step % 3 == 0, step % 2 == 0, 10.0 / (s + 1),      s, 1e-3 * s,
              0.5,  1.7e9 + s,     1000 + s,      {0.25 * s, 0.5 * s}, {}};
  for (std::size_t k = 0; k < row.communication.size(); ++k) {
    const auto kind = static_cast<std::int64_t>(k);
    row.communication[k] = {kind + 1, step * (kind + 1), 0.001 * static_cast<double>(kind)};
  }
  return row;
}

/// The report that read_metrics.py expects after a step, of three ranks.
inline RankRow report(std::int64_t step) {
  RankRow row{step, 7, 2, {}, {step % 20 == 0 ? -1 : 1, 0.5 * static_cast<double>(step), 0.25}, {}};
  const auto s = static_cast<double>(step);
  for (std::int64_t r = 0; r < 3; ++r) {
    const auto rank = static_cast<double>(r);
    RankValues values;
    values.times = {s + rank, s - rank};
    for (std::size_t k = 0; k < values.communication.size(); ++k) {
      const auto kind = static_cast<std::int64_t>(k);
      values.communication[k] = {r + kind, step * (r + 1) + kind, s + rank + 0.5 * static_cast<double>(kind)};
    }
    values.process = step + r;
    values.memory_peak = 2 * s + rank;
    values.memory_average = s + rank / 4;
    values.device = {step, 0.5 * rank, step * r, 100 + rank, s * rank};
    row.ranks.push_back(values);
  }
  return row;
}

/// Writes `steps` rows and everything else, waits until they are in the file.
inline void fill(MetricsFile& metrics, int steps) {
  for (int i = 0; i < steps; ++i) metrics.append_step(row(i));
  for (int i = 0; i < 3; ++i) metrics.append_eval({100 * i, {2.5 * i}});
  metrics.set_process_memory({11, 22, 33});
  for (int i = 0; i < 300; ++i) metrics.append_ranks(report(i));
  metrics.set_number("seconds_to_first_step", 1.75);
  metrics.flush();
}

}  // namespace tessera::test
