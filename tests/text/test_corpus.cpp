#include <catch2/catch.hpp>

#include "data/files.hpp"
#include "tessera/data/corpus.hpp"

using namespace tessera;
using Catch::Contains;

namespace {
std::string error_of(const std::filesystem::path& path) {
  DataOptions options;
  options.source = path.string();
  return usage_message([&] { open_corpus(options, 256); });
}
}  // namespace

TEST_CASE("What is not a corpus is a usage error") {
  const TemporaryFolder folder;
  CHECK_THAT(error_of(folder.path()), Contains("no .txt file"));
  CHECK_THAT(error_of(folder.path() / "none"), Contains("data.source") && Contains("no such file"));
  folder.write("empty.txt", "");
  CHECK_THAT(error_of(folder.path()), Contains("all empty"));
  CHECK_THAT(error_of(folder.write("x.dat", "a")), Contains("unknown kind"));
  CHECK_THAT(error_of(folder.write("x.jsonl", "{}")), Contains("JSON is not read"));
  CHECK_THAT(error_of(folder.path()), Contains("x.jsonl") && Contains("JSON is not read"));
  CHECK(error_of(folder.write("one.txt", "text")).empty());
  DataOptions options;
  options.source = (folder.path() / "one.txt").string();
  CHECK_THAT(usage_message([&] { open_corpus(options, 100); }), Contains("token 116 at position 0"));
}
