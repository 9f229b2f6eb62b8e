#pragma once
// Reading any slices of a checkpoint, whatever wrote it. Every block that is read is checked against its checksum.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint/records.hpp"

namespace tessera {

/// Elements that a reader wants, and where they go.
struct WantedRun {
  StateKind kind = StateKind::parameter;
  std::int64_t tensor = 0, first = 0, count = 0;
  float* to = nullptr;
};

/// Copies bytes from host memory to where a WantedRun points (a device, perhaps). Called from several threads.
using CopyIn = std::function<void(void* to, const void* from, std::size_t bytes)>;

class OpenFiles;

/// Files whose sizes a reader looks at: first, first + every, and so on. Ranks share the files of a checkpoint.
struct FileShare {
  std::size_t first = 0, every = 1;
};

class CheckpointReader {
 public:
  /// Reads the manifest and looks at the sizes of files. IoError naming the file that is missing, too short, too long
  /// or broken; UnreadableError where the system does not let it.
  explicit CheckpointReader(const std::filesystem::path& folder, FileShare share = {});
  /// The same with the folder's manifest, which another rank may have read.
  CheckpointReader(std::filesystem::path folder, Manifest manifest, FileShare share);
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  /// Reads on `threads` threads, each with one block of memory; blocks are read in the order of the files. Only files
  /// that hold what is wanted are opened. IoError naming file and bytes where a checksum is wrong; UnreadableError as
  /// above.
  void read(std::span<const WantedRun> wanted, int threads, const CopyIn& copy = {}) const;

 private:
  /// A run of a tensor in a file.
  struct Place {
    std::int64_t first = 0, count = 0;
    std::size_t file = 0;
    std::int64_t offset = 0;  ///< elements from the start of the file's datasets
  };
  struct Piece;
  std::vector<Piece> pieces_of(std::span<const WantedRun> wanted) const;
  void check_size(const FileRecord& record) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::unique_ptr<OpenFiles> files_;
  std::vector<std::vector<Place>> places_;  ///< by tensor, ascending
};

/// What is wrong with a checkpoint, in the order of discovery; empty: nothing. Reads everything: manifest, sizes,
/// checksums of all blocks, HDF5's own view of each shard (datasets, types, places, runs, names), every virtual
/// dataset, finite values. At most `limit` problems.
std::vector<std::string> verify_checkpoint(const std::filesystem::path& folder, int threads, std::size_t limit = 100);

}  // namespace tessera
