#include <fcntl.h>
#include <unistd.h>

#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/byte_file.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

TEST_CASE("bytes are written and read at their places") {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "0123456789");
  {
    const FileDescriptor file = open_file(path, OpenFor::writing);
    write_at(file, path, 8, "abcd", 4);
    write_at(file, path, 1, "X", 1);
    CHECK(size_of_file(file, path) == 12);
    write_all(file, path, "YZ");  // where the file stands: positioned writes leave that alone
    reserve_space(file, path, 12);
    sync_file(file, path);
  }
  CHECK(read_file(path) == "YZ234567abcd");
  CHECK(size_of_file(path) == 12);
  const FileDescriptor file = open_file(path, OpenFor::reading);
  std::string out(5, '-');
  read_at(file, path, 7, out.data(), 5);
  CHECK(out == "7abcd");
  CHECK_THAT(message_of<IoError>([&] { read_at(file, path, 9, out.data(), 5); }),
             Contains(path.string()) && Contains("2 bytes are missing at byte 12"));
  CHECK_THAT(message_of<IoError>([&] { write_at(file, path, 0, "x", 1); }), Contains("cannot write " + path.string()));
}

TEST_CASE("what is missing is told from what cannot be read") {
  const TemporaryFolder folder;
  const auto reason = [](const std::filesystem::path& path) {
    try {
      size_of_file(open_file(path, OpenFor::reading), path);
    } catch (const UnreadableError&) {
      return "unreadable";
    } catch (const IoError&) {
      return "missing";
    }
    return "fine";
  };
  CHECK(std::string(reason(folder.write("file", ""))) == "fine");
  CHECK(std::string(reason(folder / "none")) == "missing");
  CHECK(std::string(reason(folder / "file/below")) == "missing");
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(std::string(reason(folder / "loop")) == "missing");
  CHECK_THAT(message_of<IoError>([&] { size_of_file(folder.path()); }), Contains("is not a file"));
  const auto text_for = [&](int error) {
    return [&, error] {
      errno = error;
      fail_to_read("open", folder / "x");
    };
  };
  CHECK_THAT(message_of<UnreadableError>(text_for(EACCES)), Contains("cannot open") && Contains("Permission denied"));
  CHECK_THAT(message_of<UnreadableError>(text_for(EIO)), Contains("Input/output error"));
}

TEST_CASE("writes past the page cache and beside it leave the same bytes") {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "");
  constexpr std::int64_t page = 4096;
  alignas(page) static char data[3 * page];
  for (std::size_t i = 0; i < sizeof data; ++i) data[i] = static_cast<char>('a' + i % 23);
  const FileDescriptor file = open_file(path, OpenFor::writing), none(-1), direct = open_direct(path);
  write_direct(direct, file, path, 0, data, page);                      // aligned in all
  write_direct(direct, file, path, page, data + page, 100);             // an odd length
  write_direct(direct, file, path, page + 100, data + page + 100, 50);  // an odd place
  write_direct(none, file, path, page + 150, data + page + 150, 2 * page - 150);
  CHECK(read_file(path) == std::string(data, sizeof data));
}

TEST_CASE("a full disk is an error that names the file") {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(full);
  CHECK_THAT(message_of<IoError>([&] { write_all(full, "the log", "text"); }),
             Contains("cannot write the log") && Contains("No space left"));
  CHECK_THAT(message_of<IoError>([&] { write_at(full, "the log", 0, "text", 4); }), Contains("No space left"));
}
