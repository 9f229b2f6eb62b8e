#pragma once
// The datasets of a metrics file as rows come in, with every call on the I/O thread. metrics_file.cpp has the queueing.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "run/row_table.hpp"
#include "tessera/files/hdf5.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/run/metrics_file.hpp"

namespace tessera {

/// One row of /samples.
struct SampleRow {
  std::int64_t step = 0;
  std::string text;
};

/// Rows and values that wait to be written.
struct MetricsRows {
  std::vector<StepRow> steps{};
  std::vector<EvalRow> evals{};
  std::vector<SampleRow> samples{};
  std::vector<CheckpointRow> checkpoints{};
  std::vector<DeviceRow> devices{};
  std::vector<RankRow> ranks{};
  std::vector<std::int64_t> process_memory{};             ///< empty: not measured
  std::vector<std::pair<std::string, double>> numbers{};  ///< of /provenance
};

/// The open file with all its datasets.
class MetricsTables {
 public:
  /// Creates the file (replacing one of that name) and everything in it, then lets readers in.
  MetricsTables(const std::filesystem::path& path, const MetricsLayout& layout);

  /// Writes rows and values, and makes them visible to readers.
  void write(const MetricsRows& rows);
  /// Hands the whole file to the operating system, so that without SWMR a copy of it is complete.
  void flush_file();
  /// Closes all datasets, then the file.
  void close();

 private:
  void flush();
  void create_steps(const MetricsLayout& layout);
  void create_evals(const MetricsLayout& layout);
  void create_checkpoints();
  void create_device();
  void create_samples(std::int64_t bytes);
  void create_memory(const MetricsLayout& layout);

  Hdf5File file_;
  Hdf5Group provenance_;
  RowTable<StepRow> steps_;  ///< with /comm
  RowTable<EvalRow> evals_;
  RowTable<CheckpointRow> checkpoints_;
  RowTable<DeviceRow> device_;
  RowTable<SampleRow> samples_;
  std::optional<Hdf5Texts> sample_texts_;
  RowTable<RankRow> ranks_, layers_;
  RowTable<OverlapRow> overlap_;
  std::optional<Hdf5Array<std::int64_t>> process_memory_;
};

/// Creates /ranks; each row has all ranks of the layout.
RowTable<RankRow> create_ranks(hid_t file, const MetricsLayout& layout);

/// Creates /layers, for the norms of the named layers.
RowTable<RankRow> create_layers(hid_t file, const std::vector<std::string>& names);

/// Creates /overlap; each row has a time for every name.
RowTable<OverlapRow> create_overlap(hid_t file, const std::vector<std::string>& names);

}  // namespace tessera
