#include "tessera/engine/peers.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

void require_equal(RankContext& context, const std::string& mine, const std::string& allowed) {
  const std::vector<std::string> all = context.control().all_gather(mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0])
      throw refusal("rank {} has {}, but rank 0 has {}", rank, all[rank], all[0]).use("{}", allowed);
  }
}

void require_equal(RankContext& context, const std::vector<std::pair<std::string, std::string>>& facts) {
  for (const auto& [what, mine] : facts) {
    const std::vector<std::string> all = context.control().all_gather(mine);
    const auto other = std::ranges::find_if(all, [&](const std::string& theirs) { return theirs != all[0]; });
    if (other == all.end()) continue;
    throw refusal("rank {} differs from rank 0 in its {}", other - all.begin(), what)
        .hint("All ranks must start with the same options, data, build and kind of processor");
  }
}

void tell_peers(RankContext& context) {
  try {
    throw;
  } catch (const PeerError&) {
    return;  // they know already
  } catch (...) {
    const Caught error = caught_error();
    context.notice().raise({context.rank(), error.code, error.what});
  }
}

}  // namespace tessera
