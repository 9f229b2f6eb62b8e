#include <algorithm>
#include <random>

#include "tessera/data/corpus.hpp"
#include "tessera/text/inspect.hpp"
#include "text/pair_tokenizer.hpp"
#include "text/text_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;

TEST_CASE("An inspection counts tokens, documents and used ids, and decodes samples") {
  const TemporaryFolder folder;
  const PairTokenizer tokenizer;
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> ends;
  for (const char* document : {"abcd\n", "abab and more of it", "zz"}) {
    tokenizer.encoder()->encode(document, ids);
    ends.push_back(std::ssize(ids));
  }
  DocumentHeader header;
  header.documents = ends.size();
  const auto file =
      folder.write("x.bin.idx", std::string(reinterpret_cast<const char*>(&header), sizeof header) + bytes_of(ends));
  const DocumentIndex index(file, std::ssize(ids));
  const auto source = tokens_in_memory(ids, 65536);
  const std::string text = inspect_tokens(*source, &index, &tokenizer);
  CHECK_THAT(text, Contains(fmt::format("tokens     {} of 2 bytes", ids.size())));
  CHECK_THAT(text, Contains("documents  3; the longest is number 2 with 12 tokens"));
  CHECK_THAT(text, Contains("ids used of 933"));
  CHECK_THAT(text, Contains("document 1: abcd\\n") && Contains("document 3: zz"));
  const std::string bare = inspect_tokens(*source, nullptr, nullptr);
  CHECK_THAT(bare, Contains("the largest is 931") && !Contains("sample") && !Contains("documents"));
  CHECK_THAT(inspect_tokens(*source, nullptr, &tokenizer), Contains("from token 0: abcd\\nabab"));
}

TEST_CASE("An inspection counts documents that are longer than usual samples") {
  const TemporaryFolder folder;
  std::mt19937 draw(7);
  std::vector<std::int64_t> lengths, ends;
  for (int i = 0; i < 300; ++i) {
    lengths.push_back(1 + draw() % (i % 3 == 0 ? 128 : 1024));
    ends.push_back((ends.empty() ? 0 : ends.back()) + lengths.back());
  }
  const auto longer = [&](std::int64_t than) {
    return std::ranges::count_if(lengths, [&](std::int64_t length) { return length > than; });
  };
  DocumentHeader header;
  header.documents = ends.size();
  const auto file =
      folder.write("x.bin.idx", std::string(reinterpret_cast<const char*>(&header), sizeof header) + bytes_of(ends));
  const auto source = tokens_in_memory(std::vector<std::int32_t>(static_cast<std::size_t>(ends.back())), 256);
  const DocumentIndex index(file, ends.back());
  CHECK_THAT(inspect_tokens(*source, &index, nullptr),
             Contains(fmt::format("\n           of more tokens than 128: {}, 256: {}, 512: {}\n", longer(128),
                                  longer(256), longer(512))));
}
