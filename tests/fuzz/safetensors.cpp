#include "tessera/formats/safetensors.hpp"

#include "fuzz/target.hpp"

using namespace tessera;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::write_input("model.safetensors", fuzz::text_of(data, size));
  fuzz::read_hostile([&] {
    const SafetensorsFile file(path);
    for (const SafetensorsEntry& entry : file.entries()) {
      if (!entry.dtype) continue;
      std::vector<float> values(static_cast<std::size_t>(entry.elements));
      file.read_slice(entry.name, 0, values);
    }
  });
  return 0;
}
