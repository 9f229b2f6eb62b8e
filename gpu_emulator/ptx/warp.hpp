#pragma once
// A block of a launch and its warps. Lanes have a place in the program each; those at the same place go together, the
// one that is furthest behind first. With an order seed any may go first, as GPUs since Volta allow.

#include <cstddef>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gpu_emulator/ptx/module.hpp"
#include "gpu_emulator/ptx/report.hpp"
#include "gpu_emulator/ptx/shared_memory.hpp"

namespace ptx {

struct Extent {
  std::int64_t x = 1, y = 1, z = 1;
  std::int64_t product() const { return x * y * z; }
};

struct Launch {
  const Kernel* kernel = nullptr;
  Extent grid, block;
  std::int64_t dynamic_shared = 0;
  std::vector<std::byte> parameters;
};

class Block;

class Warp {
 public:
  Warp(Block& block, int number);
  Row& row(int index) { return rows_[static_cast<std::size_t>(index)]; }
  Block& block() { return block_; }
  /// Until all lanes have left or stand at the block's barrier: whether they stand there.
  bool run();
  /// The barrier is complete: lanes go on.
  void release();
  /// Lanes that have not left.
  Mask alive() const { return alive_; }
  /// The instruction at which the lanes stand that wait for the block; null if there are several.
  const Instruction* barrier() const;

  /// Who touches shared memory.
  Toucher toucher(int lane) const { return {number_ * kLanes + lane, number_, epoch_}; }
  /// Lanes of the whole warp have met, and what they wrote before is visible to each other.
  void order_memory() { ++epoch_; }
  std::byte* local(int lane, std::int64_t address, std::int64_t bytes);

  /// A cp.async under way.
  struct Copy {
    std::uint32_t to = 0;
    const std::byte* from = nullptr;
    int bytes = 0;
  };
  std::vector<std::vector<Copy>>& copies(int lane) { return copies_[static_cast<std::size_t>(lane)]; }

  [[noreturn]] void fault(const std::string& what, int lane) const;

 private:
  struct Group {
    int pc = 0;
    Mask mask = 0;
    bool waits = false;       ///< at a meeting that is not complete
    bool at_barrier = false;  ///< of the block
  };
  Mask guarded(const Instruction& i, Mask mask);
  int choose();
  void step(std::size_t group);
  void meet(std::size_t group, const Instruction& i, Mask active);
  void join_groups();

  Block& block_;
  int number_;
  std::vector<Row> rows_;
  std::vector<Group> groups_;
  Mask alive_ = 0;
  std::uint32_t epoch_ = 0;
  std::vector<std::byte> local_;
  std::array<std::vector<std::vector<Copy>>, kLanes> copies_;  ///< committed groups, oldest first; the last is open
  const Instruction* current_ = nullptr;
};

class Block {
 public:
  /// `random`: null for lanes in order.
  Block(const Launch& launch, Counts& counts, std::minstd_rand* random);
  void run(Extent index);

  const Launch& launch() const { return launch_; }
  SharedMemory& shared() { return shared_; }
  Counts& counts() { return counts_; }
  std::minstd_rand* random() { return random_; }
  Extent index() const { return index_; }

 private:
  void pass_barrier();
  const Launch& launch_;
  Counts& counts_;
  std::minstd_rand* random_;
  Extent index_;
  SharedMemory shared_;
  std::vector<std::unique_ptr<Warp>> warps_;
};

/// Plays every block of a launch. Throws std::runtime_error for a launch that a GPU of compute capability 8.0 does not
/// take. A fault in the kernel throws one too: what, where in the source, which thread.
void play(const Launch& launch, std::uint64_t order_seed);

}  // namespace ptx
