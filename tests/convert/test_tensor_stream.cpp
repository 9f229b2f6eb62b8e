#include "checkpoint/checkpoint_case.hpp"
#include "tessera/convert/tensor_stream.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kPiece = 1 << 20, kLong = 2 * kPiece + 5;

float long_value(StateKind kind, std::int64_t element) {
  return static_cast<float>(element) + 0.25F * static_cast<float>(kind);
}

/// A checkpoint of a tensor of one element and one of more than two pieces.
void write_long_tensor(const CheckpointFolder& folder) {
  Manifest manifest;
  manifest.step = 1;
  manifest.architecture = some_architecture();
  manifest.tensors = {{"one", {1}, 1}, {"long", {kLong}, kLong}};
  const auto path = folder.begin(1);
  manifest.files.push_back(write_shard(path, 0, manifest.tensors, {{0, 0, 1}, {1, 0, kLong}},
                                       [](StateKind kind, std::int64_t first, std::span<float> out) {
                                         for (std::size_t i = 0; i < out.size(); ++i)
                                           out[i] = long_value(kind, first + static_cast<std::int64_t>(i) - 1);
                                       }));
  manifest.files.push_back(write_virtual_tensors(path, manifest.tensors, manifest.files));
  write_text_atomically(path / std::string(kManifestName), manifest_text(manifest));
  folder.publish(1, 0);
}

}  // namespace

TEST_CASE("a tensor of a checkpoint comes in pieces, in order, each element once") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  write_long_tensor(folder);
  const CheckpointReader checkpoint(folder.of_step(1));
  for (const StateKind kind : {StateKind::parameter, StateKind::second_moment}) {
    std::vector<std::int64_t> pieces;
    std::int64_t next = 0, wrong = 0;
    stream_tensor(checkpoint, kind, 1, [&](std::int64_t first, std::span<const float> values) {
      CHECK(first == next);
      next += static_cast<std::int64_t>(values.size());
      pieces.push_back(static_cast<std::int64_t>(values.size()));
      for (std::size_t i = 0; i < values.size(); ++i)
        wrong += values[i] == long_value(kind, first + static_cast<std::int64_t>(i)) ? 0 : 1;
    });
    CHECK(pieces == std::vector<std::int64_t>{kPiece, kPiece, 5});
    CHECK(wrong == 0);
  }
  int calls = 0;
  stream_tensor(checkpoint, StateKind::parameter, 0, [&](std::int64_t first, std::span<const float> values) {
    CHECK((first == 0 && values.size() == 1 && values[0] == -1));
    ++calls;
  });
  CHECK(calls == 1);
}

TEST_CASE("values are appended in their file's type, ties to even") {
  const TemporaryFolder folder;
  const std::vector<float> values{1.0F + 1.0F / 256, 1.0F + 3.0F / 256, -2.0F};
  const auto written = [&](DType dtype) {
    const auto path = folder / std::string(name_of(dtype));
    SequentialFile file(path);
    append_as(file, dtype, std::span(values).first(1));
    append_as(file, dtype, std::span(values).last(2));
    file.finish();
    return read_file(path);
  };
  CHECK(written(DType::fp32) == std::string(reinterpret_cast<const char*>(values.data()), 12));
  const std::uint16_t bf16[] = {0x3F80, 0x3F82, 0xC000}, fp16[] = {0x3C04, 0x3C0C, 0xC000};
  CHECK(written(DType::bf16) == std::string(reinterpret_cast<const char*>(bf16), 6));
  CHECK(written(DType::fp16) == std::string(reinterpret_cast<const char*>(fp16), 6));
}
