#pragma once
// A block's shared memory, which remembers who touched it. Two threads may touch the same bytes, one of them writing,
// only with a barrier in between: the block's, or their warp's if they are of the same one. Bytes that were never
// written may not be read.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ptx {

/// A thread at a moment: how often its warp has passed one of its own barriers.
struct Toucher {
  int thread = 0, warp = 0;
  std::uint32_t epoch = 0;
};

class SharedMemory {
 public:
  /// `bytes` from address kSharedBase on.
  explicit SharedMemory(std::int64_t bytes);
  /// Fresh memory, nobody has touched it.
  void reset();
  /// A barrier of the block was passed.
  void pass_barrier() { ++barrier_; }

  /// Each returns whether that is right; what_is_wrong() tells what is not. Bytes are even in number and place.
  [[nodiscard]] bool read(Toucher who, std::uint32_t address, int bytes, void* out);
  [[nodiscard]] bool write(Toucher who, std::uint32_t address, int bytes, const void* in);
  /// An asynchronous copy to these bytes was issued: nobody may touch them until `arrive`.
  [[nodiscard]] bool expect(Toucher who, std::uint32_t address, int bytes);
  void arrive(Toucher who, std::uint32_t address, int bytes, const void* in);
  const std::string& what_is_wrong() const { return wrong_; }

 private:
  static constexpr int kNobody = -1, kMany = -2;
  struct Cell {  // two bytes
    std::uint32_t write_barrier = 0, write_epoch = 0, read_barrier = 0, read_epoch = 0;
    int writer = kNobody;
    int reader = kNobody;     ///< a thread, or kMany of read_warp
    int read_warp = kNobody;  ///< kMany: of several
    bool expected = false;
  };
  bool refuse(std::string what) { return wrong_ = std::move(what), false; }
  bool range(std::uint32_t address, int bytes, std::size_t& first);
  bool refuse_range(std::int64_t at, int bytes, bool inside);
  bool write_is_ordered(const Cell& cell, Toucher who) const;
  bool reads_are_ordered(const Cell& cell, Toucher who) const;
  bool check_write(Toucher who, std::uint32_t address, int bytes);
  void note_write(Toucher who, std::size_t cell, std::size_t count);

  std::vector<std::byte> data_;
  std::vector<Cell> cells_;
  std::uint32_t barrier_ = 1;
  std::string wrong_;
};

}  // namespace ptx
