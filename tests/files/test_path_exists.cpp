#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/byte_file.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

TEST_CASE("what is there is told from what is not") {
  const TemporaryFolder folder;
  const auto file = folder.write("file", "x");
  CHECK(path_exists(file));
  CHECK(path_exists(folder.path()));
  CHECK_FALSE(path_exists(folder / "none"));
  CHECK_FALSE(path_exists(file / "below a file"));
  std::filesystem::create_symlink(folder / "none", folder / "to nothing");
  CHECK_FALSE(path_exists(folder / "to nothing"));
}

TEST_CASE("a path of which the system cannot tell is refused, and named") {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder / "loop", folder / "loop");
  CHECK_THAT(message_of<UsageError>([&] { path_exists(folder / "loop"); }),
             Contains((folder / "loop").string()) && Contains("Name another path"));
  const std::string name(300, 'n');
  CHECK_THAT(message_of<UsageError>([&] { path_exists(folder / name); }), Contains(name));
}
