#pragma once
// Writing checkpoints of a training session: each rank its share, gathered to fewer files if wanted; rank 0 finishes
// the folder when everybody's part is on disk.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "tessera/engine/session.hpp"
#include "tessera/io/checkpoint_folder.hpp"
#include "tessera/io/shard_file.hpp"

namespace tessera {

/// What a writer needs besides the session.
struct CheckpointSettings {
  CheckpointOptions options;
  std::filesystem::path folder;  ///< RUN/checkpoints
  NamedTexts all_options;        ///< every option with its value, for the manifest
  NamedTexts provenance;
  RunHdf5 hdf5 = run_hdf5_here;
};

/// One checkpoint, written.
struct CheckpointReport {
  std::int64_t step = 0;
  std::int64_t bytes = 0;         ///< of all files together (rank 0)
  double blocked_seconds = 0;     ///< in which training waited
  double background_seconds = 0;  ///< in which it went on
  std::filesystem::path folder;
};

class CheckpointWriter {
 public:
  /// Collective. Everything outlives the writer.
  CheckpointWriter(RankContext& context, TrainingSession& session, CheckpointSettings settings);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Writes the session's state as it is between two steps and returns when it is durable and complete. Collective.
  /// IoError; then nothing that was complete before is gone.
  CheckpointReport write();

 private:
  struct Job;
  FileRecord write_own_file(const Job& job);
  void send_to_writer(const Job& job);
  void finish_folder(const Job& job, const std::vector<std::string>& records);
  Manifest manifest_of(const Job& job) const;
  void write_collectively(const Job& job);

  RankContext& context_;
  TrainingSession& session_;
  CheckpointSettings settings_;
  CheckpointFolder folder_;
  std::unique_ptr<Transport> transport_;  ///< of its own: the writing may go on beside steps
  std::unique_ptr<ControlPlane> plane_;
  std::int64_t writer_ = 0;            ///< the rank that writes for this one
  std::vector<std::int64_t> members_;  ///< the ranks that this one writes for, itself first; empty: it does not write
  std::int64_t written_bytes_ = 0;
};

}  // namespace tessera
