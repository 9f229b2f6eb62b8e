#pragma once
// Pipelines blocks into a file: the caller fills one while threads compute checksums of earlier ones and write them.
// Writes bypass the page cache if the file system allows it, because a checkpoint is not read again soon, and copying
// it into the cache costs more time than the disk needs. A network file system may answer each such write only when it
// is on disk, so if the first ones are slow, the rest goes through the cache.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "tessera/backend/region.hpp"
#include "tessera/base/file_descriptor.hpp"
#include "tessera/checkpoint/near.hpp"
#include "tessera/checkpoint/records.hpp"
#include "tessera/config/enums.hpp"

namespace tessera {

class BlockPipeline {
 public:
  /// Fills in record.blocks as blocks go by. All three must outlive the pipeline; `file` is open for writing. Blocks
  /// are written to `near` as well, if there is one. Throws IoError if `direct` is `yes` and the file system cannot do
  /// that.
  BlockPipeline(const FileDescriptor& file, const std::filesystem::path& path, FileRecord& record,
                Tristate direct = Tristate::automatic, NearFile* near = nullptr);
  /// Drops unwritten blocks, unless finish() was called.
  ~BlockPipeline();
  BlockPipeline(const BlockPipeline&) = delete;
  BlockPipeline& operator=(const BlockPipeline&) = delete;

  /// Returns a buffer for the next block of the file, record.block_bytes; waits until there is one. Rethrows write
  /// errors.
  std::byte* begin();
  /// Hands over the block for writing.
  void submit();
  /// Waits until everything is written. Rethrows write errors.
  void finish();

 private:
  static constexpr std::size_t kSlots = 8, kThreads = 2;
  static constexpr int kTrials = 4;  ///< blocks whose times decide
  /// Two threads whose 1 MiB blocks all take longer than this write less than 100 MB/s.
  static constexpr double kSlowBlock = 0.02;
  void work();
  void write(std::int64_t block);
  bool through_cache();
  void judge_direct(double seconds);
  void stop();
  std::size_t slot_of(std::int64_t block) const { return static_cast<std::size_t>(block) % kSlots; }
  std::byte* bytes_of(std::int64_t block) const {
    return memory_.data() + static_cast<std::int64_t>(slot_of(block)) * record_.block_bytes;
  }

  const FileDescriptor& file_;
  const std::filesystem::path& path_;
  FileRecord& record_;
  const Tristate wanted_;
  NearFile* const near_;
  const FileDescriptor direct_;  ///< the same file past the page cache; invalid if not possible
  const FileDescriptor none_{-1};
  const Region memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<bool, kSlots> busy_{};                    ///< handed over but not yet written
  std::int64_t filled_ = 0, taken_ = 0, written_ = 0;  ///< blocks
  int trials_ = 0;
  double fastest_ = 0;  ///< seconds of a direct write among the trials
  bool is_slow_ = false;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::array<std::thread, kThreads> threads_;
};

}  // namespace tessera
