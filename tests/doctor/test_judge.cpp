#include <catch2/catch.hpp>

#include "tessera/doctor/doctor.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;

/// Facts of ranks that nothing is wrong with: `machines` of `each`, with a GPU for each rank.
std::vector<RankFacts> healthy(int machines, int each) {
  std::vector<RankFacts> ranks;
  for (int rank = 0; rank < machines * each; ++rank) {
    const int local = rank % each;
    RankFacts facts;
    facts.host = "node" + std::to_string(rank / each);
    facts.launcher = "Open MPI", facts.mpi = "Open MPI v4.1.4, package: Debian";
    facts.nodes = machines, facts.machine_cores = 4 * each, facts.threads = 2;
    for (int core = 0; core < 4; ++core) facts.cores.push_back(4 * local + core);
    facts.memory = 64 * kGibibyte, facts.shared_memory = 32 * kGibibyte;
    facts.fabric = {"mlx5_0"};
    facts.time = 1e9 + 1e-3 * rank;
    facts.gpu.identity = "GPU-" + std::to_string(rank), facts.gpu.name = "NVIDIA H100, sm_90",
    facts.gpu.cores = facts.cores, facts.gpu.visible = each;
    facts.gpu.clock = facts.gpu.full_clock = 1.98e9;
    facts.place.path = "/scratch", facts.place.file_system = "Lustre", facts.place.is_shared = true;
    facts.place.free_bytes = 100 * kGibibyte, facts.place.inodes = -1;
    ranks.push_back(facts);
  }
  return ranks;
}

