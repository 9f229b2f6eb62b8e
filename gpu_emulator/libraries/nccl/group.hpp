#pragma once
// The ranks that one communicator joins, and how they meet.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/comm/nccl/nccl_abi.hpp"

namespace emulator {

std::int64_t bytes_of(ncclDataType_t type);

/// The description of a collective, which is equal on all ranks.
struct NcclCall {
  const char* name = "";
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t operation = ncclSum;
  int root = 0;
  bool operator==(const NcclCall& other) const;
  std::string text() const;
};

/// A rank's part of a meeting.
struct NcclBuffers {
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
};

/// One message between two ranks, under way.
struct NcclMessage {
  const void* data = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  bool taken = false;
};

class NcclGroup {
 public:
  NcclGroup(std::int64_t number, int ranks) : number_(number), ranks_(ranks), next_(static_cast<std::size_t>(ranks)) {}

  std::int64_t number() const { return number_; }
  int ranks() const { return ranks_; }

  /// Called by each rank in its stream. Meets the others and runs `work` with the buffers of all. When all are done,
  /// runs `after`, and returns when all have done that too. An exception (of a rank, or as calls differ) fails the
  /// group.
  void meet(int rank, const NcclCall& call, const NcclBuffers& mine,
            const std::function<void(const std::vector<NcclBuffers>&)>& work, const std::function<void()>& after = {});

  /// Sends and receives of a rank that belong together; returns when all have been done.
  struct Side {
    int peer = 0;
    NcclMessage message;
  };
  void exchange(int rank, const std::vector<Side>& sends, const std::vector<Side>& receives);

  void fail(ncclResult_t result, const std::string& text);
  ncclResult_t failure();
  std::string failure_text();

 private:
  struct Meeting {
    NcclCall call;
    std::vector<NcclBuffers> buffers;
    int arrived = 0, worked = 0, left = 0;
  };
  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition&& condition);

  std::int64_t number_;
  int ranks_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<std::int64_t> next_;  ///< per rank: the number of its next meeting
  std::map<std::int64_t, Meeting> meetings_;
  std::map<std::pair<int, int>, std::deque<NcclMessage*>> mail_;  ///< from, to
  ncclResult_t failure_ = ncclSuccess;
  std::string failure_text_;
};

}  // namespace emulator
