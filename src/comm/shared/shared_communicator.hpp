#pragma once
// Collectives of ranks that share memory: gather = pull, reduce = each rank sums its slice straight from its peers'.

#include <string>
#include <vector>

#include "comm/group_communicator.hpp"
#include "comm/shared/group_block.hpp"
#include "tessera/comm/make_communicator.hpp"

namespace tessera {

class SharedCommunicator final : public GroupCommunicator {
 public:
  /// Collective over `members`: world ranks of one node, the caller among them.
  SharedCommunicator(RankContext& context, std::vector<std::int64_t> members, const SharedRegion& region,
                     std::string name, const CommunicatorOptions& options);

 private:
  void all_gather(const CollectiveCall& call) override;
  void reduce_scatter(const CollectiveCall& call) override;
  void all_reduce(const CollectiveCall& call) override;
  void broadcast(const CollectiveCall& call) override;
  void exchange(const CollectiveCall& call) override;
  void barrier(const CollectiveCall& call) override;

  // A collective is enter, wait_for_entry of the ranks it reads, work, leave, wait_for_exit of all.
  void enter(const CollectiveCall& call, std::int64_t offset);
  void wait_for_entry(std::int64_t member);
  void wait_for_all_entries();
  void leave_and_wait();
  [[noreturn]] void timed_out(bool at_entry);
  void check_same_call(std::int64_t member);

  /// Runs work(begin, end) over pieces of [0, elements), on the pool if there is one.
  template <class F>
  void in_pieces(std::int64_t elements, std::int64_t bytes_per_element, F&& work);
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes);

  /// Returns the current collective's number as flags count: it wraps around.
  std::uint32_t round() const { return static_cast<std::uint32_t>(number_); }

  const SharedRegion& region_;
  CommunicatorOptions options_;
  bool spin_;
  GroupBlock block_;
  std::vector<const std::byte*> peers_;  ///< base of each member's region
  std::vector<const void*> sources_;     ///< scratch of reduce_scatter: sources of the sum, a set per pool thread
  std::int64_t offset_ = 0;
};

}  // namespace tessera
