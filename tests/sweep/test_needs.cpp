#include "sweep/needs.hpp"
#include "sweep/sweep_case.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

TEST_CASE("A row's memory is planned, and what does not fit says so") {
  const SweepCase c;
  const auto rows = c.rows(
      "[plan]\nmemory = 20MB\n[sweep.row small]\n[sweep.row wide]\nmodel.width = 512\n"
      "[sweep.row split]\nmodel.width = 512\nranks = 8\nshard.strategy = zero3\n"
      "[sweep.row whole]\nmodel.width = 512\nranks = 8\nshard.strategy = ddp\n"
      "[sweep.row other]\nkind = command\ncommand = run\n");
  std::vector<RowNeeds> needs;
  for (const SweepRow& row : rows) needs.push_back(needs_of(row, Site::elsewhere, 1));
  CHECK(needs[0].misfit.empty());
  CHECK((needs[0].bytes > 0 && needs[0].bytes < 20'000'000));
  CHECK(needs[1].bytes > 20'000'000);
  CHECK_THAT(needs[1].misfit, Contains("plan.memory = 20.0 MB: needs"));
  CHECK(needs[2].bytes < needs[3].bytes);
  CHECK(needs[3].device == "cpu");
  CHECK((needs[4].bytes == 0 && needs[4].device == "-" && needs[4].misfit.empty() && needs[4].missing.empty()));
}

TEST_CASE("Ranks share the memory of the machine that they run on") {
  const SweepCase c;
  const SweepRow row = c.rows("[sweep.row a]\n").at(0);
  CHECK(needs_of(row, Site::here, 1).misfit.empty());
  const RowNeeds crowded = needs_of(row, Site::here, 1 << 20);
  CHECK_THAT(crowded.misfit, Contains("of usable memory for each of 1048576 ranks"));
  CHECK(needs_of(row, Site::elsewhere, 1 << 20).misfit.empty());
}

TEST_CASE("A row for a GPU is skipped by a build without one, and planned elsewhere") {
  const SweepCase c;
  const SweepRow row = c.rows("[sweep.row a]\nrun.device = cuda\n").at(0);
  CHECK_THAT(needs_of(row, Site::here, 1).missing, Contains("needs a GPU: "));
  const RowNeeds planned = needs_of(row, Site::elsewhere, 1);
  CHECK(planned.missing.empty());
  CHECK(planned.device == "cuda");
  CHECK(planned.bytes > 0);
}
