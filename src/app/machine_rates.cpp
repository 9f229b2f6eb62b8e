#include "app/machine_rates.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

namespace tessera {

namespace {

struct ProductShape {
  std::int64_t tokens, in, out;
};
/// Squares and the shape of a linear, and two whose operands stay in a core's own cache: which is best depends on the
/// machine. Rows end off multiples of 4 KiB.
constexpr ProductShape kShapes[] = {
    {1024, 1024, 1024}, {1536, 1536, 1536}, {2048, 768, 2304}, {1024, 512, 128}, {1024, 512, 256}};
constexpr std::int64_t kPad = 16, kLargest = 2048 * (2304 + kPad);

template <class F>
double best_seconds(int repetitions, F&& run) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

/// Values between -0.5 and 0.5: products neither overflow nor become subnormal.
void fill(Kernels& kernels, Stream& stream, void* data, DType dtype, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 1021) / 1021.0f - 0.5f;
  kernels.cast(stream, values.data(), DType::fp32, data, dtype, count);
}

/// Four times the last level of cache, between 64 and 512 MiB.
std::int64_t copy_bytes() {
  const auto cache = static_cast<std::int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE));
  return std::clamp<std::int64_t>(4 * cache, std::int64_t{64} << 20, std::int64_t{512} << 20);
}

}  // namespace

ProductRate::ProductRate(Kernels& kernels, DType dtype)
    : kernels_(kernels),
      dtype_(dtype),
      stream_(make_serial_stream("bench")),
      input_(kLargest * size_of(dtype)),
      weight_(kLargest * size_of(dtype)),
      output_(kLargest * size_of(dtype)) {
  fill(kernels, *stream_, input_.data(), dtype, kLargest);
  fill(kernels, *stream_, weight_.data(), dtype, kLargest);
}

void ProductRate::sample() {
  for (const ProductShape& shape : kShapes) {
    LinearForward product;
    product.tokens = shape.tokens, product.in = shape.in, product.out = shape.out;
    product.input = {input_.data(), dtype_, shape.in + kPad};
    product.weight = {weight_.data(), dtype_, shape.out + kPad};
    product.output = {output_.data(), dtype_, shape.out + kPad};
    const double seconds = best_seconds(2, [&] { kernels_.linear_forward(*stream_, product); });
    best_ = std::max(best_, 2.0 * static_cast<double>(shape.tokens * shape.in * shape.out) / seconds);
  }
}

double copy_rate(Kernels& kernels) {
  const std::int64_t bytes = copy_bytes(), count = bytes / size_of(DType::fp32);
  Region from(bytes), to(bytes);
  std::fill_n(from.data(), bytes, std::byte{1});  // pages that nobody wrote are all one page of zeros
  const auto stream = make_serial_stream("bench");
  const auto copy = [&] { kernels.cast(*stream, from.data(), DType::fp32, to.data(), DType::fp32, count); };
  copy();  // takes the pages of `to`
  return 2.0 * static_cast<double>(bytes) / best_seconds(5, copy);
}

}  // namespace tessera
