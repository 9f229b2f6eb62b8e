#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "data/files.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/text/corpus.hpp"
#include "text/source_files.hpp"
#include "text_tokens.hpp"

using namespace tessera;
using Catch::Contains;

namespace {
std::string listing_error(const std::filesystem::path& path) {
  Options options;
  options.data.source = path.string();
  return usage_message([&] { open_corpus(options, 256); });
}
std::unique_ptr<TokenSource> open_text(const std::filesystem::path& path) {
  Options options;
  options.data.source = path.string();
  return open_corpus(options, 256);
}
}  // namespace

TEST_CASE("A folder of text is joined in the order of paths, and any range can be read") {
  const TemporaryFolder folder;
  folder.write("b.txt", "second\n");
  folder.write("a/z.txt", "first");
  folder.write("c.txt", "");
  folder.write("sub/deep/\xc3\xa9.txt", "\xff\x00\x80!");
  folder.write("notes.md", "not text for us");
  const auto source = open_text(folder.path());
  const std::string expected = std::string("firstsecond\n") + "\xff";
  CHECK(text_of(*source).starts_with(expected));
  CHECK(source->id_bound() == 256);
  CHECK_THAT(source->describe(), Contains("3 text files"));
  const auto all = some_of(*source, 0, source->size());
  for (std::int64_t first = 0; first <= source->size(); ++first) {
    for (std::int64_t count = 0; first + count <= source->size(); ++count) {
      REQUIRE(some_of(*source, first, count) ==
              std::vector<std::int32_t>(all.begin() + first, all.begin() + first + count));
    }
  }
  CHECK_THROWS_AS(some_of(*source, 1, source->size()), InternalError);
  CHECK(fingerprint(*source) == fingerprint(*test::tokens_of_text(text_of(*source))));
}

TEST_CASE("Links to files are followed, and what a folder leaves out is said") {
  const TemporaryFolder folder, other;
  const auto elsewhere = other.write("elsewhere", "linked");
  other.write("more/text.txt", "left out");
  folder.write("b.txt", "plain ");
  std::filesystem::create_symlink(elsewhere, folder / "c.txt");
  CHECK(open_text(folder.path())->skipped().empty());
  std::filesystem::create_directory_symlink(other / "more", folder / "linked\x1b[2J");
  REQUIRE(::mkfifo((folder / "pipe.txt").c_str(), 0600) == 0);
  const auto source = open_text(folder.path());
  CHECK(text_of(*source) == "plain linked");
  CHECK(source->skipped() == "a link to a folder: 1 (linked?[2J); not a file: 1 (pipe.txt)");
  for (const char* name :
       {"run/config.ini", "run/status.json", "run/deep/b.txt", "cache/k/info.json", "cache/k/tokens.bin",
        "settings/config.ini", "settings/c.txt", "hf/config.json", "hf/model.safetensors", "hf/tokenizer.json"})
    folder.write(name, "own");
  const auto without = open_text(folder.path());
  CHECK(text_of(*without) == "plain linkedown");
  CHECK_THAT(without->skipped(), Contains("a prepared corpus: 1 (cache/k)") && Contains("a model: 1 (hf)"));
  for (const char* name : {"a", "x", "y"}) std::filesystem::create_directory_symlink(other / "more", folder / name);
  CHECK_THAT(open_text(folder.path())->skipped(), Contains("a link to a folder: 4 (a, linked?[2J, x and 1 more)"));
  const TemporaryFolder links;
  std::filesystem::create_directory_symlink(other / "more", links / "all");
  CHECK_THAT(
      listing_error(links.path()),
      Contains("no .txt, .json, .jsonl or .parquet file in it or below it; left out are a link to a folder: 1 (all)"));
}

TEST_CASE("A part of a corpus that cannot be read is an error") {
  const TemporaryFolder folder;
  folder.write("a.txt", "text");
  const auto error = [&] { return message_of<IoError>(ExitCode::input_output, [&] { open_text(folder.path()); }); };
  std::filesystem::create_symlink(folder / "none", folder / "other");
  CHECK(error().empty());  // not a text, whatever it was
  std::filesystem::create_symlink(folder / "none", folder / "b.txt");
  CHECK_THAT(error(), Contains("b.txt is a link to nothing"));
  std::filesystem::remove(folder / "b.txt");
  std::filesystem::create_symlink("b.txt", folder / "b.txt");
  CHECK_THAT(error(), Contains("b.txt cannot be examined"));
}

namespace {

/// Lists `given` and returns the paths below the folder, with commas between.
std::string listed(const TemporaryFolder& folder, std::string given) {
  for (auto at = given.find('@'); at != std::string::npos; at = given.find('@'))
    given.replace(at, 1, folder.path().string() + "/");
  std::string names;
  for (const auto& file : list_sources(given, "data.source").files)
    names += (names.empty() ? "" : ",") + file.path.lexically_relative(folder.path()).generic_string();
  return names;
}

}  // namespace

