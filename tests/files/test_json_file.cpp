#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/json_file.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

std::string nested(std::size_t deep) { return std::string(deep, '[') + std::string(deep, ']'); }

}  // namespace

TEST_CASE("JSON is read up to a depth") {
  CHECK(parse_json("{\"a\": [1, 2.5, null]}")["a"][1] == 2.5);
  CHECK(parse_json(nested(64)).is_array());
  CHECK_THAT(message_of<UsageError>([] { parse_json(nested(66)); }), Contains("nested more than 64 deep"));
  CHECK_THROWS_AS(parse_json(std::string(1'000'000, '[')), UsageError);
  CHECK_THROWS_AS(parse_json("{\"a\": }"), nlohmann::json::exception);
  CHECK_THROWS_AS(parse_json(""), nlohmann::json::exception);
}

TEST_CASE("what keeps a file from being read names the file") {
  const TemporaryFolder folder;
  const auto error = [&](const std::filesystem::path& path, std::int64_t limit = 1000) {
    const std::string message = message_of<UsageError>([&] { read_json_object(path, limit); });
    CHECK_THAT(message, Contains(path.string()));
    return message;
  };
  CHECK(read_json_object(folder.write("good", "{\"x\": 7}"), 8)["x"] == 7);
  CHECK_THAT(error(folder / "good", 7), Contains("has 8 bytes, but at most 7 are read"));
  CHECK_THAT(error(folder / "none"), Contains("does not exist"));
  CHECK_THAT(error(folder / "good/below"), Contains("does not exist"));
  CHECK_THAT(error(folder.path()), Contains("is not a file"));
  CHECK_THAT(error(folder.write("list", "[1]")), Contains("does not hold a JSON object"));
  CHECK_THAT(error(folder.write("cut", "{\"x\": 7")), Contains("is not JSON"));
  CHECK_THAT(error(folder.write("deep", nested(100))), Contains("nested"));
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK_THROWS_AS(read_json_object(folder / "loop", 10), IoError);
  CHECK(read_text_file(folder.write("bytes", std::string("\0\xff\n", 3)), 3) == std::string("\0\xff\n", 3));
  CHECK(read_text_file(folder.write("empty", ""), 0).empty());
}
