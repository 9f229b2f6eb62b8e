#include "checkpoint/block_pipeline.hpp"

#include <algorithm>
#include <chrono>

#include "checkpoint/block_file.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/threads.hpp"

namespace tessera {

BlockPipeline::BlockPipeline(const FileDescriptor& file, const std::filesystem::path& path, FileRecord& record,
                             Tristate direct, NearFile* near)
    : file_(file),
      path_(path),
      record_(record),
      wanted_(direct),
      near_(near),
      direct_(direct == Tristate::no ? FileDescriptor(-1) : open_direct(path)),
      memory_(static_cast<std::int64_t>(kSlots) * record.block_bytes) {
  if (direct == Tristate::yes && !direct_) {
    throw IoError(
        "{} cannot be written past the page cache, because its file system has no O_DIRECT. Use checkpoint.direct = "
        "auto or false.",
        path.string());
  }
  record_.blocks.assign(static_cast<std::size_t>(ceil_div(record_.bytes, record_.block_bytes)), 0);
  try {
    for (std::thread& thread : threads_) thread = start_thread("block writer", [this] { work(); });
  } catch (...) {
    stop();
    throw;
  }
}

BlockPipeline::~BlockPipeline() { stop(); }

void BlockPipeline::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

std::byte* BlockPipeline::begin() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || !busy_[slot_of(filled_)]; });
  if (failure_) std::rethrow_exception(failure_);
  return bytes_of(filled_);
}

void BlockPipeline::submit() {
  {
    const std::lock_guard lock(mutex_);
    busy_[slot_of(filled_)] = true;
    ++filled_;
  }
  changed_.notify_all();
}

void BlockPipeline::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || written_ == filled_; });
  if (failure_) std::rethrow_exception(failure_);
}

void BlockPipeline::write(std::int64_t block) {
  const std::byte* bytes = bytes_of(block);
  const std::int64_t count = bytes_in_block(record_, block);
  record_.blocks[static_cast<std::size_t>(block)] = checksum(bytes, count);
  const bool is_direct = direct_ && !through_cache();
  const auto start = std::chrono::steady_clock::now();
  write_direct(is_direct ? direct_ : none_, file_, path_, block * record_.block_bytes, bytes, count);
  if (is_direct && wanted_ == Tristate::automatic && count == kBlockBytes) judge_direct(seconds_since(start));
  if (near_ != nullptr) near_->write(block * record_.block_bytes, bytes, count);
}

bool BlockPipeline::through_cache() {
  const std::lock_guard lock(mutex_);
  return is_slow_;
}

void BlockPipeline::judge_direct(double seconds) {
  const std::lock_guard lock(mutex_);
  if (trials_ == kTrials) return;
  fastest_ = trials_ == 0 ? seconds : std::min(fastest_, seconds);
  if (++trials_ == kTrials) is_slow_ = fastest_ > kSlowBlock;
}

void BlockPipeline::work() {
  for (;;) {
    std::int64_t block = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || failure_ || taken_ < filled_; });
      if (stop_ || failure_) return;
      block = taken_++;
    }
    std::exception_ptr failure;
    try {
      write(block);
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      if (failure && !failure_) failure_ = failure;
      busy_[slot_of(block)] = false;
      ++written_;
    }
    changed_.notify_all();
  }
}

}  // namespace tessera
