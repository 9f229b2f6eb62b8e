// Ranks whose GPU or libraries differ from rank 0's are found, and every rank reports the same.
#include <catch2/catch.hpp>
#include <vector>

#include "local_world/local_world.hpp"
#include "tessera/base/error.hpp"
#include "tessera/engine/peers.hpp"

using namespace tessera;

TEST_CASE("a rank that differs from rank 0 is named on every rank, with what both have") {
  for (const std::int64_t other : {-1, 0, 1, 2}) {  // -1: none differs
    std::vector<std::string> said(3);
    run_ranks(3, 3, [&](RankContext& context) {
      try {
        require_equal(context, context.rank() == other ? "NCCL 2.27.3" : "NCCL 2.28.9", "one NCCL for all ranks");
      } catch (const UsageError& error) {
        said[static_cast<std::size_t>(context.rank())] = error.what();
      }
    });
    INFO("rank " << other << " differs");
    std::string expected;
    if (other == 0) expected = "rank 1 has NCCL 2.28.9, but rank 0 has NCCL 2.27.3. Use one NCCL for all ranks.";
    if (other > 0)
      expected = fmt::format("rank {} has NCCL 2.27.3, but rank 0 has NCCL 2.28.9. Use one NCCL for all ranks.", other);
    for (const std::string& text : said) CHECK(text == expected);
  }
}

TEST_CASE("the first fact in which a rank differs is named on every rank") {
  std::vector<std::string> said(3);
  run_ranks(3, 3, [&](RankContext& context) {
    const std::string own = context.rank() == 2 ? "b" : "a";
    try {
      require_equal(context, {{"schedule", "a"}, {"data", own}, {"options", own}});
    } catch (const UsageError& error) {
      said[static_cast<std::size_t>(context.rank())] = error.what();
    }
  });
  for (const std::string& text : said) CHECK(text.starts_with("rank 2 differs from rank 0 in its data. "));
}
