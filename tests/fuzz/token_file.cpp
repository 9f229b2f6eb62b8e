// Token files: nanoGPT's, llm.c's and Tessera's own.
#include "fuzz/target.hpp"
#include "tessera/data/corpus.hpp"

using namespace tessera;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::write_input("tokens.bin", fuzz::text_of(data, size));
  fuzz::read_hostile([&] {
    const auto tokens = open_token_file(path);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens->size()));
    static_cast<void>(fingerprint(*tokens));
    tokens->copy(0, tokens->size(), ids.data());
    check_vocabulary(*tokens, 50257);
  });
  return 0;
}
