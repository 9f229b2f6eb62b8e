#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/training/kept_algorithms.hpp"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("a run's algorithms are kept in gemm_algorithms.txt and found by its next part") {
  const TemporaryFolder run;
  KeptAlgorithms first(run.path());
  CHECK(first.read().empty());
  first.write("");  // a CPU chooses none
  CHECK_FALSE(std::filesystem::exists(run / "gemm_algorithms.txt"));
  first.write("1 2 : 1 0\n");
  CHECK(read_file(run / "gemm_algorithms.txt") == "1 2 : 1 0\n");
  KeptAlgorithms second(run.path());
  CHECK(second.read() == "1 2 : 1 0\n");
  second.write("1 2 : 1 0\n3 : 0 0\n");
  CHECK(KeptAlgorithms(run.path()).read() == "1 2 : 1 0\n3 : 0 0\n");
}

TEST_CASE("what is in the file already is not written again") {
  const TemporaryFolder run;
  KeptAlgorithms kept(run.path());
  kept.write("a");
  std::filesystem::remove(run / "gemm_algorithms.txt");
  kept.write("a");
  CHECK_FALSE(std::filesystem::exists(run / "gemm_algorithms.txt"));
  kept.write("b");
  CHECK(read_file(run / "gemm_algorithms.txt") == "b");
  write_file(run / "gemm_algorithms.txt", "c");
  CHECK(kept.read() == "c");
  kept.write("b");
  CHECK(read_file(run / "gemm_algorithms.txt") == "b");
  CHECK_THROWS_AS(KeptAlgorithms(run / "none").write("a"), IoError);
}
