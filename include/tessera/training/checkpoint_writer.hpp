#pragma once
// Writes checkpoints of a training session. Each rank writes its share, gathered to fewer files if wanted, and rank 0
// finishes the folder when all parts are on disk. With checkpoint.async a separate thread does that during the steps,
// from a copy of the state.

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

#include "tessera/checkpoint/best.hpp"
#include "tessera/checkpoint/folder.hpp"
#include "tessera/checkpoint/shard_file.hpp"
#include "tessera/files/io_thread.hpp"
#include "tessera/record/reports.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

/// What a writer needs in addition to the session.
struct CheckpointSettings {
  CheckpointOptions options;
  std::filesystem::path folder;  ///< RUN/checkpoints
  NamedTexts all_options;        ///< every option with its value, for the manifest
  NamedTexts provenance;
  RunHdf5 hdf5 = run_hdf5_here;
  std::function<void(std::int64_t step)> before_publish;  ///< rank 0, on the thread that writes
};

class CheckpointWriter {
 public:
  /// Collective. Everything outlives the writer.
  CheckpointWriter(RankContext& context, TrainingSession& session, CheckpointSettings settings);
  /// Waits until nothing is being written; its exceptions are lost.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Makes a checkpoint of the session's state between two steps. Returns when it is complete and durable; with
  /// checkpoint.async, when the state is copied, while the files are written as steps go on. First waits for a
  /// checkpoint that is still being written, so that none is left out and one copy of the state is enough. Collective.
  /// Throws IoError, of this checkpoint or of the previous one; no complete checkpoint is lost then. With
  /// run.check_every the state is checked after it was read (CorruptionError), and only then is it a checkpoint.
  /// `evaluation` is that of this step, for the manifest; checkpoint.keep_best uses it.
  void begin(const NamedLosses& evaluation = {});
  /// Returns the bytes that this rank writes for each checkpoint; 0 if another rank writes for it.
  std::int64_t bytes_to_write() const;
  /// Returns whether a checkpoint is being written in the background.
  bool is_writing() const;
  /// Returns the next checkpoint that is complete, each once, in order. Rethrows errors of the background writing:
  /// IoError on the failing rank, PeerError on the others, whose steps may already have ended with it.
  std::optional<CheckpointReport> finished();
  /// Waits until nothing is being written. Rethrows as finished().
  void wait();
  /// Deletes the copy near, for which a run that has done all its steps has no use. Call it after wait().
  void remove_near() const;
  /// Calls begin() and wait(). Returns the report, when it is complete and durable.
  CheckpointReport write();

  /// Call it in an exception handler: this rank is about to end. Tells the others now, because a writing rank may wait
  /// for this one's part. If the PeerError only echoes this rank's own write error, rethrows the original error.
  void give_up();

 private:
  struct Job;
  Job make_job(const NamedLosses& evaluation) const;
  FileRecord write_own_file(const Job& job);
  std::int64_t write_files(const Job& job);
  void note_near_failures(std::vector<std::string>& notes);
  void publish(const Job& job, std::vector<std::string>& notes);
  Manifest manifest_of(const Job& job) const;
  std::int64_t write_collectively(const Job& job, std::vector<std::string>& notes);
  CheckpointReport run(const Job& job);

  RankContext& context_;
  TrainingSession& session_;
  CheckpointSettings settings_;
  CheckpointFolder folder_;
  JudgedCheckpoints judged_;
  const std::filesystem::path near_;      ///< empty: none
  bool writes_near_ = false;              ///< until it fails
  std::string near_failure_;              ///< of the last file
  std::int64_t newest_ = 0;               ///< the step that this run continued from, or wrote last (rank 0)
  std::set<std::string> noted_;           ///< each line only once
  std::unique_ptr<Transport> transport_;  ///< separate, because the writing may go on during steps
  std::unique_ptr<ControlPlane> plane_;
  std::int64_t writer_ = 0;            ///< the rank that writes for this one
  std::vector<std::int64_t> members_;  ///< the ranks that this one writes for, itself first; empty: it does not write
  std::deque<CheckpointReport> reports_;
  std::future<CheckpointReport> running_;
  std::unique_ptr<IoThread> thread_;  ///< with checkpoint.async; last, so that it ends first
};

}  // namespace tessera
