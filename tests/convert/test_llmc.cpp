#include <cstring>

#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/reader.hpp"
#include "tessera/convert/convert.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

Architecture odd_gpt2() {
  Architecture a = preset("nano");
  a.layers = 2, a.heads = a.kv_heads = 3, a.width = 15, a.ffn_width = 60, a.vocab = 131, a.context = 7;
  return a;
}

/// A value that bf16 holds, and that few other elements have.
float element(std::int64_t tensor, std::int64_t i) {
  return static_cast<float>(bf16(static_cast<float>((tensor * 7919 + i * 31) % 4001) / 512.0f - 3.0f));
}

/// A checkpoint with these elements.
std::filesystem::path checkpoint_at(const std::filesystem::path& path, const Architecture& architecture) {
  const WeightSource weights = [](std::int64_t tensor, std::int64_t first, std::span<float> out) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = element(tensor, first + static_cast<std::int64_t>(i));
  };
  write_imported_checkpoint(path, architecture, weights, {});
  return path;
}

std::int32_t header_word(const std::string& bytes, std::size_t i) {
  std::int32_t word = 0;
  std::memcpy(&word, bytes.data() + 4 * i, sizeof word);
  return word;
}

float float_at(const std::string& bytes, std::int64_t element) {
  float value = 0;
  std::memcpy(&value, bytes.data() + 1024 + 4 * element, sizeof value);
  return value;
}

}  // namespace

TEST_CASE("a model comes back from llm.c's file, in both types") {
  const TemporaryFolder folder;
  const Architecture a = odd_gpt2();
  const CheckpointReader checkpoint(checkpoint_at(folder / "checkpoint", a));
  const auto tensors = tensor_records(parameter_tensors(a));
  for (const DType type : {DType::fp32, DType::bf16}) {
    CAPTURE(name_of(type));
    const auto path = folder / std::string(name_of(type));
    write_llmc(path, checkpoint, type);
    LlmcFile file(path);
    CHECK(file.architecture() == a);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      // In two pieces, the second one first.
      const std::int64_t all = tensors[t].elements, cut = all / 3;
      std::vector<float> values(static_cast<std::size_t>(all));
      const std::span<float> out(values);
      const auto tensor = static_cast<std::int64_t>(t);
      file.read(tensor, cut, out.subspan(static_cast<std::size_t>(cut)));
      file.read(tensor, 0, out.first(static_cast<std::size_t>(cut)));
      for (std::int64_t i = 0; i < all; ++i)
        if (values[static_cast<std::size_t>(i)] != element(tensor, i)) FAIL(tensors[t].name << " element " << i);
    }
  }
}

TEST_CASE("llm.c's file is laid out as its own programs read it") {
  const TemporaryFolder folder;
  const Architecture a = odd_gpt2();
  write_llmc(folder / "file", CheckpointReader(checkpoint_at(folder / "checkpoint", a)), DType::fp32);
  const std::string bytes = read_file(folder / "file");
  const std::vector<std::int32_t> header{20240326, 3, 7, 131, 2, 3, 15, 256};
  for (std::size_t i = 0; i < 256; ++i) CHECK(header_word(bytes, i) == (i < header.size() ? header[i] : 0));
  // The table first, then rows of padding, positions, the first norm's gain of both layers.
  CHECK(float_at(bytes, 131 * 15 - 1) == element(0, 131 * 15 - 1));
  CHECK(float_at(bytes, 131 * 15) == 0);
  CHECK(float_at(bytes, 256 * 15 - 1) == 0);
  CHECK(float_at(bytes, 256 * 15 + 8) == element(1, 8));
  const std::int64_t gains = 256 * 15 + 7 * 15;
  CHECK(float_at(bytes, gains + 4) == element(2, 4));
  CHECK(float_at(bytes, gains + 15 + 4) == element(2 + 12, 4));
  // A weight is [out, in] there: its element (2, 1) is (1, 2) of ours, which has 45 columns.
  const std::int64_t qkv = gains + 4 * 15;
  CHECK(float_at(bytes, qkv + 2 * 15 + 1) == element(4, 1 * 45 + 2));
}

TEST_CASE("a file that is not llm.c's, or not whole, is refused by name") {
  const TemporaryFolder folder;
  write_llmc(folder / "good", CheckpointReader(checkpoint_at(folder / "checkpoint", odd_gpt2())), DType::bf16);
  const std::string good = read_file(folder / "good");
  const auto error = [&](std::string bytes, std::size_t word, std::int32_t value) {
    std::memcpy(bytes.data() + 4 * word, &value, sizeof value);
    const auto path = folder.write("bad", bytes);
    const std::string message = message_of<UsageError>([&] { LlmcFile file(path); });
    CHECK_THAT(message, Contains(word >= 5 && word != 6 && word != 7 ? "" : path.string()));
    return message;
  };
  CHECK_THAT(error(good, 0, 20240520), Contains("magic number is 20240520"));
  CHECK_THAT(error(good, 1, 4), Contains("version 4"));
  CHECK_THAT(error(good, 4, 0), Contains("impossible size 0"));
  CHECK_THAT(error(good, 4, 1 << 20), Contains("shorter than its header says"));
  CHECK_THAT(error(good, 7, 130), Contains("shorter than its header says"));
  CHECK_THAT(error(good, 5, 4), Contains("model.width"));
  CHECK_THAT(error(good + "x", 2, 7), Contains("its header says"));
  CHECK_THAT(error(good.substr(0, good.size() - 2), 2, 7), Contains("its header says"));
  CHECK_THAT(error(good.substr(0, 1000), 2, 7), Contains("is not a model file of llm.c"));
}

TEST_CASE("models and types that llm.c does not know are not written") {
  const TemporaryFolder folder;
  Architecture untied = odd_gpt2(), wide = odd_gpt2();
  untied.tied_head = false;
  wide.ffn_width = 61;
  for (const auto& [name, architecture] : {std::pair("untied", untied), std::pair("wide", wide)}) {
    const CheckpointReader checkpoint(checkpoint_at(folder / name, architecture));
    CHECK_THAT(message_of<UsageError>([&] { write_llmc(folder / "out", checkpoint, DType::fp32); }),
               Contains("llm.c knows only GPT-2 with a tied head"));
  }
  const CheckpointReader checkpoint(checkpoint_at(folder / "good", odd_gpt2()));
  CHECK_THAT(message_of<UsageError>([&] { write_llmc(folder / "out", checkpoint, DType::fp16); }),
             Contains("export.dtype = fp16"));
  CHECK_FALSE(std::filesystem::exists(folder / "out"));
  folder.write("out", "mine");
  CHECK_THAT(message_of<UsageError>([&] { write_llmc(folder / "out", checkpoint, DType::fp32); }), Contains("exists"));
  CHECK(read_file(folder / "out") == "mine");
}
