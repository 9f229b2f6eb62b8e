#include <catch2/catch.hpp>
#include <set>

#include "tessera/backend/device.hpp"
#include "tessera/backend/device_kind.hpp"

using namespace tessera;

TEST_CASE("every kind of device is found under its own name") {
  std::set<std::string_view> names;
  for (const DeviceTraits& device : kDevices) {
    CHECK(&traits_of(device.kind) == &device);
    CHECK(name_of(device.kind) == device.name);
    CHECK(names.insert(device.name).second);
  }
}

TEST_CASE("the device of the cores is what its row says") {
  const auto device = make_cpu_device();
  const DeviceTraits& traits = traits_of(device->kind());
  CHECK(traits.kind == DeviceKind::cpu);
  CHECK(traits.has_own_memory == device->memory_taken().has_value());
  CHECK(traits.is_accelerator == !device->identity().empty());
  CHECK(traits.has_graphs == device->can_capture());
  CHECK(traits.uses_mpi);  // MPI and the other ranks of its machine read its memory
  CHECK(traits.is_deterministic);
}
