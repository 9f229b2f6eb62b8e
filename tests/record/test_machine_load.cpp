#include <catch2/catch.hpp>
#include <cmath>

#include "tessera/record/machine_load.hpp"

using namespace tessera;

TEST_CASE("the busiest machine counts, and each GPU's processes but our ranks once") {
  const MachineLoad load = load_of_all({{0.5, 3, "GPU-a"}, {4.5, 3, "GPU-a"}, {1, 1, "GPU-b"}, {2, 4, "GPU-c"}});
  CHECK(load.load_average == 4.5);
  CHECK(load.gpu_foreign_processes == 1 + 0 + 3);
  CHECK(load_of_all({{0, 1, "GPU-a"}}).gpu_foreign_processes == 0);
}

TEST_CASE("what is not known of a machine's load is no number") {
  CHECK(std::isnan(load_of_all({{0.5, -1, ""}, {0.5, -1, ""}}).gpu_foreign_processes));  // cores
  CHECK(load_of_all({{0.5, -1, ""}, {0.75, -1, ""}}).load_average == 0.75);
  CHECK(std::isnan(load_of_all({{0.5, 1, "GPU-a"}, {0.5, -1, "GPU-b"}}).gpu_foreign_processes));
  // In a container a driver may say that there are none, although two of this run's are.
  CHECK(std::isnan(load_of_all({{0.5, 0, "GPU-a"}, {0.5, 0, "GPU-a"}}).gpu_foreign_processes));
  CHECK(load_of_all({{std::nan(""), -1, ""}, {0.5, -1, ""}}).load_average == 0.5);
  CHECK(std::isnan(load_of_all({{std::nan(""), -1, ""}}).load_average));
}
