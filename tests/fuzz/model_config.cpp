// config.json; what is read is written, and must be read back as the same.
#include <nlohmann/json.hpp>

#include "fuzz/target.hpp"
#include "tessera/formats/hugging_face.hpp"
#include "tessera/formats/hugging_face_json.hpp"

using namespace tessera;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::write_input("config.json", fuzz::text_of(data, size));
  fuzz::read_hostile([&] {
    const Architecture read = read_config(path.parent_path());
    fuzz::require(architecture_of(config_of(read), path) == read, "a written configuration is another one");
  });
  return 0;
}
