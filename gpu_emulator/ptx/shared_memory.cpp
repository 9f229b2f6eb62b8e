#include "gpu_emulator/ptx/shared_memory.hpp"

#include <algorithm>
#include <cstring>

#include "gpu_emulator/ptx/module.hpp"

namespace ptx {

namespace {

constexpr int kCellBytes = 2;
constexpr std::byte kFresh{0xff};

std::string thread_text(int thread) { return "thread " + std::to_string(thread); }

}  // namespace

SharedMemory::SharedMemory(std::int64_t bytes)
    : data_(static_cast<std::size_t>(bytes), kFresh), cells_(static_cast<std::size_t>((bytes + 1) / kCellBytes)) {}

void SharedMemory::reset() {
  std::fill(data_.begin(), data_.end(), kFresh);
  std::fill(cells_.begin(), cells_.end(), Cell{});
  barrier_ = 1;
}

bool SharedMemory::range(std::uint32_t address, int bytes, std::size_t& first) {
  const std::int64_t at = std::int64_t{address} - kSharedBase;
  first = static_cast<std::size_t>(at / kCellBytes);
  const bool inside = at >= 0 && at + bytes <= static_cast<std::int64_t>(data_.size());
  return (inside && at % kCellBytes == 0 && bytes % kCellBytes == 0) || refuse_range(at, bytes, inside);
}

bool SharedMemory::refuse_range(std::int64_t at, int bytes, bool inside) {
  if (inside) return refuse("an access of single bytes of shared memory");
  return refuse("an access beyond shared memory (" + std::to_string(bytes) + " bytes at " + std::to_string(at) +
                " of " + std::to_string(data_.size()) + ")");
}

bool SharedMemory::write_is_ordered(const Cell& cell, Toucher who) const {
  if (cell.writer == kNobody || cell.writer == who.thread || cell.write_barrier < barrier_) return true;
  return cell.writer / kLanes == who.warp && cell.write_epoch < who.epoch;
}

bool SharedMemory::reads_are_ordered(const Cell& cell, Toucher who) const {
  if (cell.reader == kNobody || cell.reader == who.thread || cell.read_barrier < barrier_) return true;
  return cell.read_warp == who.warp && cell.read_epoch < who.epoch;
}

bool SharedMemory::read(Toucher who, std::uint32_t address, int bytes, void* out) {
  std::size_t first = 0;
  if (!range(address, bytes, first)) return false;
  const auto count = static_cast<std::size_t>(bytes / kCellBytes);
  for (std::size_t c = first; c < first + count; ++c) {
    Cell& cell = cells_[c];
    if (cell.expected) return refuse("shared memory read before an asynchronous copy to it has arrived");
    if (cell.writer == kNobody) return refuse("shared memory read that nobody has written");
    if (!write_is_ordered(cell, who)) {
      return refuse("shared memory read that " + thread_text(cell.writer) + " has written, without a barrier between");
    }
    if (cell.read_barrier < barrier_ || cell.reader == kNobody) {
      cell.reader = who.thread, cell.read_warp = who.warp;
    } else if (cell.read_warp != who.warp) {
      cell.reader = kMany, cell.read_warp = kMany;
    } else if (cell.read_epoch < who.epoch) {
      cell.reader = who.thread;  // the warp's earlier reads are ordered before its barrier
    } else if (cell.reader != who.thread) {
      cell.reader = kMany;
    }
    cell.read_barrier = barrier_, cell.read_epoch = who.epoch;
  }
  std::memcpy(out, data_.data() + first * kCellBytes, static_cast<std::size_t>(bytes));
  return true;
}

bool SharedMemory::check_write(Toucher who, std::uint32_t address, int bytes) {
  std::size_t first = 0;
  if (!range(address, bytes, first)) return false;
  for (std::size_t c = first; c < first + static_cast<std::size_t>(bytes / kCellBytes); ++c) {
    const Cell& cell = cells_[c];
    if (cell.expected) return refuse("shared memory written while an asynchronous copy to it is under way");
    if (!write_is_ordered(cell, who)) {
      return refuse("shared memory written that " + thread_text(cell.writer) +
                    " has written, without a barrier between");
    }
    if (!reads_are_ordered(cell, who)) {
      return refuse("shared memory written that " + (cell.reader == kMany ? "others" : thread_text(cell.reader)) +
                    " may still read: no barrier between");
    }
  }
  return true;
}

void SharedMemory::note_write(Toucher who, std::size_t cell, std::size_t count) {
  for (std::size_t c = cell; c < cell + count; ++c) {
    cells_[c].writer = who.thread, cells_[c].write_barrier = barrier_, cells_[c].write_epoch = who.epoch;
    cells_[c].reader = kNobody, cells_[c].expected = false;
  }
}

bool SharedMemory::write(Toucher who, std::uint32_t address, int bytes, const void* in) {
  if (!check_write(who, address, bytes)) return false;
  const std::size_t at = address - kSharedBase;
  std::memcpy(data_.data() + at, in, static_cast<std::size_t>(bytes));
  note_write(who, at / kCellBytes, static_cast<std::size_t>(bytes / kCellBytes));
  return true;
}

bool SharedMemory::expect(Toucher who, std::uint32_t address, int bytes) {
  if (!check_write(who, address, bytes)) return false;
  const std::size_t first = (address - kSharedBase) / kCellBytes;
  for (std::size_t c = first; c < first + static_cast<std::size_t>(bytes / kCellBytes); ++c) cells_[c].expected = true;
  return true;
}

void SharedMemory::arrive(Toucher who, std::uint32_t address, int bytes, const void* in) {
  const std::size_t at = address - kSharedBase;
  std::memcpy(data_.data() + at, in, static_cast<std::size_t>(bytes));
  note_write(who, at / kCellBytes, static_cast<std::size_t>(bytes / kCellBytes));
}

}  // namespace ptx
