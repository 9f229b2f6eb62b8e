// Compressed texts: .gz, or .zst if that is how the input begins.
#include "fuzz/target.hpp"
#include "text/byte_stream.hpp"

using namespace tessera;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const bool is_gzip = size > 0 && data[0] == 0x1f;
  SourceFile file;
  file.path = fuzz::write_input(is_gzip ? "text.gz" : "text.zst", fuzz::text_of(data, size));
  file.compression = is_gzip ? Compression::gzip : Compression::zstd;
  fuzz::read_hostile([&] {
    file.state = state_of(file.path);
    const auto bytes = open_bytes(file);
    std::vector<char> block(1 << 16);
    for (int blocks = 0; blocks < 256 && bytes->read(block.data(), block.size()) > 0; ++blocks) continue;
  });
  return 0;
}
