#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "tessera/base/environment.hpp"
#include "tessera/telemetry/provenance.hpp"

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

TEST_CASE("a shell reads a quoted argument back as it was") {
  for (const std::string argument : {"plain", "--a.b=1,2", "", " ", "two words", "it's", "'", "''", "$HOME", "`id`",
                                     "a\\b", "\"x\"", "*", "~", "a;b", "#", "!", "new\nline", "gr\xc3\xbc\xc3\x9f"}) {
    CAPTURE(argument);
    std::FILE* const shell = ::popen(("printf %s. " + shell_quoted(argument)).c_str(), "r");
    REQUIRE(shell != nullptr);
    std::string read;
    for (int c = std::fgetc(shell); c != EOF; c = std::fgetc(shell)) read += static_cast<char>(c);
    CHECK(::pclose(shell) == 0);
    CHECK(read == argument + ".");
  }
}
