#include "metrics_case.hpp"
#include "run/metrics_tables.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

OverlapRow step_row(std::int64_t step) {
  const auto s = static_cast<double>(step);
  return {step, {step % 3 - 1, 0.5 * s, 0.1}, {{s, s + 1, s + 2}, {10 * s, 20 * s, 30 * s}}};
}

}  // namespace

TEST_CASE("each kind of time has its least, middle and largest, a row a timed step") {
  const TemporaryFolder folder;
  {
    Hdf5File file = Hdf5File::create(folder / "overlap.h5");
    {
      RowTable<OverlapRow> tables = create_overlap(file.id(), {"compute", "gather"});
      tables.append({});
      tables.flush();
      tables.append({step_row(1), step_row(2)});
      tables.append({step_row(7)});
      tables.flush();
      OverlapRow wrong = step_row(8);
      wrong.times.pop_back();
      CHECK_THROWS_AS(tables.append({wrong}), InternalError);
    }
    file.close();
  }
  const Hdf5File file = Hdf5File::open(folder / "overlap.h5");
  const auto numbers = [&](const char* name) { return hdf5_read<double>(file.id(), std::string("overlap/") + name); };
  using Numbers = std::vector<double>;
  CHECK(hdf5_read<std::int64_t>(file.id(), "overlap/step") == std::vector<std::int64_t>{1, 2, 7});
  CHECK(hdf5_read<std::int64_t>(file.id(), "overlap/straggler") == std::vector<std::int64_t>{0, 1, 0});
  CHECK(numbers("behind_seconds") == Numbers{0.5, 1, 3.5});
  CHECK(numbers("compute/min") == Numbers{1, 2, 7});
  CHECK(numbers("compute/median") == Numbers{2, 3, 8});
  CHECK(numbers("compute/max") == Numbers{3, 4, 9});
  CHECK(numbers("gather/median") == Numbers{20, 40, 140});
}
