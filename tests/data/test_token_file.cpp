#include <catch2/catch.hpp>
#include <random>

#include "data/files.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/data/token_header.hpp"
#include "text_tokens.hpp"

using namespace tessera;
using Catch::Contains;

namespace {
std::vector<std::int32_t> all_of(const TokenSource& source) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(source.size()));
  source.copy(0, source.size(), out.data());
  return out;
}
}  // namespace

TEST_CASE("Raw uint16 and llm.c's two formats hold the same tokens") {
  const TemporaryFolder folder;
  const std::vector<std::uint16_t> narrow = {7, 0, 65535, 42, 50256};
  const std::vector<std::uint32_t> wide(narrow.begin(), narrow.end());
  const auto raw = open_token_file(folder.write("raw.bin", bytes_of(narrow)));
  const auto gpt2 = open_token_file(folder.write("gpt2.bin", llmc_bytes(20240520, 1, 5, narrow)));
  const auto llama = open_token_file(folder.write("llama.bin", llmc_bytes(20240801, 7, 5, wide)));
  const std::vector<std::int32_t> expected(narrow.begin(), narrow.end());
  for (const auto* source : {&raw, &gpt2, &llama}) {
    CHECK((*source)->size() == 5);
    CHECK(all_of(**source) == expected);
    CHECK(fingerprint(**source) == fingerprint(*raw));
    std::int32_t two[2];
    (*source)->copy(3, 2, two);
    CHECK(two[0] == 42);
    CHECK(two[1] == 50256);
    CHECK_THROWS_AS((*source)->copy(4, 2, two), InternalError);
    CHECK_THROWS_AS((*source)->copy(-1, 2, two), InternalError);
  }
  CHECK(raw->id_bound() == 65536);
  CHECK(llama->id_bound() == std::int64_t{1} << 32);
}

TEST_CASE("Broken token files are usage errors that name file, expected and found") {
  const TemporaryFolder folder;
  const auto error_of = [&](const std::string& bytes) {
    return usage_message([&] { open_token_file(folder.write("x.bin", bytes)); });
  };
  const std::vector<std::uint16_t> tokens = {1, 2, 3};
  const auto good = llmc_bytes(20240520, 1, 3, tokens);
  CHECK(error_of(good).empty());
  CHECK_THAT(error_of(""), Contains("x.bin") && Contains("empty"));
  CHECK_THAT(error_of("abc"), Contains("3 bytes") && Contains("2 or 4 bytes"));
  CHECK_THAT(error_of(good.substr(0, good.size() - 1)),
             Contains("1029 bytes instead of 1030") && Contains("truncated"));
  CHECK_THAT(error_of(good + "ab"), Contains("1032 bytes instead of 1030") && Contains("longer than its header says"));
  for (const std::size_t length : {4, 5, 12, 1023})
    CHECK_THAT(error_of(good.substr(0, length)), Contains("truncated") && Contains("1024"));
  CHECK_THAT(error_of(llmc_bytes(20240520, 9, 3, tokens)), Contains("version 9"));
  CHECK_THAT(error_of(llmc_bytes(20240520, 1, -3, tokens)), Contains("-3 tokens"));
  CHECK_THAT(error_of(llmc_bytes(20240520, 1, 0, std::vector<std::uint16_t>{})), Contains("0 tokens"));
  CHECK_THAT(error_of(llmc_bytes(20240801, 7, 3, tokens)), Contains("instead of 1036"));
  CHECK_THAT(usage_message([&] { open_token_file(folder.path() / "none.bin"); }), Contains("none.bin is not a file"));
  CHECK_THAT(usage_message([&] { open_token_file(folder.path()); }), Contains("is not a file"));
}

