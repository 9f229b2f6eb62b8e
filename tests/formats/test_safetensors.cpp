#include <cmath>

#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/formats/safetensors.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Matchers::Contains;

namespace {

std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::ldexp(static_cast<float>(i % 97) - 48.0f, -static_cast<int>(i % 11));
  return values;
}

template <class T>
std::vector<T> narrow(const std::vector<float>& values) {
  std::vector<T> result;
  for (const float value : values) result.emplace_back(T(value));
  return result;
}

/// A file whose tensors lie at odd addresses: the first has 3 bytes.
std::vector<RawTensor> sample() {
  return {{"odd", "U8", {3}, "abc"},
          {"f32", "F32", {7, 11}, bytes_of(ramp(77))},
          {"bf16", "BF16", {77}, bytes_of(narrow<bf16>(ramp(77)))},
          {"f16", "F16", {11, 1, 7}, bytes_of(narrow<fp16>(ramp(77)))},
          {"empty", "F32", {4, 0, 9}, ""},
          {"scalar", "F32", {}, bytes_of(std::vector<float>{2.5f})},
          {"i64", "I64", {2}, std::string(16, '\1')}};
}

SafetensorsHeader parse(const std::string& header, std::int64_t data_bytes) {
  return parse_safetensors_header(header, data_bytes, "model.safetensors");
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"w\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
}

}  // namespace

TEST_CASE("slices at any place and of any length are the widened elements") {
  const TemporaryFolder folder;
  write_safetensors(folder / "m.safetensors", sample());
  const SafetensorsFile file(folder / "m.safetensors");
  CHECK(file.metadata().at("format") == "pt");
  REQUIRE(file.entries().size() == 7);
  CHECK(file.find("f16")->shape == std::vector<std::int64_t>{11, 1, 7});
  CHECK(file.find("none") == nullptr);
  const auto values = ramp(77);
  for (const std::string name : {"f32", "bf16", "f16"}) {
    for (std::size_t first = 0; first <= 77; ++first) {
      for (std::size_t count = 0; first + count <= 77; ++count) {
        std::vector<float> out(count + 1, -1e9f);
        file.read_slice(name, static_cast<std::int64_t>(first), std::span(out).first(count));
        // The values have 7 bits, so every type holds them exactly.
        const bool same = std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count),
                                     values.begin() + static_cast<std::ptrdiff_t>(first));
        if (!same || out.back() != -1e9f) FAIL(name << " " << first << " " << count);
      }
    }
  }
  float scalar = 0;
  file.read_slice("scalar", 0, {&scalar, 1});
  CHECK(scalar == 2.5f);
  file.read_slice("empty", 0, {});
}

