#pragma once
// Writing checkpoints of a training session: each rank its share, gathered to fewer files if wanted; rank 0 finishes
// the folder when everybody's part is on disk. With checkpoint.async that is done by a thread beside the steps, from a
// copy of the state.

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/checkpoint/folder.hpp"
#include "tessera/checkpoint/shard_file.hpp"
#include "tessera/files/io_thread.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

/// What a writer needs besides the session.
struct CheckpointSettings {
  CheckpointOptions options;
  std::filesystem::path folder;  ///< RUN/checkpoints
  NamedTexts all_options;        ///< every option with its value, for the manifest
  NamedTexts provenance;
  RunHdf5 hdf5 = run_hdf5_here;
  std::function<void(std::int64_t step)> before_publish;  ///< rank 0, on the thread that writes
};

/// One checkpoint, written.
struct CheckpointReport {
  std::int64_t step = 0;
  std::int64_t bytes = 0;         ///< of all files together (rank 0)
  double blocked_seconds = 0;     ///< in which training waited
  double waited_seconds = 0;      ///< of these: for the checkpoint before, which was still being written
  double background_seconds = 0;  ///< in which it went on
  std::filesystem::path folder;
  std::vector<std::string> notes;  ///< lines for the user (rank 0): what was set aside, what could not be deleted
};

class CheckpointWriter {
 public:
  /// Collective. Everything outlives the writer.
  CheckpointWriter(RankContext& context, TrainingSession& session, CheckpointSettings settings);
  /// Waits until nothing is being written; what that throws is lost.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Makes a checkpoint of the session's state as it is between two steps. Returns when it is complete and durable;
  /// with checkpoint.async when the state is copied, and the files are written while steps go on. One that is still
  /// being written then is waited for first: none is left out, and one copy of the state is enough. Collective.
  /// IoError, of this checkpoint or of the one before; nothing that was complete before is gone then.
  void begin();
  /// What this rank writes for each checkpoint; 0 where another writes for it.
  std::int64_t bytes_to_write() const;
  /// Whether a checkpoint is being written beside the steps.
  bool is_writing() const;
  /// The next checkpoint that is complete, each once, in order. Rethrows what went wrong beside the steps: IoError on
  /// the rank where it did, PeerError on the others, whose steps may end with that before.
  std::optional<CheckpointReport> finished();
  /// Waits until nothing is being written. Rethrows as finished().
  void wait();
  /// begin() and wait(): its report, when it is complete and durable.
  CheckpointReport write();

  /// In a handler: this rank ends with the exception that is being handled, and the others are told now, because one
  /// that writes may wait for this one's part. A PeerError may be the news of what this rank itself met in writing:
  /// then throws that, which says more.
  void give_up();

 private:
  struct Job;
  Job make_job() const;
  FileRecord write_own_file(const Job& job);
  void send_to_writer(const Job& job);
  std::int64_t finish_folder(const Job& job, const std::vector<std::string>& records, std::vector<std::string>& notes);
  Manifest manifest_of(const Job& job) const;
  std::int64_t write_collectively(const Job& job, std::vector<std::string>& notes);
  CheckpointReport run(const Job& job);

  RankContext& context_;
  TrainingSession& session_;
  CheckpointSettings settings_;
  CheckpointFolder folder_;
  std::int64_t newest_ = 0;               ///< the step that this run went on from, or wrote last (rank 0)
  std::set<std::string> noted_;           ///< each line once
  std::unique_ptr<Transport> transport_;  ///< of its own: the writing may go on beside steps
  std::unique_ptr<ControlPlane> plane_;
  std::int64_t writer_ = 0;            ///< the rank that writes for this one
  std::vector<std::int64_t> members_;  ///< the ranks that this one writes for, itself first; empty: it does not write
  std::deque<CheckpointReport> reports_;
  std::future<CheckpointReport> running_;
  std::unique_ptr<IoThread> thread_;  ///< with checkpoint.async; last, so that it ends first
};

}  // namespace tessera
