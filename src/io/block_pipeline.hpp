#pragma once
// Blocks on their way to a file: the caller fills one while a thread of its own takes the checksum of the one before
// and writes it.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "io/file_descriptor.hpp"
#include "tessera/io/checkpoint.hpp"

namespace tessera {

class BlockPipeline {
 public:
  /// Fills in record.blocks as blocks go by. All three outlive the pipeline.
  BlockPipeline(const FileDescriptor& file, const std::filesystem::path& path, FileRecord& record);
  /// Gives up what is not yet written, unless finish() was called.
  ~BlockPipeline();
  BlockPipeline(const BlockPipeline&) = delete;
  BlockPipeline& operator=(const BlockPipeline&) = delete;

  /// Room for the next block of the file, record.block_bytes; waits until one is free. Rethrows what writing met.
  std::byte* begin();
  /// Hands it over. The checksum is of the whole block, of which [dirty_first, dirty_end) is written.
  void submit(std::int64_t dirty_first, std::int64_t dirty_end);
  /// Waits until everything is written. Rethrows what writing met.
  void finish();

 private:
  struct Slot {
    std::vector<std::byte> bytes;
    std::int64_t dirty_first = 0, dirty_end = 0;
  };
  static constexpr std::size_t kSlots = 4;
  void work();
  void write(std::int64_t block, const Slot& slot);
  Slot& slot_of(std::int64_t block) { return slots_[static_cast<std::size_t>(block) % kSlots]; }

  const FileDescriptor& file_;
  const std::filesystem::path& path_;
  FileRecord& record_;
  std::array<Slot, kSlots> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t filled_ = 0, written_ = 0;  ///< blocks
  bool stop_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace tessera
