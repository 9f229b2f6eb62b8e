#include <unistd.h>

#include <thread>

#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/durable_file.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

TEST_CASE("a reader never sees a part of a text that is replaced") {
  const TemporaryFolder folder;
  const auto path = folder / "config.ini";
  const std::string a(30000, 'a'), b(70000, 'b');
  write_text_atomically(path, a);
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) write_text_atomically(path, i % 2 ? a : b);
  });
  for (int i = 0; i < 300; ++i) {
    const std::string text = read_file(path);
    if (text != a && text != b) FAIL("a part: " << text.size() << " bytes");
  }
  writer.join();
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);  // no other file is left
  CHECK_THROWS_AS(write_text_atomically(folder / "missing/x", a), IoError);
  std::filesystem::create_directory(folder / "taken");
  CHECK_THROWS_AS(write_text_atomically(folder / "taken", a), IoError);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("where nothing can be written beside a file, its text is replaced in place") {
  const TemporaryFolder folder;
  const auto path = folder.write("status", std::string(1000, 'x'));
  const auto beside = folder / ("status." + std::to_string(::getpid()) + ".tmp");
  std::filesystem::create_directory(beside);
  CHECK_THROWS_AS(write_text_atomically(path, "new"), IoError);
  CHECK(read_file(path) == std::string(1000, 'x'));
  replace_text(path, "shorter");
  CHECK(read_file(path) == "shorter");
  replace_text(path, "longer than before", false);
  CHECK(read_file(path) == "longer than before");
  std::filesystem::remove(path);
  // The first trouble is reported, not that there is nothing to write over.
  CHECK_THAT(message_of<IoError>([&] { replace_text(path, "x"); }), Contains("cannot create " + beside.string()));
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a file takes another one's place, renamed or copied") {
  const TemporaryFolder folder;
  const auto a = folder.write("a", "first"), b = folder.write("b", "second");
  copy_durably(a, b);
  CHECK(read_file(b) == "first");
  CHECK(read_file(a) == "first");
  folder.write("b", "third");
  rename_durably(b, a);
  CHECK(read_file(a) == "third");
  CHECK_FALSE(std::filesystem::exists(b));
  CHECK_THAT(message_of<IoError>([&] { rename_durably(b, a); }), Contains(b.string()));
  CHECK_THAT(message_of<IoError>([&] { copy_durably(b, a); }), Contains(b.string()));
  std::filesystem::create_symlink("/dev/full", a.string() + ".copy.tmp");
  CHECK_THAT(message_of<IoError>([&] { copy_durably(folder.write("c", "fourth"), a); }), Contains("No space left"));
  std::filesystem::remove(folder / "c");
  CHECK(read_file(a) == "third");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  CHECK_THROWS_AS(sync_folder(folder / "none"), IoError);
  CHECK_THROWS_AS(sync_file(folder / "none"), IoError);
}
