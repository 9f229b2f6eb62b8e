#include "tessera/engine/require_equal.hpp"

#include <vector>

#include "tessera/base/refuse.hpp"

namespace tessera {

void require_equal(RankContext& context, const std::string& mine, const std::string& allowed) {
  const std::vector<std::string> all = context.control().all_gather(mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0])
      throw refusal("rank {} has {}, but rank 0 has {}", rank, all[rank], all[0]).use("{}", allowed);
  }
}

}  // namespace tessera
