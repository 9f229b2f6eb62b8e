#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "local_world/block_notice.hpp"

using namespace tessera;

TEST_CASE("the first failure is the one that all see, as it was said") {
  NoticeBlock block{};
  BlockNotice notice(block);
  notice.check();
  CHECK_FALSE(notice.raised());
  CHECK(notice.raise({7, ExitCode::usage, "gr\xc3\xbc\xc3\x9f dich"}));
  CHECK_FALSE(notice.raise({8, ExitCode::internal, "later"}));
  REQUIRE(notice.raised());
  CHECK(notice.failure().rank == 7);
  CHECK(notice.failure().code == ExitCode::usage);
  CHECK(notice.failure().message == "gr\xc3\xbc\xc3\x9f dich");
  try {
    notice.check();
    FAIL("no error");
  } catch (const PeerError& error) {
    CHECK(error.code() == ExitCode::usage);
    CHECK_THAT(error.what(), Catch::Contains("rank 7 failed: gr"));
  }
}

TEST_CASE("a long message is cut, an empty one is one") {
  NoticeBlock block{};
  CHECK(block.write({0, ExitCode::internal, std::string(NoticeMessage::kText, 'x') + "more"}));
  CHECK(block.read().message == std::string(NoticeMessage::kText, 'x'));
  NoticeBlock other{};
  CHECK(other.write({0, ExitCode::internal, ""}));
  CHECK(other.is_raised());
  CHECK(other.read().message.empty());
}

TEST_CASE("of failures at the same time one is told, whole") {
  for (int round = 0; round < 50; ++round) {
    NoticeBlock block{};
    std::atomic<int> first{0}, unread{0};
    std::vector<std::thread> ranks;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      ranks.emplace_back([&, rank] {
        if (block.write({rank, ExitCode::internal, std::string(500, static_cast<char>('a' + rank))})) ++first;
        if (!block.is_raised()) ++unread;
      });
    }
    for (std::thread& rank : ranks) rank.join();
    REQUIRE(first == 1);
    REQUIRE(unread == 0);
    REQUIRE(block.is_raised());
    REQUIRE(block.read().message == std::string(500, static_cast<char>('a' + block.read().rank)));
  }
}
