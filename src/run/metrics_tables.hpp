#pragma once
// The datasets of a metrics file as rows come in; every call on the I/O thread. metrics_file.cpp has the queueing.

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "run/overlap_tables.hpp"
#include "run/rank_tables.hpp"
#include "tessera/files/hdf5.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/run/metrics_file.hpp"

namespace tessera {

/// One row of /samples.
struct SampleRow {
  std::int64_t step = 0;
  std::string text;
};

/// The open file with all its datasets.
class MetricsTables {
 public:
  /// Creates the file (one of that name is replaced) and everything in it, then lets readers in.
  MetricsTables(const std::filesystem::path& path, const MetricsLayout& layout);

  void write_steps(const std::vector<StepRow>& rows);
  void write_evals(const std::vector<EvalRow>& rows);
  void write_samples(const std::vector<SampleRow>& rows);
  void write_checkpoints(const std::vector<CheckpointRow>& rows);
  void write_device(const std::vector<DeviceRow>& rows);
  void write_ranks(const std::vector<RankRow>& rows);
  void write_measured_memory(const std::string& category, const std::vector<std::int64_t>& bytes);
  void write_number(const std::string& name, double value);
  /// Makes written rows visible to readers.
  void flush();
  /// Hands the full file to the operating system, so that without SWMR a copy of it is complete.
  void flush_file();
  /// Closes all datasets, then the file.
  void close();

 private:
  struct Communication {
    Hdf5Series<std::int64_t> calls, bytes;
    Hdf5Series<double> seconds;
  };
  void create_steps(const MetricsLayout& layout);
  void create_evals(const MetricsLayout& layout);
  void create_checkpoints();
  void create_communication();
  void create_device();
  void create_memory(const MetricsLayout& layout);
  void create_layers(const std::vector<std::string>& names);
  template <class F>
  void for_each_series(F&& f);

  Hdf5File file_;
  Hdf5Group provenance_;
  Hdf5Series<std::int64_t> step_, skipped_, timed_;
  std::vector<std::pair<double StepRow::*, Hdf5Series<double>>> columns_;
  std::vector<Hdf5Series<double>> times_;
  struct Eval {
    std::size_t set;  ///< index in EvalRow::losses
    Hdf5Series<std::int64_t> step;
    Hdf5Series<double> loss;
  };
  std::vector<Eval> evals_;  ///< the first set, then each that has a name
  Hdf5Series<std::int64_t> checkpoint_step_, checkpoint_bytes_;
  Hdf5Series<double> checkpoint_blocked_, checkpoint_waited_, checkpoint_background_;
  std::vector<Communication> communication_;
  struct Device {
    Hdf5Series<std::int64_t> step, memory_used;
    Hdf5Series<double> utilization, power, energy;
  };
  std::vector<Device> device_;  ///< one or none
  struct Samples {
    Hdf5Series<std::int64_t> step;
    Hdf5Texts text;
  };
  std::vector<Samples> samples_;  ///< one or none
  struct Layers {
    Hdf5Series<std::int64_t> step;
    Hdf5Rows<double> grad_norm;
  };
  std::vector<Layers> layers_;  ///< one or none
  std::map<std::string, Hdf5Array<std::int64_t>> measured_;
  RankTables ranks_;
  OverlapTables overlap_;
};

}  // namespace tessera
