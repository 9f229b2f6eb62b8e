#pragma once
// The failure notice of processes: a shared block among the ranks of a node, and messages between nodes.

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/mpi/check.hpp"
#include "comm/notice_block.hpp"
#include "tessera/comm/shared_memory.hpp"

namespace tessera {

class WorldNotice final : public FailureNotice {
 public:
  /// `block`: zeroed memory that all ranks of the node share. `remote`: the ranks of other nodes, in `comm`, which must
  /// outlive the notice and carry nothing else.
  WorldNotice(std::shared_ptr<SharedMemory> block, MPI_Comm comm, std::vector<int> remote);

  bool raise(const Failure& failure) override;
  bool raised() override;
  Failure failure() override { return block().read(); }

 private:
  NoticeBlock& block() const { return *reinterpret_cast<NoticeBlock*>(memory_->data()); }
  void tell_remote(const Failure& failure);
  void look_for_message();

  std::shared_ptr<SharedMemory> memory_;
  MPI_Comm comm_;
  std::vector<int> remote_;
  std::mutex lock_;                         ///< one thread at a time polls for messages
  std::atomic<std::int64_t> next_look_{0};  ///< steady clock, ns
};

}  // namespace tessera
