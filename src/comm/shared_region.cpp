#include "comm/anonymous_memory.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/rank_context.hpp"

namespace tessera {

std::vector<std::int64_t> RankContext::node_members() const {
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < ranks_per_node(); ++i) ranks.push_back(node() * ranks_per_node() + i);
  return ranks;
}

SharedRegion::SharedRegion(RankContext& context, std::int64_t bytes)
    : size_(bytes), first_rank_(context.node() * context.ranks_per_node()) {
  const std::int64_t ranks = context.ranks_per_node();
  of_node_.resize(static_cast<std::size_t>(ranks));
  if (ranks == 1 || bytes == 0) {  // no peers read it: private memory, which may have large pages
    mine_ = std::make_shared<AnonymousMemory>(bytes);
    of_node_[static_cast<std::size_t>(context.node_rank())] = mine_;
    return;
  }
  const MemoryExchange::Offer offer = context.memory().create(bytes);
  mine_ = offer.memory;
  ControlPlane node = context.control().part(context.node_members());
  const std::vector<std::string> tokens = node.all_gather(fmt::format("{} {}", bytes, offer.token));
  for (std::int64_t i = 0; i < ranks; ++i) {
    const std::string& text = tokens[static_cast<std::size_t>(i)];
    const auto space = text.find(' ');
    TESSERA_ASSERT(std::stoll(text) == bytes, "shared regions of {} bytes here and {} on rank {}: they must be equal",
                   bytes, text.substr(0, space), first_rank_ + i);
    of_node_[static_cast<std::size_t>(i)] =
        i == context.node_rank() ? mine_ : context.memory().open(text.substr(space + 1), bytes, false);
  }
  node.barrier();  // no rank goes on, and possibly exits, before all have opened
}

const std::byte* SharedRegion::peer(std::int64_t world_rank) const {
  const std::int64_t place = world_rank - first_rank_;
  if (place < 0 || place >= static_cast<std::int64_t>(of_node_.size())) return nullptr;
  const auto& memory = of_node_[static_cast<std::size_t>(place)];
  return memory ? memory->data() : nullptr;
}

std::int64_t SharedRegion::offset_of(const void* pointer, std::int64_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(data()), at = reinterpret_cast<std::uintptr_t>(pointer);
  const bool inside = at >= begin && bytes >= 0 &&
                      at - begin + static_cast<std::uintptr_t>(bytes) <= static_cast<std::uintptr_t>(size_);
  TESSERA_ASSERT(inside, "a buffer of {} bytes is not in the shared region of {} bytes, which peers read", bytes,
                 size_);
  return static_cast<std::int64_t>(at - begin);
}

}  // namespace tessera