TEST_CASE("reading what is not there is an error naming the tensor") {
  const TemporaryFolder folder;
  write_safetensors(folder / "m.safetensors", sample());
  const SafetensorsFile file(folder / "m.safetensors");
  std::vector<float> out(2);
  CHECK_THAT(message_of<UsageError>([&] { file.read_slice("none", 0, out); }), Contains("none"));
  CHECK_THAT(message_of<UsageError>([&] { file.read_slice("i64", 0, out); }), Contains("i64") && Contains("I64"));
  for (const std::int64_t first : {std::int64_t{76}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    CHECK_THAT(message_of<UsageError>([&] { file.read_slice("f32", first, out); }), Contains("f32") && Contains("77"));
  }
}

TEST_CASE("improper headers are refused with the reason") {
  CHECK(parse("{}", 0).entries.empty());
  CHECK(parse(entry("F32", "[2,3]", "[0,24]") + "   ", 24).entries.at(0).elements == 6);
  CHECK(parse(entry("F4", "[2,3]", "[0,3]"), 3).entries.at(0).dtype_name == "F4");  // unknown types are not checked
  const auto refused = [](const std::string& header, std::int64_t bytes) {
    return message_of<UsageError>([&] { parse(header, bytes); });
  };
  CHECK_THAT(refused("", 0), Contains("not JSON") && Contains("model.safetensors"));
  CHECK_THAT(refused("[]", 0), Contains("a list stands where it does not belong"));
  CHECK_THAT(refused("{\"w\":1}", 0), Contains("tensor w"));
  CHECK_THAT(refused("{\"w\":{}}", 0), Contains("tensor w lacks"));
  CHECK_THAT(refused(entry("F32", "[2,3]", "[0,20]"), 20), Contains("tensor w has 20 bytes, but 6 elements of F32"));
  CHECK_THAT(refused(entry("F32", "[2,-3]", "[0,24]"), 24), Contains("tensor w") && Contains("negative"));
  CHECK_THAT(refused(entry("F32", "[2,1.5]", "[0,24]"), 24), Contains("tensor w") && Contains("fraction"));
  CHECK_THAT(refused(entry("F32", "[[2]]", "[0,8]"), 8), Contains("a list"));
  CHECK_THAT(refused(entry("F32", "[2]", "[8,0]"), 8), Contains("improper data_offsets"));
  CHECK_THAT(refused(entry("F32", "[2]", "[0]"), 8), Contains("improper data_offsets"));
  CHECK_THAT(refused(entry("F32", "[2]", "[0,8,8]"), 8), Contains("more than two"));
  CHECK_THAT(refused(entry("F32", "[2]", "[0,8]"), 7), Contains("cut short"));
  CHECK_THAT(refused(entry("F32", "[2]", "[0,8]"), 9), Contains("end at byte 8 of 9"));
  CHECK_THAT(refused(entry("F32", "[2]", "[1,9]"), 9), Contains("starts at byte 1"));
  CHECK_THAT(refused(entry("F32", "[4294967296,4294967296]", "[0,0]"), 0), Contains("impossible shape"));
  CHECK_THAT(refused(entry("F32", "[2305843009213693952,2]", "[0,0]"), 0), Contains("tensor w"));
  CHECK_THAT(refused(entry("F32", "[18446744073709551615]", "[0,0]"), 0), Contains("tensor w"));
  CHECK_THAT(refused(entry("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"), 4), Contains("dimensions"));
  CHECK_THAT(refused(entry("X", "[1]", "[9223372036854775807,9223372036854775807]"), 4), Contains("tensor w"));
  CHECK_THAT(refused("{\"" + std::string(2000, 'n') + "\":{}}", 0), Contains("2000 bytes"));
  CHECK_THAT(refused(std::string(100000, '['), 0), Contains("does not belong"));
  const std::string one = "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}";
  CHECK_THAT(refused("{" + one + "," + one + "}", 4), Contains("tensor w is there twice"));
  CHECK_THAT(refused("{" + one + ",\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", 6),
             Contains("tensor v starts at byte 2, but the one before it ends at 4"));
  CHECK_THAT(refused("{" + one, 4), Contains("not JSON"));
  CHECK_THAT(refused("{\"a\\u001b[31m\":1}", 4), !Contains("\x1b"));
}

TEST_CASE("files that are no safetensors files are refused") {
  const TemporaryFolder folder;
  const auto path = folder / "m.safetensors";
  const auto refused = [&] { return message_of<UsageError>([&] { SafetensorsFile file(path); }); };
  CHECK_THAT(refused(), Contains("does not exist"));
  CHECK_THROWS_AS(SafetensorsFile(folder.path()), UsageError);
  for (const std::string& text : {std::string(), std::string("1234567")}) {
    write_file(path, text);
    CHECK_THAT(refused(), Contains("not a safetensors file"));
  }
  for (const std::uint64_t claim :
       {std::uint64_t{3}, std::uint64_t{1} << 62, ~std::uint64_t{0}, std::uint64_t{200'000'000}}) {
    std::string text(8, '\0');
    std::memcpy(text.data(), &claim, 8);
    write_file(path, text + "{}");
    CHECK_THAT(refused(), Contains("claims " + std::to_string(claim)));
  }
}

TEST_CASE("a truncated file is refused at every length") {
  const TemporaryFolder folder;
  write_safetensors(folder / "whole.safetensors", sample());
  const std::string whole = read_file(folder / "whole.safetensors");
  for (std::size_t length = 0; length < whole.size(); length += 1 + length / 40) {
    write_file(folder / "cut.safetensors", whole.substr(0, length));
    CHECK_THROWS_AS(SafetensorsFile(folder / "cut.safetensors"), UsageError);
  }
}

TEST_CASE("a mutated header gives a consistent file or an error, never anything else") {
  std::string data;
  for (const RawTensor& tensor : sample()) data += tensor.bytes;
  const auto data_bytes = static_cast<std::int64_t>(data.size());
  const std::string valid = header_text(sample());
  const std::vector<std::string> snippets = {"{",
                                             "}",
                                             "[",
                                             "]",
                                             ",",
                                             ":",
                                             "\"",
                                             "\\",
                                             "-",
                                             "0",
                                             "9",
                                             "e",
                                             ".",
                                             "null",
                                             "true",
                                             "18446744073709551615",
                                             "9223372036854775807",
                                             "{\"",
                                             "\"w\":{}",
                                             "\\ud800",
                                             "\xff"};
  std::mt19937 random(20240520);
  int accepted = 0;
  for (int round = 0; round < 60000; ++round) {
    std::string header = valid;
    for (auto edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t place = random() % (header.size() + 1);
      switch (random() % 5) {
        case 0:
          if (place < header.size()) header[place] = static_cast<char>(random());
          break;
        case 1:
          if (place < header.size()) header[place] = static_cast<char>('0' + random() % 10);
          break;
        case 2:
          header.insert(place, snippets[random() % snippets.size()]);
          break;
        case 3:
          header.erase(place, 1 + random() % 12);
          break;
        default:
          header.insert(place, header.substr(random() % header.size(), random() % 60));
      }
      if (header.empty()) header = "{";
    }
    try {
      const SafetensorsHeader parsed = parse(header, data_bytes);
      ++accepted;
      std::int64_t covered = 0;
      for (const SafetensorsEntry& e : parsed.entries) {
        if (e.first_byte < 0 || e.bytes < 0 || e.first_byte + e.bytes > data_bytes) FAIL("out of range: " << header);
        if (e.dtype && e.elements * size_of(*e.dtype) != e.bytes) FAIL("wrong size: " << header);
        covered += e.bytes;
      }
      if (covered != data_bytes) FAIL("not covered: " << header);
    } catch (const UsageError&) {
    }
  }
  CHECK(accepted > 100);  // the mutations are not all hopeless (names and metadata may change)
}

TEST_CASE("mutated files, size field and data included, are read in full or refused") {
  const TemporaryFolder folder;
  write_safetensors(folder / "whole.safetensors", sample());
  const std::string whole = read_file(folder / "whole.safetensors");
  std::mt19937 random(5);
  for (int round = 0; round < 1500; ++round) {
    std::string text = whole;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      text[random() % (round % 2 == 0 ? 12 : text.size())] = static_cast<char>(random());
    }
    if (round % 5 == 0) text.resize(random() % (text.size() + 50), 'x');
    write_file(folder / "m.safetensors", text);
    try {
      const SafetensorsFile file(folder / "m.safetensors");
      for (const SafetensorsEntry& e : file.entries()) {
        if (!e.dtype) continue;
        std::vector<float> out(static_cast<std::size_t>(e.elements));
        file.read_slice(e.name, 0, out);
      }
    } catch (const UsageError&) {
    }
  }
  SUCCEED();
}
