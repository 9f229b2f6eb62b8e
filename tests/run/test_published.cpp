#include <catch2/catch.hpp>

#include "file_support.hpp"
#include "metrics_case.hpp"
#include "tessera/run/folder.hpp"
#include "tessera/run/published.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

std::string line_of(std::int64_t step) {
  return json_line(std::vector<JsonField>{{"step", step}, {kCheckpointKey, std::int64_t{100}}}) + "\n";
}

}  // namespace

TEST_CASE("each file of a run tells of its checkpoints, whichever are lost") {
  const TemporaryFolder folder;
  const auto step = [&] { return published_checkpoint(folder.path()).value_or(-1); };
  CHECK_FALSE(published_checkpoint(folder / "missing"));
  CHECK(step() == -1);
  RunStatus status;
  status.state = RunState::stopped, status.step = 7, status.code = 75;
  status.message = "before step 8 of 9 was finished, so that nothing was written (SIGTERM)";
  write_file(folder / "status.json", status.text());
  write_file(folder / "log.jsonl", "{\"step\":3,\"loss\":2.5}\n");
  CHECK(step() == -1);
  status.checkpoint = 7;
  write_file(folder / "status.json", status.text());
  CHECK(step() == 7);
  IoThread io;
  for (const std::int64_t last : {20, 30}) {
    MetricsFile metrics(io, folder.path(), layout());
    metrics.append(kSteps, row(last));
    metrics.append(kCheckpoints, {{static_cast<double>(last)}});
  }
  { MetricsFile begun(io, folder.path(), layout()); }
  CHECK(step() == 30);
  write_file(folder / "metrics.1.h5", "not HDF5");
  CHECK(step() == 20);
  write_file(folder / "log.jsonl", line_of(50) + "no JSON, " + kCheckpointKey + "\n" + line_of(40) + "{\"step\":41}\n" +
                                       line_of(60).substr(0, 20));
  CHECK(step() == 40);
}
