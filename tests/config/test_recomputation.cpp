#include <catch2/catch.hpp>

#include "config/check.hpp"
#include "tessera/config/options.hpp"
#include "tessera/config/recomputation.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

Recomputation of(const std::string& blocks, const std::string& parts = "attention,mlp") {
  MemoryOptions options;
  options.checkpoint = ActivationCheckpointing::selective;
  options.recomputed_blocks = blocks;
  options.recomputed_halves = parts;
  return recomputation_of(options);
}

std::vector<std::int64_t> blocks_of(const Recomputation& recomputation, std::int64_t layers) {
  std::vector<std::int64_t> blocks;
  for (std::int64_t block = 0; block < layers; ++block) {
    if (recomputation.has_block(block)) blocks.push_back(block);
  }
  return blocks;
}

}  // namespace

TEST_CASE("Blocks are all, a share of them evenly spread, or a list") {
  CHECK(of("all") == Recomputation::all_blocks());
  CHECK(blocks_of(of("1/2"), 6) == std::vector<std::int64_t>{1, 3, 5});
  CHECK(blocks_of(of("2/3"), 6) == std::vector<std::int64_t>{1, 2, 4, 5});
  CHECK(blocks_of(of("7,0,2-4,3"), 9) == std::vector<std::int64_t>{0, 2, 3, 4, 7});
  for (std::int64_t layers = 1; layers < 40; ++layers) {
    for (std::int64_t share = 1; share <= layers; ++share) {
      const auto blocks = blocks_of(of(fmt::format("{}/{}", share, layers)), layers);
      REQUIRE(std::ssize(blocks) == share);
      for (std::size_t i = 1; i < blocks.size(); ++i) {
        const std::int64_t gap = blocks[i] - blocks[i - 1];
        REQUIRE((gap == layers / share || gap == (layers + share - 1) / share));
      }
    }
  }
  for (const char* bad :
       {"", "0/2", "3/2", "1/0", "/2", "1/", "1/2/3", "-1", "2-1", "0,", "a", "1 ", "all,1", "99999999"})
    CHECK_THAT(usage_message([&] { of(bad); }), Contains("memory.checkpoint_blocks"));
  CHECK_THAT(usage_message([&] { require_blocks(of("0,4"), 4); }), Contains("block 4") && Contains("0 to 3"));
  CHECK(usage_message([&] { require_blocks(of("0,3"), 4); }).empty());
}

TEST_CASE("Halves are attention, mlp or both") {
  CHECK((of("all", "attention").attention && !of("all", "attention").mlp));
  CHECK((!of("all", "mlp").attention && of("all", "mlp").mlp));
  CHECK(of("all", "mlp,attention").is_all());
  for (const char* bad : {"", "head", "mlp,mlp", "mlp,", "attention mlp"})
    CHECK_THAT(usage_message([&] { of("all", bad); }), Contains("memory.checkpoint_parts"));
}

TEST_CASE("A recomputation is described, and written as the options that make it") {
  CHECK(describe(Recomputation()) == "none");
  CHECK(describe(of("all")) == "block");
  CHECK(describe(of("all", "mlp")) == "mlp");
  CHECK(describe(of("1/2", "attention")) == "attention of 1/2 of the blocks");
  CHECK(describe(of("3,0")) == "attention and mlp of blocks 0,3");
  for (const Recomputation& one : {Recomputation(), of("all"), of("all", "mlp"), of("2/5"), of("1,4-6", "attention")}) {
    MemoryOptions given;
    given.checkpoint = ActivationCheckpointing::fit;
    CHECK(recomputation_of(options_of(one, given)) == one);
  }
}

TEST_CASE("Which options of recomputation go together") {
  CHECK(error_of({"--memory.checkpoint=selective", "--memory.checkpoint_blocks=1/2", "--memory.checkpoint_parts=mlp"})
            .empty());
  CHECK_THAT(error_of({"--memory.checkpoint_blocks=1/2"}),
             Contains("because only memory.checkpoint = selective chooses"));
  CHECK_THAT(error_of({"--memory.checkpoint=block", "--memory.checkpoint_parts=mlp"}), Contains("no effect"));
  CHECK_THAT(error_of({"--memory.checkpoint=selective", "--memory.checkpoint_parts=all"}),
             Contains("memory.checkpoint_parts"));
  CHECK(error_of({"--memory.checkpoint=fit"}).empty());
}
