#include <catch2/catch.hpp>

#include "tessera/record/straggler_notice.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

RankRow report(std::int64_t step, std::int64_t rank, std::int64_t timed_steps = 10) {
  RankRow row;
  row.step = step;
  row.steps = row.timed_steps = timed_steps;
  row.straggler = {rank, rank < 0 ? 0 : 0.25, rank < 0 ? 0 : 0.2};
  return row;
}

}  // namespace

TEST_CASE("a rank is named when two reports in a row name it, once, and when it is over") {
  StragglerNotice notice;
  CHECK(notice.after(report(1, 3)).empty());  // the first step's times are not a measure
  const std::string named = notice.after(report(10, 3));
  CHECK_THAT(named, Contains("step 10: rank 3 is slowing the others down") && Contains("25 ms longer per step") &&
                        Contains("20% of its time"));
  CHECK(notice.rank() == 3);
  CHECK(notice.after(report(20, 3)).empty());
  CHECK(notice.after(report(30, -1)).empty());
  CHECK(notice.after(report(40, 3)).empty());  // one report that named nobody is not news
  CHECK(notice.after(report(50, -1)).empty());
  CHECK_THAT(notice.after(report(60, -1)), Contains("step 60: rank 3 is no longer slowing the others down"));
  CHECK(notice.rank() == -1);
}

TEST_CASE("ranks that take turns are not named, nor is anyone by a report without timed steps") {
  StragglerNotice notice;
  for (std::int64_t i = 1; i < 8; ++i) CHECK(notice.after(report(10 * i, i % 2)).empty());
  CHECK(notice.after(report(100, 1)).empty() == false);
  CHECK(notice.after(report(110, -1, 0)).empty());
  CHECK(notice.after(report(120, -1, 0)).empty());
  CHECK(notice.rank() == 1);
}
