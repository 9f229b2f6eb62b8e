// Faults at random operations of random runs, on ranks as threads: every rank ends in time and says why, and a second
// start goes on from the last checkpoint to the bits that an undisturbed run has.
//
//   TESSERA_FAULT_SEED=N TESSERA_FAULT_CASES=M    cases N to N + M - 1: a failing case names its number (threads.sh)

#include <condition_variable>
#include <cstdio>
#include <cstdlib>

#include "faults/fault_kinds.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr int kDeadline = kSanitized ? 120 : 60;  ///< seconds of a start; less than the run.timeout of other cases

/// Ends the test where a run does not end.
class Deadline {
 public:
  explicit Deadline(const std::string& what)
      : thread_([this, what] {
          std::unique_lock lock(mutex_);
          if (over_.wait_for(lock, std::chrono::seconds(kDeadline), [this] { return is_over_; })) return;
          std::fprintf(stderr, "HANGS for more than %d s: %s\n", kDeadline, what.c_str());
          std::_Exit(1);
        }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

FaultyOutcome play(const Case& c, const std::filesystem::path& folder, const Strike& strike) {
  const Deadline deadline(c.drawn.text + "\n" + c.where);
  return FaultyRun(c.drawn, folder, strike).play();
}

/// Returns the ranks that a text names as "rank N", at the start of its lines or anywhere.
std::set<std::int64_t> named_ranks(const std::string& text, bool at_starts) {
  std::set<std::int64_t> ranks;
  for (std::size_t at = text.find("rank "); at != std::string::npos; at = text.find("rank ", at + 1)) {
    if (at_starts && at > 0 && text[at - 1] != '\n') continue;
    if (std::isdigit(static_cast<unsigned char>(text[at + 5])) != 0) ranks.insert(std::stoll(text.substr(at + 5)));
  }
  return ranks;
}

/// Requires that the report of the flight recorders names the silent rank, or an end of the cut connection. Where ranks
/// gave up outside of operations, the message of one does. (The one next to it should be the first and only one, by 2%
/// of the timeout, which is little here.)
void require_named(const FaultyOutcome& hit, const std::set<std::int64_t>& guilty) {
  const auto is_right = [&](const std::set<std::int64_t>& named) {
    return !named.empty() && std::ranges::includes(guilty, named);
  };
  std::string said;
  bool is_named = false;
  for (const RankEnd& end : hit.ends) {
    if (end.kind != RankEnd::Kind::own_error) continue;
    said += end.said + "\n";
    is_named = is_named || is_right(named_ranks(end.said, false));
  }
  CAPTURE(said);
  const bool is_lost = hit.cut_from >= 0 && hit.verdict.find("a message was lost") != std::string::npos;
  const std::set<std::int64_t> reported = named_ranks(hit.verdict, true);
  const bool is_reported = std::ranges::any_of(reported, [&](std::int64_t rank) { return guilty.contains(rank); });
  if (hit.verdict.find("never arrived") != std::string::npos) is_named = is_reported;
  is_named = is_named || is_reported;
  REQUIRE((is_named || is_lost));
}

void require_shown(const FaultKind& kind, const Case& c, const FaultyOutcome& hit) {
  std::set<std::int64_t> failed;
  for (std::size_t rank = 0; rank < hit.ends.size(); ++rank) {
    const RankEnd& end = hit.ends[rank];
    CAPTURE(rank, end.said);
    if (end.kind == RankEnd::Kind::own_error) failed.insert(static_cast<std::int64_t>(rank));
    REQUIRE(end.code == kind.code);
    REQUIRE((end.kind == RankEnd::Kind::finished) == (kind.shows == Shows::nowhere));
  }
  if (kind.shows == Shows::nowhere) return;
  REQUIRE_FALSE(failed.empty());
  for (const RankEnd& end : hit.ends) {
    if (end.kind != RankEnd::Kind::peer_error) continue;
    CAPTURE(end.said);
    const std::set<std::int64_t> named = named_ranks(end.said.substr(0, end.said.find(':')), true);
    REQUIRE(named.size() == 1);
    REQUIRE(failed.contains(*named.begin()));
  }
  if (kind.shows == Shows::on_its_rank) REQUIRE(failed == std::set{c.strike.rank});
  if (kind.shows == Shows::to_peers) {
    std::set<std::int64_t> guilty{c.strike.rank};
    if (hit.cut_from >= 0) guilty.insert(hit.cut_from);
    REQUIRE((hit.cut_from >= 0 || !failed.contains(c.strike.rank)));
    require_named(hit, guilty);
  }
  if (kind.shows == Shows::on_a_writer) {
    for (const std::int64_t rank : failed)
      REQUIRE_THAT(hit.ends[static_cast<std::size_t>(rank)].said, Catch::Contains("/checkpoints"));
  }
  if (kind.shows == Shows::on_all) {
    const bool is_located = !c.flip.is_copy || c.drawn.world > 2;  // of two copies nobody knows which is right
    for (const RankEnd& end : hit.ends)
      REQUIRE_THAT(end.said, Catch::Contains(c.flip.what + (is_located ? fmt::format(" rank {} (", c.flip.rank)
                                                                       : std::string(" ranks 0 ("))));
  }
}

/// Requires that a second start loses nothing that a checkpoint held, and ends as the undisturbed run did.
void require_resumed(const FaultyOutcome& hit, const FaultyOutcome& again, const FaultyOutcome& undisturbed) {
  for (const RankEnd& end : again.ends) {
    CAPTURE(end.said);
    REQUIRE(end.kind == RankEnd::Kind::finished);
  }
  for (const std::string& line : again.said) {
    CAPTURE(line);
    REQUIRE(line.find("passed over") == std::string::npos);  // what is published is complete
  }
  CAPTURE(hit.saved, hit.saving, again.first_step);
  REQUIRE(again.first_step > hit.saved);
  REQUIRE(again.first_step <= hit.saving + 1);
  for (const auto* const part : {&hit, &again})
    for (const auto& [step, loss] : part->losses) REQUIRE(loss == undisturbed.losses.at(step));
  require_same_state(again, undisturbed);
}

/// What all cases add up to.
struct Tally {
  std::map<std::string, int> tried;
  std::int64_t restarts = 0, lost = 0, flips_found = 0;
};

/// Plays a case: undisturbed, hit, and once more.
void try_case(std::uint64_t seed, Tally& tally) {
  const FaultKind& kind = kKinds[seed % kKinds.size()];
  Case c;
  c.drawn = draw_run(seed, kind);
  c.where = fmt::format("TESSERA_FAULT_SEED={} TESSERA_FAULT_CASES=1: {}", seed, kind.name);
  const RunPlace whole, broken;
  file_spy::start();
  c.undisturbed = play(c, whole.path(), {});
  c.calls = file_spy::stop();
  std::erase_if(c.calls, [](const std::string& line) { return line.find("/checkpoints") == std::string::npos; });
  Draw d(seed + 99);
  kind.plant(c, d);
  INFO(c.drawn.text << "\n" << c.where);
  for (const RankEnd& end : c.undisturbed.ends) REQUIRE(end.said.empty());
  file_spy::start();
  c.begin();
  const FaultyOutcome hit = play(c, broken.path(), c.strike);
  file_spy::stop();
  CAPTURE(hit.verdict, c.flip.text);
  ++tally.tried[kind.name];
  require_shown(kind, c, hit);
  if (kind.shows == Shows::on_all) ++tally.flips_found;
  if (kind.shows == Shows::nowhere) {
    REQUIRE(hit.saved == c.undisturbed.saved);
    return require_same_state(hit, c.undisturbed);
  }
  c.drawn.options.checkpoint.resume = "auto";
  const FaultyOutcome again = play(c, broken.path(), {});
  ++tally.restarts;
  tally.lost += std::max<std::int64_t>(0, hit.saved + 1 - again.first_step);
  require_resumed(hit, again, c.undisturbed);
}

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

}  // namespace

TEST_CASE("a fault at any operation ends all ranks in time, names the rank, and costs no step before the checkpoint") {
  const std::uint64_t first = number_from("TESSERA_FAULT_SEED", 1);
  const std::uint64_t cases = number_from("TESSERA_FAULT_CASES", kSanitized ? 24 : 64);
  std::printf("faults from TESSERA_FAULT_SEED=%llu\n", static_cast<unsigned long long>(first));
  Tally tally;
  for (std::uint64_t seed = first; seed < first + cases; ++seed) try_case(seed, tally);
  std::string counts;
  for (const auto& [name, count] : tally.tried) counts += fmt::format(", {} {}", count, name);
  fmt::print(
      "long: {} faults on threads{}; 0 hangs, {} starts after them, {} steps lost beyond a checkpoint, 0 bits "
      "changed, {} of {} bits found\n",
      cases, counts, tally.restarts, tally.lost, tally.flips_found, tally.tried["flipped bit"]);
}

TEST_CASE("what once went wrong") {
  Tally tally;
  for (const std::uint64_t seed : {
           1048,  // a rank whose communication threw took it for another rank's failure
       })
    try_case(seed, tally);
}
