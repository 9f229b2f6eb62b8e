#pragma once
// Collectives over messages between pairs of ranks: between nodes over MPI, and in tests between threads. Sums have the
// same bits as those of shared memory.

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/group_communicator.hpp"
#include "tessera/comm/make_communicator.hpp"
#include "tessera/comm/scratch.hpp"

namespace tessera {

class PointToPointCommunicator final : public GroupCommunicator {
 public:
  /// Returns the staging bytes of a reduction: a block from each member.
  static std::int64_t staging_bytes(std::int64_t size) { return size * message_block_bytes(size); }

  /// Collective over `members` (world ranks, the caller among them).
  PointToPointCommunicator(RankContext& context, std::vector<std::int64_t> members, std::string name,
                           const CommunicatorOptions& options);

  void set_workspace(std::span<std::byte> scratch) override;

 private:
  /// A message under way, with its peer.
  struct Pending {
    MessageSlot slot;
    std::int64_t peer = 0;
  };

  /// Numbers the call, and compares it with the neighbour's: if two ranks are in different collectives, two neighbours
  /// in between differ. Gives up all messages when anything throws.
  void perform(const CollectiveCall& call) override;
  void compare_with_neighbour();
  void all_gather(const CollectiveCall& call) override;
  void reduce_scatter(const CollectiveCall& call) override;
  void all_reduce(const CollectiveCall& call) override;
  void broadcast(const CollectiveCall& call) override;
  void exchange(const CollectiveCall& call) override;
  void barrier(const CollectiveCall& call) override;
  void send(std::int64_t peer, const void* data, std::int64_t bytes) {
    start(peer, const_cast<void*>(data), bytes, false);
  }
  void receive(std::int64_t peer, void* data, std::int64_t bytes) { start(peer, data, bytes, true); }
  /// Begins messages of at most kChunk bytes. `data` is written only if it receives.
  void start(std::int64_t peer, void* data, std::int64_t bytes, bool receives);
  /// Receives `bytes` from one member and sends as many to another, of any length.
  void trade(std::int64_t from, void* received, std::int64_t to, const void* sent, std::int64_t bytes);
  /// Returns the bytes of each member's contribution that are added at a time. InternalError if the workspace is too
  /// small.
  std::int64_t block() const;
  void make_room(std::size_t messages);
  void finish_all() { make_room(kWindow); }
  bool poll();
  [[noreturn]] void timed_out();
  void reduce_to_first(std::int64_t* values, std::int64_t count, Reduction reduction);
  void broadcast_block(std::byte* data, std::int64_t bytes, std::int64_t root);

  static constexpr std::size_t kWindow = 16;  ///< messages under way: enough to keep a link busy

  std::unique_ptr<Transport> transport_;
  std::vector<std::byte> own_;    ///< staging if there is no external workspace
  std::span<std::byte> staging_;  ///< own_, or the external workspace
  std::vector<const void*> sources_;
  std::array<Pending, kWindow> pending_;
  std::size_t under_way_ = 0;
  int tag_ = 0;
};

}  // namespace tessera
