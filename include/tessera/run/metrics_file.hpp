#pragma once
// RUN/metrics.h5 (docs/manual/metrics.md): a run's measurements, readable while it is written (SWMR) and after a crash.
//   /steps/{step,skipped,timed,loss,grad_norm,lr,seconds,unix_time,tokens_per_second}             a row per step
//   /steps/time/NAME                                                                        a row per step
//   /comm/{all_gather,reduce_scatter,all_reduce,broadcast,exchange}/{calls,bytes,seconds}   a row per step
//   /eval/{step,loss}   a row per evaluation, of the first validation set; /eval/NAME/{step,loss} of each with a name
//   /samples/{step,text}   a row per sample of train.sample_every; text is UTF-8 of fixed length, cut or padded with 0
//   /checkpoints/{step,bytes,blocked_seconds,waited_seconds,background_seconds}             a row per checkpoint
//   /device/{step,utilization,memory_used,power,energy}   rank 0's GPU, a row per report; where the driver tells
//   /ranks/{report,steps,timed_steps}, /ranks/time/NAME, /ranks/comm/KIND/{calls,bytes,seconds},
//   /ranks/memory/process/measured, /ranks/memory/{peak,average}, /ranks/device/NAME        a row per report: the first
//     three have one value, the others one for each rank ([report, rank])
//   /ranks/straggler, /ranks/behind_seconds                                                 a row per report
//   /layers/{step,grad_norm}   a row per report: grad_norm has one value for each of /layers' attribute `names`
//   /overlap/{step,straggler,behind_seconds}, /overlap/NAME/{min,median,max}                a row per timed step
//   /memory/CATEGORY/planned, /memory/process/{planned,measured}   bytes, an element per rank; -1 until measured
//   /schedule                             the step as JSON, a UTF-8 scalar; its attribute `format` names the layout
//   /config, /provenance, /model          an attribute per option, per fact
//   /prediction, /prediction/{time,operations,uncertainty}   with plan.cluster: attributes, known before step 1
// step, skipped, timed, report, calls, bytes and memory are int64, the rest float64. Each start of a run makes a new
// file: metrics.h5, metrics.1.h5, ... (run/metrics_history.hpp). Without SWMR others cannot use a file that is being
// written, so it is metrics.h5.tmp, and metrics.h5 is a copy of it, made whenever rows must be durable.

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/files/io_thread.hpp"
#include "tessera/telemetry/overlap.hpp"

