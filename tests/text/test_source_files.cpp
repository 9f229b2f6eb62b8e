#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <random>

#include "data/files.hpp"
#include "tessera/data/corpus.hpp"

using namespace tessera;
using Catch::Contains;

namespace {
std::vector<std::int32_t> some_of(const TokenSource& source, std::int64_t first, std::int64_t count) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(count));
  source.copy(first, count, out.data());
  return out;
}
std::string text_of(const TokenSource& source) {
  std::string text;
  for (const auto token : some_of(source, 0, source.size())) text += static_cast<char>(token);
  return text;
}
std::string error_of(const std::filesystem::path& path) {
  DataOptions options;
  options.source = path.string();
  return usage_message([&] { open_corpus(options, 256); });
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
  CHECK(fingerprint(*source) == fingerprint(*tokens_of_text(text_of(*source))));
}

TEST_CASE("More files than may be mapped at once are read all the same") {
  const TemporaryFolder folder;
  constexpr int files = 16384 + 40;
  std::string expected;
  for (int i = 0; i < files; ++i) {
    auto name = std::to_string(100000 + i);
    folder.write(name + ".txt", name);
    expected += name;
  }
  const auto source = open_text(folder.path());
  CHECK(text_of(*source) == expected);
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const std::int64_t count = random() % 50, first = source->size() - 260 + static_cast<std::int64_t>(random() % 200);
    const auto some = some_of(*source, first, std::min(count, source->size() - first));
    REQUIRE(std::string(some.begin(), some.end()) == expected.substr(static_cast<std::size_t>(first), some.size()));
  }
  std::filesystem::resize_file(folder.path() / "116420.txt", 2);
  CHECK_THAT(message_of<IoError>(ExitCode::input_output, [&] { text_of(*source); }),
             Contains("116420.txt") && Contains("shorter"));
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
  CHECK(source->skipped() == "linked?[2J (a link to a folder), pipe.txt (not a file)");
  for (const char* name : {"x", "y"}) std::filesystem::create_directory_symlink(other / "more", folder / name);
  CHECK_THAT(open_text(folder.path())->skipped(), Contains("x (a link to a folder) and 1 more"));
  const TemporaryFolder links;
  std::filesystem::create_directory_symlink(other / "more", links / "all");
  CHECK_THAT(error_of(links.path()), Contains("no .txt file in it or below it but all (a link to a folder)"));
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
