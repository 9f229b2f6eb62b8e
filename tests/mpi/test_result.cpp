// bench.output. It needs a world: the provenance has the hosts of all ranks.

#include <filesystem>

#include "bench/result.hpp"
#include "mpi_world.hpp"
#include "printed_to.hpp"
#include "temporary_folder.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/hdf5_data.hpp"

using namespace tessera;
using test::printed_to;
using test::world;
using testing::TemporaryFolder;

TEST_CASE("a bench's tables are printed and written by rank 0, with options and provenance") {
  const TemporaryFolder folder;  // each rank's own: only rank 0 may write into its own
  Options options;
  options.bench.output = (folder / "out.h5").string();
  const Invocation invocation{{"tessera", "bench", "comm"}, {}, 0};
  const BenchResult result{"some text",
                           {{"rate", "how fast", {{"seconds", "s", std::vector<double>{0.5, 1.5}}}}},
                           {},
                           {"AVX-512", {{"onednn", "2.6.3"}}}};
  const std::string printed = printed_to(1, [&] { BenchOutput(world(), options, invocation).write(result); });
  const bool is_first = world().rank() == 0;
  REQUIRE_ALL((printed.find("some text") != std::string::npos) == is_first);
  REQUIRE_ALL(std::filesystem::exists(folder / "out.h5") == is_first);
  bool right = true, is_refused = true;
  if (is_first) {
    const Hdf5File file = Hdf5File::open(folder / "out.h5");
    right = hdf5_read<double>(file.id(), "rate/seconds") == std::vector<double>{0.5, 1.5};
    const Hdf5Group config = hdf5_open_group(file.id(), "config"), origin = hdf5_open_group(file.id(), "provenance");
    right = right && hdf5_read_attribute<std::string>(config.id(), "bench.output") == options.bench.output;
    right = right && hdf5_read_attribute<std::string>(origin.id(), "command_line") == "tessera bench comm";
    right = right && hdf5_read_attribute<std::string>(origin.id(), "kernels") == "AVX-512";
    right = right && hdf5_read_attribute<std::string>(origin.id(), "onednn_version") == "2.6.3";
    const std::string hosts = hdf5_read_attribute<std::string>(origin.id(), "hosts");
    right = right && (world().size() == 1 || hosts.find(fmt::format(" x{}", world().size())) != std::string::npos);
    is_refused = false;  // before anything is measured
    try {
      BenchOutput(world(), options, invocation);
    } catch (const UsageError&) {
      is_refused = true;
    }
  }
  REQUIRE_ALL(right);
  REQUIRE_ALL(is_refused);
}

TEST_CASE("without bench.output a bench only prints") {
  const Options options;
  const Invocation invocation;
  const std::string printed = printed_to(1, [&] {
    BenchOutput(world(), options, invocation).write({"some text", {}, {}, {}});
  });
  REQUIRE_ALL((printed == "some text\n") == (world().rank() == 0));
}
