#include <catch2/catch.hpp>

#include "tessera/files/file_system.hpp"

using namespace tessera;

TEST_CASE("A file system is known by its type, and a path that is not there has none") {
  CHECK(file_system_of("/dev/shm").name == "tmpfs");
  CHECK(file_system_of("/dev/shm").reach == FileSystemReach::machine);
  CHECK(file_system_of("/proc").reach == FileSystemReach::unknown);
  CHECK(file_system_of("/no/such/path").name == "unknown");
}
