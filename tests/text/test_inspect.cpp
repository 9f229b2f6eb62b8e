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
