#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "tessera/telemetry/overlap.hpp"

using namespace tessera;

namespace {

/// A rank that computes, reads and waits for so many seconds.
OverlapTimes rank(double compute, double data, double wait) {
  OverlapTimes times;
  times.seconds[static_cast<std::size_t>(OverlapKind::compute)] = compute;
  times.seconds[static_cast<std::size_t>(OverlapKind::data)] = data;
  times.seconds[static_cast<std::size_t>(OverlapKind::exposed_gather)] = wait / 2;
  times.seconds[static_cast<std::size_t>(OverlapKind::exposed_all_reduce)] = wait / 2;
  return times;
}

}  // namespace

TEST_CASE("each kind of time is its own sum of categories") {
  const auto names = overlap_names();
  CHECK(names.size() == kOverlapKinds);
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == kOverlapKinds);
  StepTimeTotals totals;
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    totals.nanoseconds[i] = std::int64_t{1} << i;           // data, forward, recompute, backward, optimizer, exposed...
    totals.operations[i] = (std::int64_t{1} << i) * 1'000;  // hidden or not
  }
  const OverlapTimes times = overlap_of(totals);
  const std::array<double, kOverlapKinds> nanoseconds{2 + 4 + 8 + 16, 1, 32e3, 64e3, 128e3, 256e3, 32, 64, 128, 256};
  for (std::size_t i = 0; i < kOverlapKinds; ++i) {
    INFO(names[i]);
    CHECK(times.seconds[i] == Approx(1e-9 * nanoseconds[i]));
  }
  CHECK(times.own_work() == Approx(287e-9));  // waits for the rank's own host are not waits for other ranks
  CHECK(times.exposed_wait() == Approx(224e-9));
}

TEST_CASE("a spread is the least, the middle and the largest") {
  const Spread odd = spread_of({5, 1, 3});
  CHECK((odd.minimum == 1 && odd.median == 3 && odd.maximum == 5));
  CHECK(spread_of({4, 1, 2, 8}).median == 3);
  CHECK(spread_of({7}).median == 7);
}

TEST_CASE("the straggler is the rank that works longest and waits least") {
  const std::vector<OverlapTimes> ranks{rank(1.0, 0, 0.6), rank(1.1, 0, 0.5), rank(1.5, 0, 0.1), rank(1.0, 0, 0.6)};
  const Straggler found = find_straggler(ranks);
  CHECK(found.rank == 2);
  CHECK(found.behind_seconds == Approx(0.5));  // the median of 1.0, 1.0 and 1.1 is 1.0
  CHECK(found.behind_share == Approx(0.5 / 1.6));
}

TEST_CASE("a rank that reads its data slowly holds the others up as one that computes slowly does") {
  CHECK(find_straggler(std::vector{rank(1.0, 0.5, 0.1), rank(1.0, 0.1, 0.5)}).rank == 0);
}

TEST_CASE("a rank that waits longest is a victim") {
  // Rank 1's step is the longest of all because it waits; rank 0 is the cause.
  CHECK(find_straggler(std::vector{rank(1.4, 0, 0.1), rank(1.0, 0, 0.9)}).rank == 0);
  // Most work, but another waits even less: nobody waits for this one alone.
  CHECK(find_straggler(std::vector{rank(1.4, 0, 0.3), rank(1.0, 0, 0.2)}).rank == -1);
}

TEST_CASE("no rank is named where none stands out") {
  CHECK(find_straggler({}).rank == -1);
  CHECK(find_straggler(std::vector{rank(9, 9, 0)}).rank == -1);
  CHECK(find_straggler(std::vector{rank(1, 0, 0.1), rank(1, 0, 0.1)}).rank == -1);
  CHECK(find_straggler(std::vector{rank(1.09, 0, 0.11), rank(1, 0, 0.2)}).rank == -1);  // 7% of its time
  CHECK(find_straggler(std::vector{rank(1.2, 0, 0), rank(1, 0, 0.2)}).rank == 0);
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  CHECK(find_straggler(std::vector{rank(unknown, 0, 0), rank(1, 0, 0)}).rank == -1);
  CHECK(find_straggler(std::vector{rank(0, 0, 0), rank(0, 0, 0)}).rank == -1);
}
