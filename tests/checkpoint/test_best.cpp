#include <limits>

#include "checkpoint_case.hpp"
#include "tessera/checkpoint/best.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

using Steps = std::set<std::int64_t>;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// A checkpoint of which only the manifest is there.
void write(const CheckpointFolder& folder, const Manifest& like, std::int64_t step, const NamedLosses& evaluation) {
  Manifest manifest = like;
  manifest.step = step;
  manifest.evaluation = evaluation;
  folder.begin(step);
  write_text_atomically(folder.beside(step) / std::string(kManifestName), manifest_text(manifest));
  folder.publish(step, step - 10);
}

}  // namespace

TEST_CASE("the best checkpoints are those of the lowest loss of the first set, the earlier of equal ones") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  const Manifest like = write_checkpoint(folder, 5, 1);
  write(folder, like, 10, {{"a", 3.0}, {"b", 1.0}});
  write(folder, like, 20, {{"a", 2.0}, {"b", 9.0}});
  write(folder, like, 30, {});  // was not evaluated
  write(folder, like, 40, {{"a", kNone}, {"b", 0.5}});
  write(folder, like, 50, {{"", 2.0}});
  write(folder, like, 60, {{"a", 2.5}});
  JudgedCheckpoints judged(folder);
  CHECK(judged.losses(60) == std::map<std::int64_t, double>{{10, 3.0}, {20, 2.0}, {50, 2.0}, {60, 2.5}});
  CHECK(judged.best(1, 60) == Steps{20});
  CHECK(judged.best(3, 60) == Steps{20, 50, 60});
  CHECK(judged.best(2, 40) == Steps{10, 20});
  CHECK(judged.best(9, 60).size() == 4);
  // The checkpoint that is being written replaces the one that was read; a folder that is gone does not count.
  judged.note(20, {{"a", 4.0}});
  CHECK(judged.best(1, 60) == Steps{50});
  CHECK(folder.prune(1, 0, 60, judged.best(1, 60)).empty());
  CHECK(folder.steps() == std::vector<std::int64_t>{50, 60});
  CHECK(judged.best(3, 60) == Steps{50, 60});
  write_file(folder.of_step(50) / std::string(kManifestName), "damaged");
  CHECK(JudgedCheckpoints(folder).best(3, 60) == Steps{60});
  CHECK(JudgedCheckpoints(folder).kept(3, 60) == Steps{60});
  // One on a file system that is away for a moment may be the best; when it is back, it is judged.
  std::filesystem::rename(folder.of_step(60), run / "elsewhere");
  std::filesystem::create_symlink(run / "gone", folder.of_step(60));
  JudgedCheckpoints later(folder);
  CHECK(later.best(3, 60).empty());
  CHECK(later.kept(3, 60) == Steps{60});
  std::filesystem::rename(run / "elsewhere", run / "gone");
  CHECK(later.best(3, 60) == Steps{60});
}
