#include <catch2/catch.hpp>

#include "tessera/backend/thread_pool.hpp"
#include "tessera/record/run_facts.hpp"

using namespace tessera;

TEST_CASE("kernels name the library that they say they compute with, and cores have no GPU") {
  ThreadPool pool(1);
  const Implementation kernels = make_cpu_kernels(pool)->description();
  REQUIRE(kernels.libraries.size() == 1);
  const auto& [name, version] = kernels.libraries.front();
  CHECK((name == "onednn" || name == "openblas"));
  CHECK_THAT(version, Catch::Matches("[0-9]+\\.[0-9.]*[0-9]"));
  CHECK_THAT(kernels.text, Catch::Contains((name == "onednn" ? ", oneDNN " : ", OpenBLAS ") + version));
  CHECK(gpu_facts(*make_cpu_device()).name.empty());
}