TEST_CASE("A source is a list of files, folders and globs, in this order") {
  const TemporaryFolder folder;
  for (const char* name : {"b.txt", "a.jsonl.gz", "sub/z.json", "sub/Y.txt.zst", "sub/t.bin", "10.bin", "9.bin", "x.md",
                           "odd, name.txt", "other/notes"})
    folder.write(name, "x");
  CHECK(listed(folder, "@b.txt") == "b.txt");
  CHECK(listed(folder, "@") == "a.jsonl.gz,b.txt,odd, name.txt,sub/Y.txt.zst,sub/z.json");
  CHECK(listed(folder, "@sub, @b.txt ,@a.jsonl.gz") == "sub/Y.txt.zst,sub/z.json,b.txt,a.jsonl.gz");
  CHECK(listed(folder, "@*.bin,@sub/t.bin") == "10.bin,9.bin,sub/t.bin");
  CHECK(listed(folder, "@9.bin,@10.bin") == "9.bin,10.bin");
  CHECK(listed(folder, "@odd, name.txt") == "odd, name.txt");
  CHECK(listed(folder, "@?.txt,@s*") == "b.txt,sub/Y.txt.zst,sub/z.json");
  const auto list = list_sources((folder / "*.[mj]*").string(), "data.source");
  CHECK(list.files.size() == 1);
  CHECK(list.files[0].kind == SourceKind::json_lines);
  CHECK(list.files[0].compression == Compression::gzip);
  CHECK(list.skipped == "of unknown kind: 1 (" + (folder / "x.md").string() + ")");
  const auto error = [&](const std::string& given) { return usage_message([&] { listed(folder, given); }); };
  CHECK_THAT(error("@b.txt,@9.bin"), Contains("9.bin holds tokens") && Contains("b.txt holds text"));
  CHECK_THAT(error("@none*"), Contains("nothing matches"));
  CHECK_THAT(error("@none/*.txt"), Contains("nothing matches"));
  CHECK_THAT(error("@b.txt/*.txt"), Contains("nothing matches"));
  CHECK_THAT(error("@*.md"), Contains("nothing matches but of unknown kind: 1 ("));
  CHECK_THAT(error("@b.txt,,@9.bin"), Contains("an empty name"));
  CHECK_THAT(error("@other"), Contains("no .txt, .json, .jsonl or .parquet file in it") && Contains("Name .bin files"));
  CHECK_THAT(error("@b.txt,@gone.txt"),
             Contains("gone.txt does not work") && Contains("there is no such file or folder"));
}

TEST_CASE("Every entry of a folder is read, or is left out and counted with its reason") {
  std::mt19937 draw(8);
  for (int round = 0; round < 6; ++round) {
    const TemporaryFolder folder;
    std::map<std::string, int> left_out;
    std::set<std::string> read;
    const auto any = [&](std::vector<std::string> names) { return names[draw() % names.size()]; };
    for (int i = 0; i < 30; ++i) {
      const std::string number = std::to_string(i), dir = any({"", "sub/", "Sub/deep/"});
      const auto write = [&](const std::string& name) { return folder.write(dir + name, "x"), dir + name; };
      switch (draw() % 4) {
        case 0:
          ++left_out["hidden"];
          write(any({".git" + number + "/a.txt", "." + number + ".txt", "._" + number + ".jsonl"}));
          break;
        case 1:
          ++left_out["of unknown kind"];
          write(number + any({".md", ".csv", ".parquet.gz", ".txt.xz", "", ".txt~", ".gz", ".txt.gz.part"}));
          break;
        case 2:
          ++left_out["tokens"];
          write(number + any({".bin", ".BIN"}));
          break;
        default:
          read.insert(write(number +
                            any({".txt", ".TXT", ".Json", ".jsonl", ".NDJSON", ".ndjson.gz", ".txt.ZST", ".Parquet"})));
      }
    }
    folder.write("always.txt", "x");
    folder.write("__MACOSX/sub/._always.txt", "x");
    read.insert("always.txt");
    ++left_out["hidden"];
    const SourceList list = list_sources(folder.path().string(), "data.source");
    std::set<std::string> found;
    for (const SourceFile& file : list.files) found.insert(file.path.lexically_relative(folder.path()).string());
    CHECK(found == read);
    for (const auto& [reason, count] : left_out)
      CHECK_THAT(list.skipped, Contains(reason + ": " + std::to_string(count) + " ("));
  }
}

TEST_CASE("A hidden file that is named is read, and one of another kind is told how it becomes text") {
  const TemporaryFolder folder;
  folder.write(".cache/b.txt", "x");
  folder.write("c.ndjson", "x");
  CHECK(listed(folder, "@.cache/b.txt") == ".cache/b.txt");
  CHECK(listed(folder, "@.cache") == ".cache/b.txt");
  CHECK(list_sources((folder / "c.ndjson").string(), "data.source").files.at(0).kind == SourceKind::json_lines);
  const auto error = [&](const std::string& name) {
    folder.write("other/" + name, "x");
    const std::string by_name = usage_message([&] { listed(folder, "@other/" + name); });
    CHECK_THAT(by_name, Contains("other/" + name + " is a file of unknown kind"));
    const std::string by_folder = usage_message([&] { listed(folder, "@other"); });
    CHECK_THAT(by_folder, Contains("left out are of unknown kind: 1 (" + name + ")"));
    std::filesystem::remove_all(folder / "other");
    CHECK(by_name.substr(by_name.size() - 30) == by_folder.substr(by_folder.size() - 30));
    return by_name;
  };
  for (const char* name : {"a.tsv", "a.CSV.gz", "a.arrow"}) CHECK_THAT(error(name), Contains("pandas: read_feather"));
  for (const char* name : {"a.txt.xz", "a.parquet.gz"}) CHECK_THAT(error(name), Contains("Unpack it first"));
}
