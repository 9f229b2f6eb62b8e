// vocab.json and merges.txt, with a line of "----" between them.
#include "fuzz/target.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

using namespace tessera;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = fuzz::parts_of(fuzz::text_of(data, size));
  const auto path = fuzz::write_input("vocab.json", parts.front());
  fuzz::write_input("merges.txt", parts.back());
  fuzz::read_hostile([&] {
    const auto tokenizer = open_tokenizer(path.parent_path());
    std::vector<std::int32_t> ids;
    tokenizer->encoder()->encode("Hello w\xc3\xb6rld,  it's 1234567\n\n\t\xff\xfe the end", ids);
    static_cast<void>(tokenizer->decode(ids));
  });
  return 0;
}
