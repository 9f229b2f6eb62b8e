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
  CHECK_THAT(error_of(folder.path()), Contains("no .txt, .json, .jsonl or .parquet file"));
  CHECK_THAT(error_of(folder.path() / "none"), Contains("data.source") && Contains("no such file"));
  folder.write("empty.txt", "");
  CHECK_THAT(error_of(folder.path()), Contains("files are empty"));
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
  CHECK_THAT(separated->place(0, 3), Contains("texts (2 files, bytes), documents 1 to 1"));
  CHECK_THAT(separated->place(5, 2), Contains("documents 1 to 2"));
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

TEST_CASE("A validation set that is trained on is told, by whatever path it goes") {
  const TemporaryFolder folder;
  folder.write("all/a.txt", "text of the corpus");
  folder.write("other.txt", "text of its own");
  std::filesystem::create_symlink(folder / "all/a.txt", folder / "link.txt");
  Options options;
  const auto told = [&](const std::string& sets) {
    options.data.val_source = sets;
    return shared_validation(options);
  };
  CHECK(told("near:" + (folder / "all").string()).empty());  // the corpus is synthetic
  options.data.source = (folder / "all").string();
  CHECK(told("").empty());
  CHECK(told((folder / "other.txt").string()).empty());
  for (const char* path : {"all/a.txt", "all/../all/a.txt", "link.txt"}) {
    CHECK_THAT(told((folder / path).string()), Contains("data.val_source has ") && Contains("data.source as well"));
    CHECK_THAT(told("far:" + (folder / "other.txt").string() + ",near:" + (folder / path).string()),
               Contains("data.val_source: near has "));
  }
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

TEST_CASE("With a document mask every corpus brings the borders of its documents") {
  const TemporaryFolder folder;
  folder.write("texts/a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"\"}\n{\"text\": \"three\"}\n");
  folder.write("texts/b.txt", "two");
  Options options = options_of(folder, "texts");
  options.data.document_mask = Tristate::yes;
  options.data.val_fraction = 0;
  const auto ends_of = [&] {
    const auto source = open_corpus(options, 256);
    REQUIRE(source->has_documents());
    std::vector<std::int64_t> ends;
    for (std::int64_t token = 0; token < source->size(); ++token) ends.push_back(source->document_end(token));
    return ends;
  };
  const std::vector<std::int64_t> ends{3, 3, 3, 8, 8, 8, 8, 8, 11, 11, 11};
  CHECK(ends_of() == ends);
  Options to_file = options;
  to_file.data.output = (folder / "tokens.bin").string();
  prepare_output(to_file, {});
  options.data.source = (folder / "tokens.bin").string();
  CHECK(ends_of() == ends);
  CHECK(open_dataset(options, 256, 2).fingerprint() != [&] {
    Options unmasked = options;
    unmasked.data.document_mask = Tristate::no;
    return open_dataset(unmasked, 256, 2).fingerprint();
  }());

  folder.write("texts/b.txt", "two");
  options.data.source = (folder / "texts/b.txt").string();  // otherwise read as it stands
  CHECK(ends_of() == std::vector<std::int64_t>{3, 3, 3});

  options.data.source = (folder / "tokens.bin").string() + "," + (folder / "bare.bin").string();
  folder.write("bare.bin", bytes_of(std::vector<std::uint16_t>(30, 2)));
  CHECK_THAT(usage_message([&] { open_corpus(options, 256); }),
             Contains("data.document_mask") && Contains("bare.bin.idx is missing"));
  options.data.source = "synthetic";
  CHECK_THAT(usage_message([&] { open_dataset(options, 256, 2); }), Contains("synthetic text has no documents"));
}

TEST_CASE("The loss leaves prompts out, from the cache and from a file") {
  const TemporaryFolder folder;
  folder.write("texts/a.jsonl",
               "{\"prompt\": \"ask\", \"completion\": \"go\"}\n{\"text\": \"all\"}\n"
               "{\"prompt\": \"p\", \"completion\": \"\"}\n{\"prompt\": \"\", \"completion\": \"c\"}\n");
  Options options = options_of(folder, "texts");
  options.data.val_fraction = 0;
  const auto counted = [&] {
    const auto source = open_corpus(options, 256);
    std::string out(static_cast<std::size_t>(source->size()), ' ');
    for (std::int64_t first = 0; first < source->size(); ++first) {
      for (std::int64_t count = 0; first + count <= source->size(); ++count) {
        std::vector<std::int32_t> ids(static_cast<std::size_t>(count) + 1, 7);
        source->mask_targets(first, count, ids.data());
        REQUIRE(ids.back() == 7);
        for (std::int64_t i = 0; i < count; ++i) {
          char& place = out[static_cast<std::size_t>(first + i)];
          const char now = ids[static_cast<std::size_t>(i)] == kUncountedToken ? '-' : '+';
          REQUIRE((place == ' ' || place == now));  // whatever the range
          place = now;
        }
      }
    }
    return out;
  };
  CHECK(text_of(*open_corpus(options, 256)) == "askgoallpc");
  CHECK(counted() == "---+++++-+");
  Options to_file = options;
  to_file.data.output = (folder / "tokens.bin").string();
  prepare_output(to_file, {});
  CHECK(std::filesystem::exists(folder / "tokens.bin.mask"));
  options.data.source = (folder / "tokens.bin").string();
  CHECK(counted() == "---+++++-+");
  options.data.document_mask = Tristate::yes;  // the first token of a document is not a target either
  CHECK(counted() == "---++-++--");
  CHECK(open_dataset(options, 256, 2).masks_loss());
  options.data.document_mask = Tristate::no;
  const std::uint64_t masked = open_dataset(options, 256, 2).fingerprint();

  folder.write("plain.bin", bytes_of(std::vector<std::uint16_t>(5, 2)));
  options.data.source = (folder / "plain.bin").string() + "," + (folder / "tokens.bin").string();
  CHECK(counted() == "+++++---+++++-+");
  folder.write("tokens.bin.mask", "nonsense");
  CHECK_THAT(usage_message([&] { open_corpus(options, 256); }), Contains("tokens.bin.mask is not a mask of the loss"));
  std::filesystem::remove(folder / "tokens.bin.mask");
  options.data.source = (folder / "tokens.bin").string();
  CHECK_THAT(usage_message([&] { open_corpus(options, 256); }), Contains("tokens.bin.mask is missing"));
  std::filesystem::remove(folder / "tokens.bin.idx");
  CHECK_FALSE(open_corpus(options, 256)->masks_loss());
  CHECK(open_dataset(options, 256, 2).fingerprint() != masked);
}

TEST_CASE("Numbers of 32 bits without a header are a corpus with documents, and an index tells their width") {
  const TemporaryFolder folder;
  std::vector<std::uint32_t> ids;
  for (std::uint32_t i = 0; i < 30; ++i) ids.push_back(70'000 + i);
  folder.write("a.bin", bytes_of(ids));
  DocumentHeader header;
  header.documents = 2;
  folder.write("a.bin.idx", std::string(reinterpret_cast<const char*>(&header), sizeof header) +
                                bytes_of(std::vector<std::uint64_t>{10, 30}));
  Options options = options_of(folder, "a.bin");
  CHECK(reads_raw_tokens(options));
  CHECK_THAT(usage_message([&] { open_corpus(options, kAnyVocabulary); }),
             Contains("according to") && Contains("a.bin.idx it has half as many. Set data.token_bytes = 4"));
  options.data.token_bytes = TokenBytes::four;
  options.data.document_mask = Tristate::yes;
  const auto source = open_corpus(options, 100'000);
  CHECK(some_of(*source, 9, 2) == std::vector<std::int32_t>{70'009, 70'010});
  CHECK((source->size() == 30 && source->document_end(9) == 10 && source->document_end(10) == 30));
  folder.write("b.bin", llmc_bytes(20240520, 1, 3, std::vector<std::uint16_t>{1, 2, 3}));
  CHECK_FALSE(reads_raw_tokens(options_of(folder, "b.bin")));
}
