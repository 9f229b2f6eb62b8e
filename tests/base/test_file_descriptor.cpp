#include <fcntl.h>

#include <catch2/catch.hpp>

#include "tessera/base/file_descriptor.hpp"

using namespace tessera;

namespace {

bool is_open(int file) { return ::fcntl(file, F_GETFD) != -1; }
int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

TEST_CASE("A file descriptor is closed once, by its last owner") {
  const int file = open_null();
  REQUIRE(file >= 0);
  {
    FileDescriptor first(file);
    CHECK(first);
    CHECK(first.get() == file);
    {
      const FileDescriptor second(std::move(first));
      CHECK(second.get() == file);
      CHECK_FALSE(first);  // NOLINT(bugprone-use-after-move): what is left is what is checked
      CHECK(is_open(file));
    }
    CHECK_FALSE(is_open(file));
    // The system gives the number away again: the owner that was moved from must not close it.
    CHECK(open_null() == file);
  }
  CHECK(is_open(file));
  ::close(file);
}

TEST_CASE("A failed open is an invalid descriptor") { CHECK_FALSE(FileDescriptor(-1)); }