/// The texts of all findings that are as bad as this, or worse.
std::string bad(const std::vector<RankFacts>& ranks, Verdict least = Verdict::note) {
  std::string text;
  for (const Finding& finding : judge(ranks)) {
    if (finding.verdict < least) continue;
    CHECK(!finding.remedy.empty());
    text += finding_text(finding) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("Healthy ranks have a fine line for every subject, and nothing worse") {
  for (const int machines : {1, 3}) {
    const auto found = judge(healthy(machines, 4));
    CHECK(bad(healthy(machines, 4)).empty());
    CHECK(found.size() == (machines == 1 ? 6U : 8U));
    CHECK(worst(found) == nullptr);
    for (const Finding& finding : found) CHECK(!finding.says.empty());
  }
}

TEST_CASE("Each fault is found, with what helps, and nothing else is") {
  struct Case {
    void (*spoil)(std::vector<RankFacts>&);
    const char *subject, *says;
    Verdict verdict;
  };
  using Ranks = std::vector<RankFacts>;
  const std::vector<Case> cases = {
      {[](Ranks& r) {
         for (auto& one : r) one.nodes = 5;
       },
       "ranks", "3 of the job's 5 nodes", Verdict::warning},
      {[](Ranks& r) {
         r.pop_back(), r.back().cores = {8, 9, 10, 11, 12};
       },
       "ranks", "node1 has 3", Verdict::note},
      {[](Ranks& r) {
         for (auto& one : r) one.quota = 3.5;
       },
       "cores", "time of 3.5 cores", Verdict::note},
      {[](Ranks& r) {
         for (auto& one : r) one.threads = 5;
       },
       "cores", "20 threads share 16 cores", Verdict::note},
      {[](Ranks& r) {
         for (auto& one : r) one.cores = one.gpu.cores = {0, 1}, one.threads = 1;
       },
       "cores", "share 2 cores, and the machine has 16", Verdict::warning},
      {[](Ranks& r) {
         for (auto& one : r) one.cores = one.gpu.cores = {0, 1}, one.threads = 1, one.machine_cores = 2;
       },
       "cores", "share 2 cores, and the machine has 2", Verdict::note},
      {[](Ranks& r) {
         for (auto& one : r) one.memory = kGibibyte;
       },
       "memory", "for each rank", Verdict::warning},
      {[](Ranks& r) {
         for (auto& one : r) one.shared_memory = kGibibyte / 16;
       },
       "/dev/shm", "left there", Verdict::warning},
      {[](Ranks& r) {
         for (auto& one : r) one.lockable = 65536;
       },
       "locked", "may lock", Verdict::warning},
      {[](Ranks& r) { r[3].gpu.identity = "GPU-2", r[3].shares_gpu = true; }, "GPUs",
       "ranks 2 and 3 use the same GPU of node0", Verdict::warning},
      {[](Ranks& r) {
         for (auto& one : r) one.gpu.visible = 1;
       },
       "GPUs", "rank 0 on node0 sees 1 of the 4 GPUs", Verdict::warning},
      {[](Ranks& r) { r[6].gpu.visible = 2; }, "GPUs", "rank 6 on node1 sees 2 of the 4 GPUs", Verdict::warning},
      {[](Ranks& r) {
         r[5].gpu.cores = {0, 1};
       },
       "GPUs", "rank 5 on node1 is bound to cores of another socket", Verdict::warning},
      {[](Ranks& r) { r[1].gpu.slowed = "its temperature"; }, "clocks", "because of its temperature", Verdict::warning},
      {[](Ranks& r) { r[1].gpu.slowed = "its power limit"; }, "clocks", "because of its power limit", Verdict::note},
      {[](Ranks& r) { r[6].fabric.clear(); }, "network", "has []", Verdict::warning},
      {[](Ranks& r) {
         for (auto& one : r) one.fabric.clear();
       },
       "network", "through sockets", Verdict::note},
      {[](Ranks& r) {
         for (auto& one : r) one.network = "NCCL_IB_DISABLE=1";
       },
       "network", "although mlx5_0", Verdict::warning},
      {[](Ranks& r) {
         for (auto& one : r) one.fence_waits = false;
       },
       "MPI", "MPI_Init", Verdict::warning},
      {[](Ranks& r) {
         for (auto& one : r) one.copies_memory = false;
       },
       "MPI", "peer's memory", Verdict::warning},
      {[](Ranks& r) { r[0].place.error = "Read-only file system"; }, "run folder", "Read-only", Verdict::refused},
      {[](Ranks& r) {
         for (auto& one : r) one.place.is_shared = false;
         r[4].place.sees_mark = false;
       },
       "run folder", "on node1 is not the folder that rank 0 sees", Verdict::refused},
      {[](Ranks& r) { r[0].place.renames = false; }, "run folder", "cannot rename", Verdict::refused},
      {[](Ranks& r) { r[0].place.has_locks = false; }, "run folder", "no file locks", Verdict::note},
      {[](Ranks& r) { r[0].place.free_bytes = kGibibyte; }, "run folder", "left", Verdict::warning},
      {[](Ranks& r) { r[0].place.inodes = 10; }, "run folder", "10 more files", Verdict::warning},
      {[](Ranks& r) { r[7].time += 10; }, "time", "differ by 10", Verdict::warning},
      {[](Ranks& r) { r[7].time += 1; }, "time", "node0 is behind node1", Verdict::note}};
  for (const Case& one : cases) {
    CAPTURE(one.subject, one.says);
    std::vector<RankFacts> ranks = healthy(2, 4);
    one.spoil(ranks);
    CHECK_THAT(bad(ranks), Contains(one.says));
    bool is_right = true;
    Verdict worst_verdict = Verdict::fine;
    for (const Finding& finding : judge(ranks)) {
      is_right = is_right && (finding.verdict == Verdict::fine || finding.subject == one.subject);
      worst_verdict = std::max(worst_verdict, finding.verdict);
    }
    CHECK(is_right);
    CHECK(worst_verdict == one.verdict);
    CHECK((worst(judge(ranks)) != nullptr) == (one.verdict >= Verdict::warning));
  }
}

TEST_CASE("What only matters between machines is not told of one") {
  std::vector<RankFacts> ranks = healthy(1, 4);
  for (RankFacts& rank : ranks) rank.fence_waits = false, rank.fabric.clear(), rank.time = rank.cores.front();
  CHECK(bad(ranks).empty());
}

TEST_CASE("A fault of many ranks is told three times, and then counted") {
  std::vector<RankFacts> ranks = healthy(20, 4);
  for (RankFacts& rank : ranks) rank.gpu.slowed = "its temperature", rank.shared_memory = 0;
  const std::string text = bad(ranks);
  CHECK_THAT(text, Contains("rank 2 on node0") && !Contains("rank 3 on node0") && Contains("77 more like these"));
  CHECK_THAT(text, Contains("node10 has 0 B left there") && Contains("17 more like these"));
}
