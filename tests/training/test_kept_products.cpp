#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/training/kept_products.hpp"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("a run's algorithms are kept in products.txt and found by its next part") {
  const TemporaryFolder run;
  KeptProducts first(run.path());
  CHECK(first.read().empty());
  first.write("");  // a CPU chooses none
  CHECK_FALSE(std::filesystem::exists(run / "products.txt"));
  first.write("1 2 : 1 0\n");
  CHECK(read_file(run / "products.txt") == "1 2 : 1 0\n");
  KeptProducts second(run.path());
  CHECK(second.read() == "1 2 : 1 0\n");
  second.write("1 2 : 1 0\n3 : 0 0\n");
  CHECK(KeptProducts(run.path()).read() == "1 2 : 1 0\n3 : 0 0\n");
}

TEST_CASE("what is in the file already is not written again") {
  const TemporaryFolder run;
  KeptProducts kept(run.path());
  kept.write("a");
  std::filesystem::remove(run / "products.txt");
  kept.write("a");
  CHECK_FALSE(std::filesystem::exists(run / "products.txt"));
  kept.write("b");
  CHECK(read_file(run / "products.txt") == "b");
  write_file(run / "products.txt", "c");
  CHECK(kept.read() == "c");
  kept.write("b");
  CHECK(read_file(run / "products.txt") == "b");
  CHECK_THROWS_AS(KeptProducts(run / "none").write("a"), IoError);
}
