#include <catch2/catch.hpp>
#include <random>

#include "data/files.hpp"
#include "tessera/data/corpus.hpp"

using namespace tessera;
using Catch::Contains;

TEST_CASE("More files than may be mapped at once are read all the same, without the marks at their starts") {
  const TemporaryFolder folder;
  constexpr int files = 16384 + 40;
  std::vector<std::filesystem::path> paths;
  std::string expected;
  for (int i = 0; i < files; ++i) {
    const auto name = std::to_string(100000 + i);
    paths.push_back(folder.write(name + ".txt", (i % 3 == 0 ? "\xef\xbb\xbf" : "") + name));
    expected += name;
  }
  const auto source = open_text_files("many", paths);
  CHECK_THAT(source->describe(), Contains("many (16424 text files)"));
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
  CHECK_THAT(usage_message([&] { open_text_files("none", {folder.write("e.txt", "\xef\xbb\xbf")}); }),
             Contains("none has no text") && Contains(".txt files are empty, 1 in all"));
}

TEST_CASE("A place in text is said by file and line, also over the border of files") {
  const TemporaryFolder folder;
  const auto a = folder.write("a.txt", "\xef\xbb\xbfone\ntwo\nthree"), b = folder.write("b.txt", "four\nfive\n");
  const auto source = open_text_files("two", {a, b});
  CHECK(source->place(0, 4) == a.string() + ", lines 1 to 1");  // with its end
  CHECK(source->place(4, 5) == a.string() + ", lines 2 to 3");
  CHECK(source->place(10, 8) == a.string() + ", lines 3 to 3; " + b.string() + ", lines 1 to 1");
  CHECK(source->place(18, 5) == b.string() + ", lines 2 to 2");
  const auto large = folder.write("large.txt", std::string((1 << 24) + 1, '\n'));
  CHECK(open_text_files("large", {large})->place(3, 7) == large.string() + ", bytes 3 to 9");
}
