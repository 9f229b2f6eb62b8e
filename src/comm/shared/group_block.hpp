#pragma once
// The control block shared by the members of a shared-memory group: a line of flags per member, and a staging buffer.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/comm/rank_context.hpp"

namespace tessera {

/// One member's flags: written by it, read by the others. Each has its own cache line. Plain data, all zero at the
/// start.
struct alignas(64) MemberFlags {
  std::atomic<std::uint32_t> entered;  ///< number of the last collective that the member has entered
  std::atomic<std::uint32_t> left;     ///< number of the last collective after which it no longer touches peers' memory
  std::atomic<std::uint32_t> sleepers;  ///< peers asleep on one of the two
  std::uint32_t unused;
  std::atomic<std::uint64_t> shape;  ///< shape of the collective `entered`: CollectiveCall::packed()
  std::atomic<std::int64_t> offset;  ///< offset of its buffer in the member's shared region
};
static_assert(sizeof(MemberFlags) == 64);

/// A view of the block, the same memory on all members.
class GroupBlock {
 public:
  static constexpr std::int64_t kStagingPerMember = std::int64_t{32} << 10;

  /// Collective over `members` (world ranks of one node); `index` is the caller's place among them.
  GroupBlock(RankContext& context, const std::vector<std::int64_t>& members, std::int64_t index);

  MemberFlags& member(std::int64_t index) const { return flags_[index]; }
  /// Returns the staging buffer, one piece: member i's own part starts at i * kStagingPerMember.
  std::byte* staging() const { return staging_; }
  std::int64_t staging_bytes() const { return size_ * kStagingPerMember; }

 private:
  std::int64_t size_;
  std::shared_ptr<SharedMemory> memory_;
  MemberFlags* flags_ = nullptr;
  std::byte* staging_ = nullptr;
};

}  // namespace tessera
