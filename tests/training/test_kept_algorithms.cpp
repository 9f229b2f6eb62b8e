#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/training/kept_algorithms.hpp"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("a run's algorithms are kept in gemm_algorithms.txt and found by its next part") {
  const TemporaryFolder run;
  CHECK(kept_algorithms(run.path()).empty());
  keep_algorithms(run.path(), "");  // a CPU chooses none
  CHECK_FALSE(std::filesystem::exists(run / "gemm_algorithms.txt"));
  keep_algorithms(run.path(), "1 2 : 1 0\n");
  CHECK(read_file(run / "gemm_algorithms.txt") == "1 2 : 1 0\n");
  CHECK(kept_algorithms(run.path()) == "1 2 : 1 0\n");
  keep_algorithms(run.path(), "1 2 : 1 0\n3 : 0 0\n");
  CHECK(kept_algorithms(run.path()) == "1 2 : 1 0\n3 : 0 0\n");
  CHECK_THROWS_AS(keep_algorithms(run / "none", "a"), IoError);
}

TEST_CASE("that the file may be deleted is said where it is the trouble, not of a folder whose name is too long") {
  const TemporaryFolder run;
  std::filesystem::create_directory(run / "gemm_algorithms.txt");
  CHECK_THAT(message_of<IoError>([&] { kept_algorithms(run.path()); }), Catch::Contains("Delete it"));
  CHECK_THAT(message_of<IoError>([&] { kept_algorithms(run / std::string(300, 'x')); }), !Catch::Contains("Delete it"));
}

TEST_CASE("what is in the file already is not written again") {
  const TemporaryFolder run;
  keep_algorithms(run.path(), "a");
  const auto written = std::filesystem::last_write_time(run / "gemm_algorithms.txt");
  keep_algorithms(run.path(), "a");
  CHECK(std::filesystem::last_write_time(run / "gemm_algorithms.txt") == written);
}
