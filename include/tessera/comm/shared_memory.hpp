#pragma once
// Memory that several ranks of a node see: between processes by mapping, between threads by address.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tessera {

class RankContext;

/// A piece of memory, mapped here; unmapped when the last owner lets go.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  virtual std::byte* data() const = 0;
  virtual std::int64_t size() const = 0;
};

/// Lets ranks of one node open each other's memory.
class MemoryExchange {
 public:
  struct Offer {
    std::shared_ptr<SharedMemory> memory;
    std::string token;  ///< by which peers open it, while the owner keeps it
  };
  virtual ~MemoryExchange() = default;
  /// Allocates zeroed, page-aligned memory that is committed (IoError when the machine lacks it): touching it never
  /// raises SIGBUS.
  virtual Offer create(std::int64_t bytes) = 0;
  /// CommunicationError when the peer's memory cannot be opened.
  virtual std::shared_ptr<SharedMemory> open(const std::string& token, std::int64_t bytes, bool writable) = 0;
};

/// A rank's shared region, of the same size on all ranks: full buffers and contributions, which peers of its node read.
class SharedRegion {
 public:
  /// Collective over the node of `context`.
  SharedRegion(RankContext& context, std::int64_t bytes);

  std::byte* data() const { return mine_->data(); }
  std::int64_t size() const { return size_; }
  /// Returns where the region of a rank of this node is mapped here (read-only unless it is this rank's); null for
  /// ranks of other nodes.
  const std::byte* peer(std::int64_t world_rank) const;
  /// Returns the offset of `pointer` in the region; InternalError when [pointer, pointer + bytes) is not inside.
  std::int64_t offset_of(const void* pointer, std::int64_t bytes) const;

 private:
  std::int64_t size_, first_rank_;
  std::shared_ptr<SharedMemory> mine_;
  std::vector<std::shared_ptr<SharedMemory>> of_node_;
};

}  // namespace tessera
