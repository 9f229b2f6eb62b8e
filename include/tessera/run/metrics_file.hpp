#pragma once
// RUN/metrics.h5 (docs/manual/metrics.md): a run's measurements, readable while it is written (SWMR) and after a crash.
// Which these are, record/measures.hpp says. Beside its tables it has
//   /config, /provenance, /model, ...     attributes
//   /memory/CATEGORY/planned, /memory/process/{planned,measured}   int64, an element per rank; -1 until measured
//   /schedule                             the step as JSON, a UTF-8 scalar; its attribute `format` names the layout
// Each start of a run makes a new file: metrics.h5, metrics.1.h5, ... (run/metrics_history.hpp). Without SWMR others
// cannot use a file that is being written, so it is metrics.h5.tmp, and metrics.h5 is a copy of it, made whenever rows
// must be durable.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/files/io_thread.hpp"

namespace tessera {

enum class ColumnKind : std::uint8_t { integer, real, text };

/// A dataset of a table, which grows with every row.
struct MetricsColumn {
  std::string path;  ///< "steps/time/forward"
  ColumnKind kind = ColumnKind::real;
  /// Values of a row, in a second dimension; 0: one value, and no such dimension. Of a text the bytes that it is cut or
  /// padded to.
  std::int64_t width = 0;
};

/// Columns of one length.
using MetricsTable = std::vector<MetricsColumn>;

/// The values of all columns of a table, one after the other; integers are exact up to 2^53.
struct MetricsRow {
  std::vector<double> values;
  std::string text{};  ///< of the column of texts
};

/// An attribute's value.
using AttributeValue = std::variant<std::int64_t, double, std::string>;

/// The attributes of a group.
struct AttributeGroup {
  std::string path;  ///< groups that it lies in come before it
  std::vector<std::pair<std::string, AttributeValue>> values;
};

/// The planned memory of one category, or of the process in all.
struct PlannedMemory {
  std::string category;
  std::vector<std::int64_t> bytes;  ///< one element per rank
};

/// The contents of a metrics file apart from its rows; nothing can be added once it is open.
struct MetricsLayout {
  std::vector<MetricsTable> tables;        ///< the first has a row per step, whose first value is the step
  std::vector<AttributeGroup> attributes;  ///< set_number() may change the numbers of /provenance
  std::vector<PlannedMemory> memory;       ///< the last is `process`, which is also measured
  std::string schedule;                    ///< /schedule; empty: there is none
  std::string schedule_format;             ///< its attribute `format`
  bool swmr = true;                        ///< off for file systems without ordered writes (NFS)
  std::size_t flush_rows = 256;            ///< rows reach the file after this many,
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

  /// Appends a row to a table of the layout. Throws InternalError if it has more or fewer values.
  void append(std::size_t table, MetricsRow row);
  /// Sets /memory/process/measured, one element per rank.
  void set_process_memory(std::vector<std::int64_t> bytes);
  /// Sets an attribute of /provenance. Throws InternalError for one that is not a number in the layout.
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
