// The index of a corpus' documents, and the mask of its loss.
#include "fuzz/target.hpp"
#include "tessera/text/prepared.hpp"

using namespace tessera;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::int64_t kTokens = 1000;
  const auto path = fuzz::write_input("tokens.idx", fuzz::text_of(data, size));
  fuzz::read_hostile([&] {
    const DocumentIndex documents(path, kTokens);
    for (std::int64_t token = 0; token < kTokens; token += 7) {
      const std::int64_t end = documents.end_of_token(token);
      fuzz::require(end > token && end <= kTokens, "a document ends before its token, or outside of the corpus");
    }
  });
  fuzz::read_hostile([&] {
    const LossMask mask(path, kTokens);
    std::vector<std::int32_t> ids(kTokens, 1);
    mask.apply(0, kTokens, ids.data());
    mask.apply(500, 10, ids.data());
  });
  return 0;
}
