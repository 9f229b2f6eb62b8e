#include <catch2/catch.hpp>

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
    CHECK_FALSE(std::filesystem::exists(folder.path() / "tokens.bin.tmp"));
  }
  CHECK_THROWS_AS(write_token_file(*test::tokens_of_text("abc"), folder.path() / "none" / "tokens.bin"), IoError);
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
