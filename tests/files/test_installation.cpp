#include <catch2/catch.hpp>

#include "tessera/files/installation.hpp"

using namespace tessera;

TEST_CASE("What is installed with the program is found above it") {
  CHECK(own_executable().filename() == "test_files");
  CHECK(std::filesystem::exists(installed({"share/tessera/none", "tests/files/test_installation.cpp"})));
  CHECK(installed({"share/tessera/none", "none/at/all"}).empty());
}
