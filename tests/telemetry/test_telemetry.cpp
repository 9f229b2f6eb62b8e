#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>
#include <thread>

#include "tessera/backend/region.hpp"
#include "tessera/telemetry/process_memory.hpp"
#include "tessera/telemetry/provenance.hpp"
#include "tessera/telemetry/step_times.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

namespace {

std::string value_of(const Facts& facts, const std::string& name) {
  for (const auto& [key, value] : facts) {
    if (key == name) return value;
  }
  return "(none)";
}

}  // namespace

TEST_CASE("step times add up over threads and start again after take") {
  StepTimes times;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) times.add(TimeCategory::backward, 3);
      times.add(TimeCategory::exposed_gather, 1'000'000'000);
    });
  }
  for (auto& thread : threads) thread.join();
  times.add(TimeCategory::exposed_other, 500'000'000);
  const StepTimeTotals totals = times.take();
  CHECK(totals.seconds(TimeCategory::backward) == Approx(120000e-9));
  CHECK(totals.exposed_seconds() == Approx(4.0));
  CHECK(totals.all_seconds().size() == time_category_names().size());
  CHECK(totals.all_seconds().back() == Approx(0.5));
  CHECK(times.take().nanoseconds == StepTimeTotals{}.nanoseconds);
  { const TimeScope scope(times, TimeCategory::data); }
  CHECK(times.take().seconds(TimeCategory::data) > 0);
}

TEST_CASE("resident bytes are those of the pages that were touched") {
  constexpr std::size_t page = 4096;
  const Region region(64 * page);  // too small for huge pages
  CHECK(resident_bytes(region.bytes()) == 0);
  for (const std::size_t touched : {3, 4, 40}) region.data()[touched * page + 17] = std::byte{1};
  CHECK(resident_bytes(region.bytes()) == 3 * page);
  // A range that begins and ends inside pages counts its own bytes of them.
  CHECK(resident_bytes(region.bytes().subspan(3 * page + 100, 2 * page)) == 2 * page - 100);
  CHECK(resident_bytes(region.bytes().subspan(40 * page + 5, 7)) == 7);
  CHECK(resident_bytes(region.bytes().subspan(41 * page, page)) == 0);
  CHECK(resident_bytes({}) == 0);
  const auto* const nowhere = reinterpret_cast<const std::byte*>(page);  // not mapped
  CHECK(resident_bytes({nowhere, page}) == -1);
}

TEST_CASE("time categories have names of their own") {
  const auto names = time_category_names();
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == kTimeCategories);
  CHECK(names.front() == "data");
  for (const auto& name : names) CHECK(name != "?");
}

TEST_CASE("provenance says what was built and how it was started") {
  ::setenv("SLURM_JOB_ID", "4711", 1);
  ::unsetenv("SLURM_RESTART_COUNT");
  RunFacts run;
  run.command_line = {"tessera", "train", "my input.ini", "--run.name=it's"};
  run.start_unix_time = 1700000000;
  run.hosts = {"node1", "node1", "node2"};
  run.libraries = {{"mpi", "Open MPI 4.1.4"}, {"hdf5", "1.10.8"}};
  const Facts facts = provenance(run);
  CHECK(value_of(facts, "version") == "0.1.0");
  CHECK(value_of(facts, "git_revision").size() >= 7);
  CHECK_THAT(value_of(facts, "compiler"), Contains("GCC") || Contains("Clang"));
  CHECK(value_of(facts, "command_line") == "tessera train 'my input.ini' '--run.name=it'\\''s'");
  CHECK(value_of(facts, "start_time") == "2023-11-14T22:13:20Z");
  CHECK(value_of(facts, "hosts") == "node1 x2, node2");
  CHECK(value_of(facts, "mpi_version") == "Open MPI 4.1.4");
  CHECK(value_of(facts, "slurm_job_id") == "4711");
  CHECK(value_of(facts, "slurm_restart_count") == "(none)");
  CHECK_FALSE(value_of(facts, "cpu").empty());
  const std::string isa = cpu_isa();
  CHECK((isa == "avx512" || isa == "avx2" || isa == "baseline"));
  run.hosts.clear();
  CHECK(value_of(provenance(run), "hosts") == host_name());
  CHECK(host_name() != "");
  std::set<std::string> names;
  for (const auto& fact : facts) names.insert(fact.first);
  CHECK(names.size() == facts.size());
  CHECK(shell_quoted("") == "''");
  CHECK(shell_quoted("--a.b=1,2") == "--a.b=1,2");
  ::unsetenv("SLURM_JOB_ID");
}
