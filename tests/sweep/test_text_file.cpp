#include "file_support.hpp"
#include "sweep/text_file.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/byte_file.hpp"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("A small file is its text, or nothing where there is none") {
  const TemporaryFolder folder;
  CHECK_FALSE(read_small_file(folder / "none"));
  CHECK(read_small_file(folder.write("empty", "")) == "");
  CHECK(read_small_file(folder.write("text", std::string("a\0\n", 3))) == std::string("a\0\n", 3));
  CHECK(size_of(folder / "text") == 3);
  CHECK(size_of(folder / "none") == 0);
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK_THROWS_AS(read_small_file(folder / "loop"), IoError);
  CHECK_THROWS_AS(read_small_file(folder.path()), IoError);
}

TEST_CASE("What a process added to its output is read, of much the end") {
  const TemporaryFolder folder;
  const auto file = folder.write("out", "before after");
  CHECK(text_behind(file, 7) == "after");
  CHECK(text_behind(file, 0) == "before after");
  CHECK(text_behind(file, 12).empty());
  CHECK(text_behind(folder / "none", 0).empty());
  constexpr std::size_t most = 64 << 10;
  folder.write("out", std::string(1000, 'a') + std::string(most - 1, 'b') + "c");
  CHECK((text_behind(file, 10) == std::string(most - 1, 'b') + "c"));
  CHECK(text_behind(file, 1000 + most - 2) == "bc");
}

TEST_CASE("A folder is made with those above it") {
  const TemporaryFolder folder;
  make_folder(folder / "a/b/c");
  CHECK(std::filesystem::is_directory(folder / "a/b/c"));
  make_folder(folder / "a/b/c");
  folder.write("file", "");
  CHECK_THROWS_WITH(make_folder(folder / "file/below"), Catch::Contains((folder / "file/below").string()));
}
