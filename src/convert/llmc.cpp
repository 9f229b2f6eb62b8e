// llm.c's model file. It starts with 256 int32: magic, version, context, vocabulary, layers, heads, width, padded
// vocabulary. Then comes each kind of parameter for all layers, one after the other. Linear weights are [out, in] there
// and [in, out] here (as in GPT-2's Conv1D). The table is padded to a multiple of 128 rows.
#include <algorithm>
#include <array>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/convert/convert.hpp"
#include "tessera/convert/tensor_stream.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/fresh_output.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kHeaderInts = 256;
constexpr std::int32_t kMagic = 20240326, kVersionFp32 = 3, kVersionBf16 = 5;
constexpr std::int64_t kRowsOfTable = 128;

bool is_linear(const ParameterTensor& tensor) { return tensor.block >= 0 && tensor.shape.size() == 2; }

/// Returns the numbers of Tessera's tensors in the order of llm.c's file: by role, then by block.
std::vector<std::size_t> order_of(const std::vector<ParameterTensor>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return tensors[i].role; });
  return order;
}

}  // namespace

LlmcFile::LlmcFile(std::filesystem::path path) : path_(std::move(path)) {
  const FileDescriptor file = open_file(path_, OpenFor::reading);
  const std::int64_t bytes = size_of_file(file, path_);
  std::array<std::int32_t, kHeaderInts> header{};
  if (bytes < static_cast<std::int64_t>(sizeof header))
    throw refusal("{} is not a model file of llm.c", path_.string());
  read_at(file, path_, 0, header.data(), sizeof header);
  if (header[0] != kMagic || (header[1] != kVersionFp32 && header[1] != kVersionBf16)) {
    throw refusal("{} is not a model file of llm.c that can be read", path_.string())
        .because("its magic number is {} and its version {}", header[0], header[1])
        .hint("Files with magic number {} and version {} or {} are read", kMagic, kVersionFp32, kVersionBf16);
  }
  dtype_ = header[1] == kVersionFp32 ? DType::fp32 : DType::bf16;
  for (const int i : {2, 3, 4, 5, 6, 7}) {
    if (header[static_cast<std::size_t>(i)] < 1 || header[static_cast<std::size_t>(i)] > (1 << 24))
      throw refusal("{} has the impossible size {} in its header", path_.string(), header[static_cast<std::size_t>(i)]);
  }
  Architecture& a = architecture_;
  a.context = header[2], a.vocab = header[3], a.layers = header[4], a.heads = a.kv_heads = header[5];
  a.width = header[6], a.ffn_width = 4 * a.width;
  const std::int64_t rows = header[7];
  // Checked before anything of that size is allocated: the file holds 12 width^2 elements for every layer.
  const std::int64_t least = checked_multiply(checked_multiply(12 * a.layers, a.width), a.width);
  if (rows < a.vocab || least > bytes) throw refusal("{} is shorter than its header says", path_.string());
  validate(a);
  tensors_ = parameter_tensors(a);
  offsets_.resize(tensors_.size());
  std::int64_t at = sizeof header;
  for (const std::size_t i : order_of(tensors_)) {
    offsets_[i] = at;
    at += (tensors_[i].is_table ? rows * a.width : tensors_[i].elements) * size_of(dtype_);
  }
  if (at != bytes) throw refusal("{} has {} bytes, but its header says {}", path_.string(), bytes, at);
}

void LlmcFile::read(std::int64_t tensor, std::int64_t first, std::span<float> out) {
  const FileDescriptor file = open_file(path_, OpenFor::reading);
  const ParameterTensor& record = tensors_.at(static_cast<std::size_t>(tensor));
  const std::int64_t base = offsets_[static_cast<std::size_t>(tensor)];
  with_float_type(dtype_, [&]<class T>() {
    std::vector<T> values;
    const auto load = [&](std::int64_t element, std::int64_t count) {
      values.resize(static_cast<std::size_t>(count));
      read_at(file, path_, base + element * static_cast<std::int64_t>(sizeof(T)), values.data(),
              count * static_cast<std::int64_t>(sizeof(T)));
    };
    const auto count = static_cast<std::int64_t>(out.size());
    if (!is_linear(record)) {
      load(first, count);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(values[i]);
      return;
    }
    if (turned_tensor_ != tensor) {  // columns there are rows here
      load(0, record.elements);
      turned_tensor_ = tensor;
      turned_.resize(values.size());
      const std::int64_t in = record.shape[0], outputs = record.shape[1];
      for (std::int64_t k = 0; k < record.elements; ++k)
        turned_[static_cast<std::size_t>(k % in * outputs + k / in)] =
            static_cast<float>(values[static_cast<std::size_t>(k)]);
    }
    std::copy_n(turned_.begin() + first, count, out.begin());
  });
}

void write_llmc(const std::filesystem::path& path, const CheckpointReader& checkpoint, DType dtype) {
  const Manifest& manifest = checkpoint.manifest();
  const Architecture& a = manifest.architecture;
  if (!rules_of(a.family).is_llmc || !a.tied_head || a.ffn_width != 4 * a.width)
    throw refusal("llm.c knows only GPT-2 with a tied head and ffn_width = 4 x width");
  if (dtype == DType::fp16) throw refuse("export.dtype", "fp16").because("llm.c has no such file").use("fp32 or bf16");
  const std::int64_t rows = round_up(a.vocab, kRowsOfTable);
  FreshFile fresh(path);
  SequentialFile file(fresh.beside());
  std::array<std::int32_t, kHeaderInts> header{};
  const std::array<std::int64_t, 8> values{
      kMagic, dtype == DType::fp32 ? kVersionFp32 : kVersionBf16, a.context, a.vocab, a.layers, a.heads, a.width, rows};
  std::transform(values.begin(), values.end(), header.begin(),
                 [](std::int64_t v) { return static_cast<std::int32_t>(v); });
  file.append(header.data(), sizeof header);
  const std::vector<ParameterTensor> tensors = parameter_tensors(a);
  TESSERA_ASSERT(manifest.tensors == tensor_records(tensors, manifest.updated_by),
                 "the checkpoint's tensors are not its model's");
  for (const std::size_t i : order_of(tensors)) {
    const ParameterTensor& tensor = tensors[i];
    if (!is_linear(tensor)) {
      stream_tensor(checkpoint, StateKind::parameter, i,
                    [&](std::int64_t, std::span<const float> piece) { append_as(file, dtype, piece); });
      if (tensor.is_table)
        append_as(file, dtype, std::vector<float>(static_cast<std::size_t>((rows - a.vocab) * a.width)));
      continue;
    }
    std::vector<float> transposed(static_cast<std::size_t>(tensor.elements));
    const std::int64_t in = tensor.shape[0], outputs = tensor.shape[1];
    stream_tensor(checkpoint, StateKind::parameter, i, [&](std::int64_t first, std::span<const float> piece) {
      for (std::int64_t k = 0; k < static_cast<std::int64_t>(piece.size()); ++k)
        transposed[static_cast<std::size_t>((first + k) % outputs * in + (first + k) / outputs)] =
            piece[static_cast<std::size_t>(k)];
    });
    append_as(file, dtype, transposed);
  }
  fresh.finish();
}

}  // namespace tessera
