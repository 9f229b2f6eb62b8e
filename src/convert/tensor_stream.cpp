#include "tessera/convert/tensor_stream.hpp"

#include <algorithm>

namespace tessera {

namespace {

constexpr std::int64_t kPiece = 1 << 20;  // elements

}  // namespace

TensorStream stream_of(const CheckpointReader& checkpoint) {
  return {checkpoint.manifest().tensors, [&checkpoint](std::size_t tensor, const UsePiece& use) {
            stream_tensor(checkpoint, StateKind::parameter, tensor, use);
          }};
}

void stream_tensor(const CheckpointReader& checkpoint, StateKind kind, std::size_t tensor, const UsePiece& use) {
  const std::int64_t all = checkpoint.manifest().tensors[tensor].elements;
  std::vector<float> values(static_cast<std::size_t>(std::min(kPiece, all)));
  for (std::int64_t first = 0; first < all; first += kPiece) {
    const auto piece = std::span(values).first(static_cast<std::size_t>(std::min(kPiece, all - first)));
    checkpoint.read_tensor(kind, static_cast<std::int64_t>(tensor), first, piece);
    use(first, piece);
  }
}

void append_as(SequentialFile& file, DType dtype, std::span<const float> values) {
  if (dtype == DType::fp32) return file.append(values.data(), static_cast<std::int64_t>(values.size_bytes()));
  std::vector<std::byte> narrow(values.size() * static_cast<std::size_t>(size_of(dtype)));
  convert(values.data(), DType::fp32, narrow.data(), dtype, std::ssize(values));
  file.append(narrow.data(), std::ssize(narrow));
}

}  // namespace tessera
