// tokenizer.json. A tokenizer that opens must encode any text, and give the bytes of each id.
#include "tessera/tokenizer/tokenizer.hpp"

#include "fuzz/target.hpp"

using namespace tessera;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::write_input("tokenizer.json", fuzz::text_of(data, size));
  fuzz::read_hostile([&] {
    const auto tokenizer = open_tokenizer(path);
    std::vector<std::int32_t> ids;
    tokenizer->encoder()->encode("Hello w\xc3\xb6rld,  it's 1234567\n\n\t\xff\xfe<|end|> the end", ids);
    for (const std::int32_t id : ids)
      fuzz::require(id >= 0 && id < tokenizer->vocab(), "an id is not in the vocabulary");
    static_cast<void>(tokenizer->decode(ids));
    static_cast<void>(tokenizer->cut_at_or_after("some text of several words", 7));
  });
  return 0;
}
