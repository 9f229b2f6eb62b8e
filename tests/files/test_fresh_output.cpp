#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/fresh_output.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

std::int64_t entries_of(const fs::path& folder) { return std::distance(fs::directory_iterator(folder), {}); }

}  // namespace

TEST_CASE("a fresh folder has its name when it is finished, and is gone when it is not") {
  const TemporaryFolder folder;
  {
    const FreshFolder unfinished(folder / "out");
    write_file(unfinished.beside() / "file", "x");
    CHECK_FALSE(fs::exists(folder / "out"));
  }
  CHECK(entries_of(folder.path()) == 0);
  {
    FreshFolder one(folder / "out/"), other(folder / "out");
    CHECK(one.beside() != other.beside());
    write_file(one.beside() / "file", "x");
    one.finish();
    // It was there first, so the other one finds its name taken.
    CHECK_THAT(message_of<IoError>([&] { other.finish(); }), Contains("cannot rename"));
  }
  CHECK(read_file(folder / "out/file") == "x");
  CHECK(entries_of(folder.path()) == 1);
}

TEST_CASE("a fresh folder takes a missing or an empty place, nothing else") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "empty");
  FreshFolder(folder / "empty").finish();
  FreshFolder(folder / "a/b/c").finish();
  CHECK(fs::is_directory(folder / "a/b/c"));
  folder.write("used/file", "x");
  folder.write("file", "x");
  fs::create_directory_symlink("empty", folder / "link");
  fs::create_symlink("nowhere", folder / "dangling");
  for (const char* taken : {"used", "file", "link", "dangling"}) {
    CAPTURE(taken);
    CHECK_THAT(message_of<UsageError>([&] { FreshFolder fresh(folder / taken); }),
               Contains((folder / taken).string() + " exists"));
  }
  CHECK_THAT(message_of<UsageError>([&] { FreshFolder fresh(folder / std::string(300, 'x')); }),
             Contains("cannot be used"));
  CHECK_THROWS_AS(FreshFolder(folder / "file/below/deeper"), std::exception);
}

TEST_CASE("a fresh file has its name when it is finished, and is gone when it is not") {
  const TemporaryFolder folder;
  {
    const FreshFile unfinished(folder / "out");
    SequentialFile(unfinished.beside()).append("text", 4);
  }
  CHECK(entries_of(folder.path()) == 0);
  FreshFile fresh(folder / "out");
  SequentialFile file(fresh.beside());
  file.append("some ", 5);
  file.append("", 0);
  file.append("text", 4);
  CHECK_FALSE(fs::exists(folder / "out"));
  file.finish();
  fresh.finish();
  CHECK(read_file(folder / "out") == "some text");
  CHECK(entries_of(folder.path()) == 1);
  CHECK_THAT(message_of<UsageError>([&] { FreshFile again(folder / "out"); }), Contains("Name a file that does not"));
  CHECK_THAT(message_of<IoError>([&] { SequentialFile again(folder / "out"); }), Contains("File exists"));
  FreshFile unwritten(folder / "other");
  CHECK_THROWS_AS(unwritten.finish(), IoError);
}

TEST_CASE("a replaced file is the old one until the new one is finished") {
  const TemporaryFolder folder;
  const fs::path old = folder.write("out", "old");
  folder.write("out.tmp", "of a process that was killed");
  {
    const ReplacedFile unfinished(old);
    SequentialFile(unfinished.beside()).append("part", 4);
    CHECK(read_file(old) == "old");
  }
  CHECK(entries_of(folder.path()) == 1);
  ReplacedFile file(old);
  SequentialFile(file.beside()).append("new", 3);
  file.finish();
  CHECK(read_file(old) == "new");
  CHECK(entries_of(folder.path()) == 1);
}
