#pragma once
// Reads any slices of a checkpoint, whatever grid wrote it. Every block read is checked against its checksum.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint/records.hpp"

namespace tessera {

/// Elements that a reader needs, and their destination.
struct WantedRun {
  StateKind kind = StateKind::parameter;
  std::int64_t tensor = 0, first = 0, count = 0;
  void* to = nullptr;
  DType dtype = DType::fp32;  ///< of the destination: bf16 becomes fp32 exactly, fp32 the nearest bf16
};

/// Copies bytes from host memory to the destination of a WantedRun (a device, perhaps). Called from several threads.
using CopyIn = std::function<void(void* to, const void* from, std::size_t bytes)>;

class OpenFiles;

/// Files whose sizes a reader checks: first, first + every, and so on. Ranks share the files of a checkpoint.
struct FileShare {
  std::size_t first = 0, every = 1;
};

/// How much was read, and from where.
struct ReadReport {
  std::int64_t bytes = 0, near = 0;  ///< of blocks: all, and of them from the copy near
  std::string damaged_near;          ///< what was wrong with a block near, for which the disk's was read
  void add(const ReadReport& more) {
    bytes += more.bytes, near += more.near;
    if (!more.damaged_near.empty()) damaged_near = more.damaged_near;
  }
};

class CheckpointReader {
 public:
  /// Reads the manifest and checks the sizes of shards. Throws IoError, which names the file that is missing, too
  /// short, too long or broken, and UnreadableError if the system denies access.
  explicit CheckpointReader(const std::filesystem::path& folder, FileShare share = {});
  /// The same with the folder's manifest, which another rank may have read. Files are read from NEAR (near_folder) if
  /// they lie there undamaged; the disk's are then not looked at.
  CheckpointReader(std::filesystem::path folder, Manifest manifest, FileShare share,
                   const std::filesystem::path& near = {});
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  /// Reads on `threads` threads, each with one block of memory, in the order of the files. Opens only files that hold
  /// wanted elements. IoError names file and bytes of a wrong checksum; UnreadableError as above.
  ReadReport read(std::span<const WantedRun> wanted, int threads, const CopyIn& copy = {}) const;
  /// Reads elements [first, first + out.size()) of one tensor.
  void read_tensor(StateKind kind, std::int64_t tensor, std::int64_t first, std::span<float> out) const;

 private:
  struct Piece;
  std::vector<Piece> pieces_of(std::span<const WantedRun> wanted) const;
  ReadReport read_stored(std::span<const WantedRun> wanted, int threads, const CopyIn& copy) const;
  ReadReport read_converted(const WantedRun& want, int threads, const CopyIn& copy) const;
  void check_size(const FileRecord& record) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::filesystem::path near_;
  std::vector<bool> is_near_;  ///< by file
  std::unique_ptr<OpenFiles> files_;
  std::array<std::vector<std::vector<PlacedRun>>, kStateKinds> places_;  ///< by kind and tensor, ascending
};

/// Returns the defects of a checkpoint in order of discovery, at most `limit`; empty if there are none. Reads
/// everything that loading needs: manifest, sizes, checksums of all blocks, HDF5's own view of each shard (its
/// datasets, types, places, runs, names), and whether values are finite.
std::vector<std::string> verify_checkpoint(const std::filesystem::path& folder, int threads, std::size_t limit = 100);

/// Returns the defect of tensors.h5 in a checkpoint that verify_checkpoint finds sound: it is missing although the
/// manifest lists it, has other bytes, or shows other elements than the shards. Empty if there is none.
std::string index_defect(const std::filesystem::path& folder);

}  // namespace tessera
