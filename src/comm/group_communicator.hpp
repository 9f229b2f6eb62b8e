#pragma once
// The state of a group's member that is independent of the transport: the other members, the current call, and the
// bytes sent so far.

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "comm/collective_call.hpp"
#include "comm/wait.hpp"
#include "tessera/comm/rank_context.hpp"

namespace tessera {

class GroupCommunicator : public CountingCommunicator {
 public:
  int rank() const final { return static_cast<int>(index_); }
  int size() const final { return static_cast<int>(size_); }
  void run(Stream&, const CollectiveCall& call) final {
    const auto start = std::chrono::steady_clock::now();
    perform(call);
    add(call, std::chrono::steady_clock::now() - start);
  }

 protected:
  /// `members` are world ranks, the caller's among them.
  GroupCommunicator(RankContext& context, std::vector<std::int64_t> members, std::string name, double timeout_seconds)
      : members_(std::move(members)),
        size_(static_cast<std::int64_t>(members_.size())),
        index_(std::find(members_.begin(), members_.end(), context.rank()) - members_.begin()),
        name_(std::move(name)),
        timeout_seconds_(timeout_seconds),
        notice_(context.notice()) {}

  /// Returns the world rank of a member.
  std::int64_t world_rank(std::int64_t member) const { return members_[static_cast<std::size_t>(member)]; }

  virtual void perform(const CollectiveCall& call) {
    switch (call.collective) {
      case Collective::all_gather:
        return all_gather(call);
      case Collective::reduce_scatter:
        return reduce_scatter(call);
      case Collective::all_reduce:
        return all_reduce(call);
      case Collective::broadcast:
        return broadcast(call);
      case Collective::exchange:
        return exchange(call);
      case Collective::barrier:
        return barrier(call);
    }
  }
  virtual void all_gather(const CollectiveCall& call) = 0;
  virtual void reduce_scatter(const CollectiveCall& call) = 0;
  virtual void all_reduce(const CollectiveCall& call) = 0;
  virtual void broadcast(const CollectiveCall& call) = 0;
  virtual void exchange(const CollectiveCall& call) = 0;
  virtual void barrier(const CollectiveCall& call) = 0;

  void begin_call(const CollectiveCall& call) {
    call_ = call;
    deadline_ = PeerDeadline(timeout_seconds_);
    ++number_;
  }

  std::vector<std::int64_t> members_;
  std::int64_t size_, index_;
  std::string name_;
  double timeout_seconds_;
  FailureNotice& notice_;
  std::int64_t number_ = 0;   ///< of the current collective
  CollectiveCall call_;       ///< of the current collective
  PeerDeadline deadline_{0};  ///< of the current collective
};

}  // namespace tessera
