#include "comm/shared/group_block.hpp"

namespace tessera {

GroupBlock::GroupBlock(RankContext& context, const std::vector<std::int64_t>& members, std::int64_t index)
    : size_(static_cast<std::int64_t>(members.size())) {
  const std::int64_t flag_bytes = size_ * static_cast<std::int64_t>(sizeof(MemberFlags));
  const std::int64_t bytes = flag_bytes + staging_bytes();
  ControlPlane plane = context.control().part(members);
  std::string token;
  if (index == 0) {
    MemoryExchange::Offer offer = context.memory().create(bytes);
    memory_ = std::move(offer.memory);
    token = std::move(offer.token);
  }
  token = plane.broadcast(token);
  if (index != 0) memory_ = context.memory().open(token, bytes, true);
  flags_ = reinterpret_cast<MemberFlags*>(memory_->data());  // zero bytes are its first state; all members agree on it
  staging_ = memory_->data() + flag_bytes;
  plane.barrier();
}

}  // namespace tessera
