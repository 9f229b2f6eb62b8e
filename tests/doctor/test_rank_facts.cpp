#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "temporary_folder.hpp"
#include "tessera/doctor/rank_facts.hpp"

using namespace tessera;
using tessera::testing::TemporaryFolder;
namespace fs = std::filesystem;

TEST_CASE("Facts are the same after they were sent") {
  RankFacts facts;
  facts.host = "node \"1\"\n", facts.cores = {3, 7}, facts.quota = 1.5, facts.lockable = -1,
  facts.fabric = {"mlx5_0", "mlx5_1"};
  facts.gpu.identity = "GPU-2f", facts.gpu.full_clock = 1.98e9, facts.place.sees_mark = false,
  facts.time = 1764300000.25;
  const RankFacts read = facts_of(facts_text(facts));
  CHECK(facts_text(read) == facts_text(facts));
  CHECK(read.cores == facts.cores);
  CHECK(read.time == facts.time);
  CHECK(!read.place.sees_mark);
}

TEST_CASE("Only ports that are active count") {
  const TemporaryFolder root;
  for (const auto& [device, state] :
       {std::pair("mlx5_1", "4: ACTIVE"), {"mlx5_0", "4: ACTIVE"}, {"mlx5_2", "1: DOWN"}}) {
    const fs::path port = root.path() / "sys/class/infiniband" / device / "ports/1";
    fs::create_directories(port);
    std::ofstream(port / "state") << state << "\n";
  }
  CHECK(active_fabric(root.path()) == std::vector<std::string>{"mlx5_0", "mlx5_1"});
  CHECK(active_fabric(root.path() / "nothing").empty());
}

TEST_CASE("A run folder that is not there yet is judged by the one above it, and nothing is left there") {
  const TemporaryFolder root;
  const PlaceFacts place = place_facts(root.path() / "runs" / "a" / "b", true);
  CHECK(place.path == root.path().string());
  CHECK(place.error.empty());
  CHECK((place.renames && place.has_locks && place.sees_mark));
  CHECK(place.free_bytes > 0);
  CHECK(fs::is_empty(root.path()));
  CHECK(place_facts("/proc/runs", true).error == "No such file or directory");
  CHECK(place_facts("/proc/runs", false).error.empty());
}
