// Schedules and memory plans of drawn configurations are unchanged, by the hash of their dump.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "golden/draw_arguments.hpp"
#include "golden/dump_schedule.hpp"
#include "golden/golden_file.hpp"
#include "sanitized.hpp"
#include "tessera/base/environment.hpp"
#include "tessera/base/error.hpp"
#include "tessera/fit/fit.hpp"
#include "tessera/resolve/architecture.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr std::size_t kConfigurations = 315;

std::string dump_of(const DrawnArguments& drawn) {
  try {
    const Options options = parse_arguments(drawn.arguments);
    const RunShape shape = run_shape(options, {resolve_architecture(options.model), drawn.world, drawn.ranks_per_node});
    const PlannedRun run = plan_shape(shape);
    return dump_schedule(run.schedule, run.plan);
  } catch (const UsageError&) {
    return "";
  }
}

}  // namespace

TEST_CASE("schedules and memory plans are what they were") {
  std::vector<GoldenEntry> entries;
  std::vector<std::string> dumps;
  std::size_t refused = 0;
  for (std::size_t number = 0; number < kConfigurations; number += kSanitized ? 4 : 1) {
    const DrawnArguments drawn = ArgumentDraw(number).draw(number);
    const std::string dump = dump_of(drawn);
    refused += dump.empty();
    entries.push_back(
        {fmt::format("{:03} {}", number, drawn.text()), dump.empty() ? "refused" : hash_of(dump.data(), dump.size())});
    dumps.push_back(entries.back().key + "\n" + dump);
  }
  CHECK(refused < entries.size() / 20);
  const std::vector<std::size_t> wrong = check_golden("schedules.txt", entries, kSanitized);
  // To see what changed: TESSERA_DUMP=1 leaves all dumps, also those of an older build, for diff.
  const bool all = variable("TESSERA_DUMP") == "1";
  for (std::size_t i = 0; i < dumps.size(); ++i) {
    if (!all && std::ranges::find(wrong, i) == wrong.end()) continue;
    std::ofstream(output_folder() + "/schedule_" + entries[i].key.substr(0, 3) + ".txt") << dumps[i];
  }
  if (all || !wrong.empty()) WARN("dumps of what differs are in " << output_folder());
}