namespace tessera {

/// The rows' groups in /comm, in the order of Collective in comm/communicator.hpp.
inline constexpr std::array<const char*, 5> kCollectiveNames = {"all_gather", "reduce_scatter", "all_reduce",
                                                                "broadcast", "exchange"};

/// One kind of collective in one step.
struct CommunicationRow {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  ///< sent by this rank
  double seconds = 0.0;
};

/// One optimizer step.
struct StepRow {
  std::int64_t step = 0;
  bool skipped = false;  ///< the gradient overflowed (fp16), and weights did not change
  bool timed = true;     ///< its operations were timed: `times` has numbers
  double loss = 0.0, grad_norm = 0.0, lr = 0.0;
  double seconds = 0.0;    ///< duration
  double unix_time = 0.0;  ///< at its end, seconds since 1970
  double tokens_per_second = 0.0;
  std::vector<double> times;  ///< seconds, in the order of MetricsLayout::step_times
  std::array<CommunicationRow, kCollectiveNames.size()> communication;
};

/// One evaluation.
struct EvalRow {
  std::int64_t step = 0;
  std::vector<double> losses;  ///< of each validation set, in the order of MetricsLayout::eval_sets
};

/// One checkpoint that was written.
struct CheckpointRow {
  std::int64_t step = 0;
  std::int64_t bytes = 0;           ///< of all files together
  double blocked_seconds = 0.0;     ///< while training waited
  double waited_seconds = 0.0;      ///< of these: while waiting for the previous checkpoint
  double background_seconds = 0.0;  ///< while training went on
};

/// The state of a GPU at a report.
struct DeviceRow {
  std::int64_t step = 0;
  double utilization = 0.0;      ///< share of time in which a kernel ran
  std::int64_t memory_used = 0;  ///< bytes, by all processes
  double power = 0.0;            ///< watts
  double energy = 0.0;           ///< joules since the driver was loaded
};

/// One rank's values since the previous report.
struct RankValues {
  std::vector<double>
      times;  ///< seconds in timed steps, in the order of MetricsLayout::rank_times; NaN: none was timed
  std::array<CommunicationRow, kCollectiveNames.size()> communication;
  std::int64_t process = -1;                                         ///< bytes; -1: not measured
  double memory_peak = std::numeric_limits<double>::quiet_NaN();     ///< bytes, since the start
  double memory_average = std::numeric_limits<double>::quiet_NaN();  ///< bytes
  DeviceRow device;                                                  ///< `step` is ignored
};

/// The times of all ranks in one timed step.
struct OverlapRow {
  std::int64_t step = 0;
  Straggler straggler;
  std::vector<Spread> times;  ///< over the ranks, seconds; in the order of MetricsLayout::overlap_times
};

/// A report of all ranks.
struct RankRow {
  std::int64_t step = 0;                    ///< after which it was made
  std::int64_t steps = 0, timed_steps = 0;  ///< since the previous report
  std::vector<RankValues> ranks;
  Straggler straggler;                ///< over the timed steps together
  std::vector<OverlapRow> overlap;    ///< the timed steps, one by one
  std::vector<double> layer_norms{};  ///< of the step's gradient, in the order of MetricsLayout::layers
};

/// An attribute's value.
using AttributeValue = std::variant<std::int64_t, double, std::string>;

/// A group that has attributes only.
struct AttributeGroup {
  std::string path;
  std::vector<std::pair<std::string, AttributeValue>> values;
};

/// The planned memory of one category, or of the process in all.
struct PlannedMemory {
  std::string category;
  std::vector<std::int64_t> bytes;  ///< one element per rank
};

/// The contents of a metrics file apart from its rows; nothing can be added once it is open.
struct MetricsLayout {
  std::vector<std::string> step_times;                      ///< names in /steps/time
  std::vector<std::string> rank_times;                      ///< names in /ranks/time
  std::vector<std::string> overlap_times;                   ///< names in /overlap
  std::vector<PlannedMemory> memory;                        ///< the last is `process`, which is also measured
  std::vector<std::string> layers;                          ///< names of the rows' norms; empty: there is no /layers
  std::vector<std::string> eval_sets;                       ///< names of the validation sets; empty: one without a name
  std::vector<std::pair<std::string, std::string>> config;  ///< attributes of /config
  std::vector<std::pair<std::string, std::string>> provenance;  ///< attributes of /provenance
  std::vector<std::pair<std::string, double>> numbers;          ///< more of /provenance; set_number() may change these
  std::vector<std::pair<std::string, AttributeValue>> model;    ///< attributes of /model
  std::vector<AttributeGroup> prediction;                       ///< /prediction and its groups; empty: there is none
  std::string schedule;                                         ///< /schedule; empty: there is none
  std::string schedule_format;                                  ///< its attribute `format`
  std::int64_t sample_bytes = 0;                                ///< of a row of /samples/text; 0: there is none
  bool device = false;                                          ///< whether there is a /device
  bool swmr = true;                                             ///< off for file systems without ordered writes (NFS)
  std::size_t flush_rows = 256;                                 ///< rows reach the file after this many,
  std::chrono::milliseconds flush_after = std::chrono::seconds(1);  ///< or after this time, whichever is first
};

/// Opened by rank 0. All HDF5 calls happen on the I/O thread, and appending only queues. A write error surfaces once,
/// as IoError at the next call or at close(); from then on appended rows are dropped. Used by one thread, except
/// make_durable(); the IoThread must outlive it.
class MetricsFile {
 public:
  /// Creates metrics.h5 in `folder`, or metrics.N.h5 with the number after the last one. Throws IoError if that fails.
  MetricsFile(IoThread& io, const std::filesystem::path& folder, MetricsLayout layout);
  /// Closes; errors not reported yet are lost.
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void append_step(StepRow row);
  /// Appends an evaluation. Throws InternalError if the number of sets differs from the layout's.
  void append_eval(EvalRow row);
  /// Appends a text, truncated to MetricsLayout::sample_bytes. Throws InternalError if the layout has no samples.
  void append_sample(std::int64_t step, std::string text);
  void append_checkpoint(CheckpointRow row);
  /// Appends a row. Throws InternalError if the layout has no device.
  void append_device(const DeviceRow& row);
  /// Appends a report. Throws InternalError for values that the layout lacks.
  void append_ranks(RankRow row);
  /// Sets /memory/process/measured, one element per rank.
  void set_process_memory(std::vector<std::int64_t> bytes);
  /// Sets an attribute of /provenance. Throws InternalError for a name that is not in MetricsLayout::numbers.
  void set_number(const std::string& name, double value);
  /// Waits until everything appended is in the file and visible to readers.
  void flush();
  /// Waits until the rows up to that of `step`, which was appended, survive a crash and a power loss. Any thread may
  /// call it. Does not throw for a file that cannot be written, and does not wait for an abandoned one.
  void make_durable(std::int64_t step);
  /// Flushes and closes; later calls are InternalErrors, another close() is harmless.
  void close();

  const std::filesystem::path& path() const;

 private:
  struct State;
  template <class Add>
  void queue(Add&& add);
  IoThread* io_;
  std::shared_ptr<State> state_;  // shared with tasks that wait in the queue
};

}  // namespace tessera
