#include "io/block_pipeline.hpp"

#include "io/block_file.hpp"

namespace tessera {

BlockPipeline::BlockPipeline(const FileDescriptor& file, const std::filesystem::path& path, FileRecord& record)
    : file_(file), path_(path), record_(record) {
  for (Slot& slot : slots_) slot.bytes.resize(static_cast<std::size_t>(record.block_bytes));
  thread_ = std::thread([this] { work(); });
}

BlockPipeline::~BlockPipeline() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::byte* BlockPipeline::begin() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || filled_ - written_ < static_cast<std::int64_t>(kSlots); });
  if (failure_) std::rethrow_exception(failure_);
  return slot_of(filled_).bytes.data();
}

void BlockPipeline::submit(std::int64_t dirty_first, std::int64_t dirty_end) {
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slot_of(filled_);
    slot.dirty_first = dirty_first;
    slot.dirty_end = dirty_end;
    ++filled_;
  }
  changed_.notify_all();
}

void BlockPipeline::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || written_ == filled_; });
  if (failure_) std::rethrow_exception(failure_);
}

void BlockPipeline::write(std::int64_t block, const Slot& slot) {
  record_.blocks.push_back(checksum(slot.bytes.data(), bytes_in_block(record_, block)));
  const std::int64_t first = block * record_.block_bytes;
  if (slot.dirty_first < slot.dirty_end) {
    write_at(file_, path_, first + slot.dirty_first, slot.bytes.data() + slot.dirty_first,
             slot.dirty_end - slot.dirty_first);
  }
}

void BlockPipeline::work() {
  for (;;) {
    std::int64_t block = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || written_ < filled_; });
      if (stop_) return;
      block = written_;
    }
    std::exception_ptr failure;
    try {
      write(block, slot_of(block));
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      if (failure) {
        failure_ = failure;
      } else {
        ++written_;
      }
    }
    changed_.notify_all();
    if (failure) return;
  }
}

}  // namespace tessera