TEST_CASE("A token beyond the vocabulary is named with its position") {
  const TemporaryFolder folder;
  std::vector<std::uint16_t> tokens(200'000, 3);
  tokens[131'072 + 5] = 77;
  const auto file = folder.write("t.bin", bytes_of(tokens));
  const auto source = open_token_file(file);
  check_vocabulary(*source, 78);
  CHECK_THAT(usage_message([&] { check_vocabulary(*source, 77); }),
             Contains("t.bin") && Contains("token 77 at position 131077") && Contains("0 to 76"));
  std::vector<std::int32_t> out(10);
  copy_checked(*source, 131'060, 10, 50, out.data());
  CHECK_THAT(usage_message([&] { copy_checked(*source, 131'070, 10, 50, out.data()); }), Contains("position 131077"));
  const auto wide =
      open_token_file(folder.write("w.bin", llmc_bytes(20240801, 7, 2, std::vector<std::uint32_t>{1, 0xf0000000u})));
  CHECK_THAT(usage_message([&] { check_vocabulary(*wide, 1000); }), Contains("position 1") && Contains("4026531840"));
}

TEST_CASE("Offsets beyond 4 GiB, in a sparse file") {
  const TemporaryFolder folder;
  const auto file = folder.write("big.bin", "");
  const std::int64_t tokens = (std::int64_t{5} << 30) / 2;
  std::error_code error;
  std::filesystem::resize_file(file, static_cast<std::uintmax_t>(tokens) * 2, error);
  if (error) {
    WARN("skipped: no sparse file of 5 GiB on this file system (" << error.message() << ")");
    return;
  }
  const std::int64_t place = tokens - 3;
  {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(place * 2);
    stream.write("\x0b\x00\x0c\x00\x0d\x00", 6);
    REQUIRE(stream.good());
  }
  const auto source = open_token_file(file);
  CHECK(source->size() == tokens);
  std::int32_t out[4];
  source->copy(place - 1, 4, out);
  CHECK(std::vector<std::int32_t>(out, out + 4) == std::vector<std::int32_t>{0, 11, 12, 13});
  CHECK_THAT(usage_message([&] { check_vocabulary(*source, 12); }), Contains("position " + std::to_string(place + 1)));
  CHECK(fingerprint(*source) != 0);
}

TEST_CASE("A corpus that is written as a token file is the same corpus") {
  const TemporaryFolder folder;
  for (const std::int64_t bound : {std::int64_t{256}, std::int64_t{65536}, std::int64_t{65537}}) {
    CAPTURE(bound);
    std::vector<std::int32_t> tokens((1 << 20) + 7);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) * 40503 % bound);
    const std::filesystem::path file = folder.path() / "tokens.bin";
    write_token_file(*tokens_in_memory(tokens, bound), file);
    CHECK(all_of(*open_token_file(file)) == tokens);
    CHECK(std::filesystem::file_size(file) == 1024 + tokens.size() * (bound > 65536 ? 4 : 2));
  }
  CHECK_THROWS_AS(write_token_file(*test::tokens_of_text("abc"), folder.path() / "none" / "tokens.bin"), IoError);
  std::filesystem::create_directories(folder.path() / "taken" / "x");
  CHECK_THROWS_AS(write_token_file(*test::tokens_of_text("abc"), folder.path() / "taken"), IoError);
  const auto others = folder.write("tokens.bin.tmp", "of another process");
  write_token_file(*test::tokens_of_text("abc"), folder.path() / "tokens.bin");
  CHECK(std::filesystem::file_size(others) == 18);
  const std::filesystem::directory_iterator left(folder.path());
  CHECK(std::distance(begin(left), end(left)) == 3);  // and nothing unfinished
}

TEST_CASE("Tessera's own header counts in 64 bits, and a file that is not whole is refused") {
  const TemporaryFolder folder;
  const std::vector<std::uint16_t> narrow{1, 65535, 7};
  const std::vector<std::uint32_t> wide{1, 70000, 7};
  const auto written = [&](std::int64_t tokens, std::int64_t token_bytes, const std::string& ids) {
    const auto header = token_header(TokenHeader::wide, tokens, token_bytes);
    return folder.write("x.bin", std::string(reinterpret_cast<const char*>(header.data()), header.size()) + ids);
  };
  CHECK(all_of(*open_token_file(written(3, 2, bytes_of(narrow)))) == std::vector<std::int32_t>{1, 65535, 7});
  CHECK(all_of(*open_token_file(written(3, 4, bytes_of(wide)))) == std::vector<std::int32_t>{1, 70000, 7});
  const auto error = [&](std::int64_t tokens, std::int64_t token_bytes, const std::string& ids) {
    const auto file = written(tokens, token_bytes, ids);
    return usage_message([&] { open_token_file(file); });
  };
  CHECK_THAT(error(4, 2, bytes_of(narrow)), Contains("header says 4 tokens of 2 bytes"));
  CHECK_THAT(error(std::int64_t{1} << 62, 4, bytes_of(wide)), Contains("truncated"));
  CHECK_THAT(error(3, 2, bytes_of(narrow) + "x"), Contains("truncated"));
  CHECK_THAT(error(0, 2, ""), Contains("not finished"));
  CHECK_THAT(error(3, 3, "123456789"), Contains("a layout that is unknown"));
  CHECK_THAT(usage_message([&] { open_token_file(folder.write("y.bin", "TESSERAT\1\0\0")); }), Contains("truncated"));
}

namespace {

/// Ids as corpora have them: even or skewed, of small and large vocabularies, with much or little padding by zeros.
std::vector<std::int32_t> drawn_ids(std::mt19937& draw, std::int64_t vocab) {
  const int share_of_zeros = std::array{0, 0, 50, 95}[draw() % 4], skew = std::array{1, 1, 3}[draw() % 3];
  std::vector<std::int32_t> ids(20'000 + draw() % 100'000);
  for (std::int32_t& id : ids) {
    if (static_cast<int>(draw() % 100) < share_of_zeros) continue;
    std::int64_t one = vocab - 1;
    for (int i = 0; i < skew; ++i) one = std::min(one, static_cast<std::int64_t>(draw()) % vocab);
    id = static_cast<std::int32_t>(one);
  }
  return ids;
}

template <class Id>
std::string raw_bytes(const std::vector<std::int32_t>& ids) {
  return bytes_of(std::vector<Id>(ids.begin(), ids.end()));
}

}  // namespace

TEST_CASE("Numbers without a header are taken for 16 bits where they have 16, and are refused where they have more") {
  const TemporaryFolder folder;
  std::mt19937 draw(47);
  for (int i = 0; i < 60; ++i) {
    const std::int64_t vocab = std::array<std::int64_t, 7>{2, 4, 65, 256, 50'257, 65'536, 151'936}[draw() % 7];
    const auto ids = drawn_ids(draw, vocab);
    const auto known = i % 2 == 0 ? vocab : 0;
    CAPTURE(i, vocab, known);
    if (vocab <= 65536) {
      const auto narrow = folder.write("narrow.bin", raw_bytes<std::uint16_t>(ids));
      REQUIRE(all_of(*open_token_file(narrow, {TokenBytes::automatic, known})) == ids);
      REQUIRE(all_of(*open_token_file(narrow, {TokenBytes::two, known})) == ids);
    }
    const auto wide = folder.write("wide.bin", raw_bytes<std::uint32_t>(ids));
    const auto longer = folder.write("longer.bin", raw_bytes<std::int64_t>(ids));
    REQUIRE_THAT(usage_message([&] {
                   open_token_file(wide, {TokenBytes::automatic, known});
                 }),
                 Contains("wide.bin has no header") && Contains("data.token_bytes = 4 if they are uint32"));
    REQUIRE_THAT(usage_message([&] {
                   open_token_file(longer, {TokenBytes::automatic, known});
                 }),
                 Contains("They have 64 bits") && Contains("numpy.uint32"));
    REQUIRE(all_of(*open_token_file(wide, {TokenBytes::four, known})) == ids);
    REQUIRE(open_token_file(wide, {TokenBytes::two, known})->size() == 2 * std::ssize(ids));
  }
}

TEST_CASE("What lies next to numbers without a header, or stands at their start, tells what they are") {
  const TemporaryFolder folder;
  const std::string four(400, '\7');
  const auto file = folder.write("x.bin", four);
  const auto error = [&](const RawTokens& raw = {}) { return usage_message([&] { open_token_file(file, raw); }); };
  CHECK(error().empty());
  CHECK_THAT(error({TokenBytes::automatic, 65'537}), Contains("a vocabulary of 65537 ids needs more bits"));
  CHECK(error({TokenBytes::two, 65'537}).empty());
  for (const int code : {1, 3, 4, 5, 8}) {
    CAPTURE(code);
    folder.write("x.idx", std::string("MMIDIDX\0\0\1\0\0\0\0\0\0\0", 17) + static_cast<char>(code) + "more");
    CHECK(error().empty() == (code == 3 || code == 8));
    CHECK(error({TokenBytes::four, 0}).empty());
  }
  for (const std::string& start : {std::string("\x93NUMPY\1"), std::string("PK\3\4"), std::string("\x1f\x8b\x08"),
                                   std::string("\x28\xb5\x2f\xfd"), std::string("TESSERAD")}) {
    folder.write("x.bin", start + four);
    for (const TokenBytes bytes : {TokenBytes::automatic, TokenBytes::two, TokenBytes::four})
      CHECK_THAT(error({bytes, 0}), Contains("and not a file of tokens"));
  }
  folder.write("x.bin", four + "12");
  CHECK_THAT(error({TokenBytes::four, 0}), Contains("402 bytes instead of 400 or 404") && Contains("uint32"));
}
