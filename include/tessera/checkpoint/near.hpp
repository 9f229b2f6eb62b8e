#pragma once
// A second copy of the newest checkpoint's shards on the nodes that wrote them (checkpoint.keep_near), byte for byte:
// NEAR/step-N/shard-NNNNN.h5. A restart reads from there what lies there. The manifest with its checksums is always the
// disk's, so a copy is never newer than the disk, and never replaces it.

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/base/file_descriptor.hpp"
#include "tessera/checkpoint/records.hpp"

namespace tessera {

/// The folder that `auto` uses: its files are in memory, and outlive the processes of a job.
inline constexpr const char* kMemoryFolder = "/dev/shm";

/// Returns NEAR of a run: a folder named by this user and by the real path of `checkpoints` (RUN/checkpoints), in
/// kMemoryFolder for `auto`, else in `keep_near`. Empty for `none`.
std::filesystem::path near_folder(const std::string& keep_near, const std::filesystem::path& checkpoints);

/// Returns NEAR/step-N to read from; empty if it is not there, or if NEAR is not a folder of this user alone.
std::filesystem::path near_step(const std::filesystem::path& near, std::int64_t step);

/// Deletes all of NEAR but step `keep` (-1: nothing is kept), half copies too. Leaves another user's folder alone.
void prune_near(const std::filesystem::path& near, std::int64_t keep);

/// Returns the bytes of a node's files when two checkpoints are near, the old and the new one.
std::int64_t most_bytes_near(const std::vector<TensorRecord>& tensors, std::int64_t ranks_per_node, std::int64_t world);

/// A file that is written near: NAME.tmp until it is complete. A failure ends this file only.
class NearFile {
 public:
  /// Begins NEAR/step-N/NAME; makes the folders, for this user alone.
  NearFile(const std::filesystem::path& near, std::int64_t step, const std::string& name);
  /// Deletes the file, unless finish() has named it.
  ~NearFile();
  NearFile(const NearFile&) = delete;
  NearFile& operator=(const NearFile&) = delete;

  /// Writes bytes at an offset; on any thread.
  void write(std::int64_t offset, const void* data, std::int64_t bytes);
  /// Gives the complete file its name. Returns why there is none, or nothing.
  std::string finish();

 private:
  std::filesystem::path path_, beside_;
  FileDescriptor file_;
  std::mutex mutex_;
  std::string failure_;
};

}  // namespace tessera
