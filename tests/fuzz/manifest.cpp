// manifest.json of a checkpoint. Its checksum is made right first, so that what is behind it is reached.
#include "tessera/checkpoint/manifest.hpp"

#include <xxhash.h>

#include "fuzz/target.hpp"

using namespace tessera;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(fuzz::text_of(data, size));
  constexpr std::string_view key = "\"checksum\": \"";
  if (const std::size_t at = text.rfind(key); at != std::string::npos && at + key.size() + 16 <= text.size()) {
    text.replace(at + key.size(), 16, 16, '0');
    text.replace(at + key.size(), 16, fmt::format("{:016x}", XXH3_64bits(text.data(), text.size())));
  }
  fuzz::read_hostile([&] {
    const Manifest manifest = manifest_from(text, "checkpoint");
    fuzz::require(manifest_text(manifest_from(manifest_text(manifest), "checkpoint")) == manifest_text(manifest),
                  "a written manifest is another one");
  });
  return 0;
}
