#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/hdf5.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/files/table_file.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

Table some_table() {
  return {"runs",
          "Three runs.",
          {{"seconds", "s", std::vector<double>{0.5, 1.25, -3.0}},
           {"bytes", "B", std::vector<std::int64_t>{1, 0, std::int64_t{1} << 60}},
           {"name", "", std::vector<std::string>{"a", "", "gr\xc3\xbc\xc3\x9f"}}}};
}

}  // namespace

TEST_CASE("a table file holds each column with its unit, and where the results come from") {
  const TemporaryFolder folder;
  const auto path = folder / "bench.h5";
  {
    TableFile file(path);
    CHECK_FALSE(std::filesystem::exists(path));
    file.write({some_table(), {"empty", "No rows.", {{"x", "1", std::vector<double>{}}}}}, {{"run.seed", "7"}},
               {{"version", "test"}});
  }
  const Hdf5File file = Hdf5File::open(path);
  CHECK(hdf5_read_attribute<std::string>(file.id(), "format") == "tessera bench");
  CHECK(hdf5_read_attribute<std::int64_t>(file.id(), "format_version") == 1);
  const auto open = [&](const std::string& name) { return Hdf5Group(H5Gopen2(file.id(), name.c_str(), H5P_DEFAULT)); };
  const Hdf5Group runs = open("runs");
  CHECK(hdf5_read_attribute<std::string>(runs.id(), "about") == "Three runs.");
  CHECK(hdf5_read<double>(runs.id(), "seconds") == std::get<0>(some_table().columns[0].values));
  CHECK(hdf5_read<std::int64_t>(runs.id(), "bytes") == std::get<1>(some_table().columns[1].values));
  CHECK(hdf5_read_strings(runs.id(), "name") == std::get<2>(some_table().columns[2].values));
  const Hdf5Dataset seconds(H5Dopen2(runs.id(), "seconds", H5P_DEFAULT));
  CHECK(hdf5_read_attribute<std::string>(seconds.id(), "unit") == "s");
  const Hdf5Dataset names(H5Dopen2(runs.id(), "name", H5P_DEFAULT));
  CHECK(H5Aexists(names.id(), "unit") == 0);
  CHECK(hdf5_read<double>(open("empty").id(), "x").empty());
  CHECK(hdf5_read_attribute<std::string>(open("config").id(), "run.seed") == "7");
  CHECK(hdf5_read_attribute<std::string>(open("provenance").id(), "version") == "test");
}

TEST_CASE("a table file that is not finished leaves nothing, and takes no other file's place") {
  const TemporaryFolder folder;
  const auto path = folder.write("there", "mine");
  CHECK_THAT(message_of<UsageError>([&] { TableFile file(path); }), Contains(path.string() + " exists"));
  CHECK(read_file(path) == "mine");
  CHECK_THROWS_AS(TableFile(folder / "none/bench.h5"), IoError);
  {
    TableFile file(folder / "bench.h5");
    Table uneven = some_table();
    std::get<0>(uneven.columns[0].values).pop_back();
    CHECK_THAT(message_of<InternalError>([&] { file.write({uneven}, {}, {}); }), Contains("bytes of table runs"));
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}
