#include <catch2/catch.hpp>

#include "data/files.hpp"
#include "tessera/text/corpus.hpp"
#include "tessera/text/prepared.hpp"

using namespace tessera;
using Catch::Contains;

namespace {
std::string error_of(const std::filesystem::path& path) {
  Options options;
  options.data.source = path.string();
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
  CHECK(error_of(folder.write("one.txt", "text")).empty());
  Options options;
  options.data.source = (folder.path() / "one.txt").string();
  CHECK_THAT(usage_message([&] { open_corpus(options, 100); }), Contains("token 116 at position 0"));
}

namespace {

Options options_of(const TemporaryFolder& folder, const std::string& source) {
  Options options;
  options.data.source = (folder / source).string();
  options.data.cache = (folder / "cache").string();
  return options;
}

}  // namespace

TEST_CASE("Text is read as it stands where that gives its tokens, and prepared elsewhere") {
  const TemporaryFolder folder;
  folder.write("texts/a.txt", "\xef\xbb\xbfone\r\n");
  folder.write("texts/b.txt", "two");
  Options options = options_of(folder, "texts");
  CHECK(is_read_directly(options, "data.source"));
  CHECK(text_of(*open_corpus(options, 256)) == "one\r\ntwo");
  CHECK_FALSE(std::filesystem::exists(folder / "cache"));
  options.data.separator = "|";
  CHECK_FALSE(is_read_directly(options, "data.source"));
  const auto separated = open_corpus(options, 256);
  CHECK(text_of(*separated) == "one\r\n|two|");
  CHECK_THAT(separated->describe(), Contains("texts (2 files, bytes)"));
  CHECK_THAT(usage_message([&] { open_corpus(options, 120); }), Contains("token 124 at position 5"));
  folder.write("texts/c.jsonl", "{\"text\": \"three\"}\n");
  options.data.separator = "none";
  CHECK(text_of(*open_corpus(options, 256)) == "one\r\ntwothree");
}

TEST_CASE("Token files are one corpus, and a validation corpus is opened beside it") {
  const TemporaryFolder folder;
  folder.write("1.bin", bytes_of(std::vector<std::uint16_t>(40, 1)));
  folder.write("2.bin", bytes_of(std::vector<std::uint16_t>(30, 2)));
  folder.write("val.txt", std::string(25, 'v'));
  Options options = options_of(folder, "[12].bin");
  options.data.val_source = (folder / "val.txt").string();
  CHECK_THAT(usage_message([&] { open_dataset(options, 256, 10); }),
             Contains("unknown tokenizer") && Contains("data.tokenizer"));
  options.data.tokenizer = "bytes";
  const Dataset data = open_dataset(options, 256, 10);
  CHECK(data.source().size() == 70);
  CHECK(data.split().train.count == 70);
  REQUIRE(data.validation().size() == 1);
  CHECK(text_of(*data.validation()[0].source) == std::string(25, 'v'));
  options.data.val_source = (folder / "none").string();
  CHECK_THAT(usage_message([&] { open_dataset(options, 256, 10); }), Contains("data.val_source") && Contains("none"));
  options.data.val_source = "synthetic";
  CHECK_THAT(usage_message([&] { open_dataset(options, 256, 10); }), Contains("data.val_source = synthetic"));
}

TEST_CASE("The cache lies beside the run folders unless it is named") {
  Options options;
  CHECK(cache_folder(options) == "runs/cache");
  options.run.dir = "some/where/";
  CHECK(cache_folder(options) == "some/cache");
  options.run.dir = "run";
  CHECK(cache_folder(options) == "cache");
  options.data.cache = "mine";
  CHECK(cache_folder(options) == "mine");
}
