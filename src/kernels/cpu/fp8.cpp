#include "tessera/base/fp8.hpp"

#include <atomic>

#include "kernels/cpu/cpu_kernels.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kFp8Block = 1024;  ///< of a conversion buffer

/// The largest scale of which the reciprocal is a normal number.
constexpr float kLargestScale = 0x1p126f;

/// Calls f(first, x, n) for a row's numbers in fp32, in blocks.
template <class F>
void for_blocks(const VectorKernels& vector, const ConstView& row, std::int64_t columns, const F& f) {
  alignas(64) float x[kFp8Block];
  const auto to_float = row.dtype == DType::e4m3 ? e4m3_numbers : vector.to_float[storage_index(row.dtype)];
  for (std::int64_t first = 0; first < columns; first += kFp8Block) {
    const std::int64_t n = std::min(kFp8Block, columns - first);
    to_float(row.at(0, first), x, n);
    f(first, x, n);
  }
}

/// Returns the code of a number of e4m3, or of NaN.
std::uint8_t e4m3_code(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number), magnitude = bits & 0x7fffffffu;
  const std::uint32_t code = magnitude < 0x3c800000u  // 2^-6, from which on numbers have exponents of their own
                                 ? static_cast<std::uint32_t>(std::abs(number) * 0x1p9f)
                                 : std::min((magnitude >> 20) - (120u << 3), 0x7fu);
  return static_cast<std::uint8_t>((bits >> 24 & 0x80u) | code);
}

float scale_of(Fp8 type, float largest) {
  return largest > 0 ? std::min(largest_of(type) / largest, kLargestScale) : 1.0f;
}

float e4m3_number(std::uint8_t code) {
  const std::uint32_t magnitude = code & 0x7fu;
  float number = std::numeric_limits<float>::quiet_NaN();
  if (magnitude < 8)
    number = static_cast<float>(magnitude) * 0x1p-9f;
  else if (magnitude < 0x7f)
    number = std::bit_cast<float>((magnitude << 20) + (120u << 23));
  return (code & 0x80u) != 0 ? -number : number;
}

}  // namespace

void e4m3_numbers(const void* codes, float* out, std::int64_t n) {
  std::transform(static_cast<const std::uint8_t*>(codes), static_cast<const std::uint8_t*>(codes) + n, out,
                 e4m3_number);
}

void e4m3_codes(const float* numbers, void* out, std::int64_t n) {
  std::transform(numbers, numbers + n, static_cast<std::uint8_t*>(out), e4m3_code);
}

void CpuKernels::raise(float* largest, const ConstView& row, std::int64_t columns) const {
  if (largest == nullptr) return;
  std::uint32_t most = 0;  // bits, whose order is that of the magnitudes
  for_blocks(vector_, row, columns, [&](std::int64_t, const float* numbers, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      most = std::max(most, std::bit_cast<std::uint32_t>(numbers[i]) & 0x7fffffffu);
  });
  const std::atomic_ref<float> number(*largest);
  float before = number.load(std::memory_order_relaxed);
  while (std::bit_cast<std::uint32_t>(before) < most &&
         !number.compare_exchange_weak(before, std::bit_cast<float>(most), std::memory_order_relaxed)) {
  }
}

float CpuKernels::largest_in(const ToFp8& a) {
  const Tiling tiles = Tiling::of_size(a.rows, 16);
  float largest = 0;
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    for (std::int64_t row = tiles[task].begin; row < tiles[task].end; ++row)
      raise(&largest, a.input.rows_from(row), a.columns);
  });
  return largest;
}

void CpuKernels::compute(const LargestMagnitude& a) {
  ToFp8 rows;
  rows.rows = a.elements / kFp8Block, rows.columns = kFp8Block, rows.input = {a.x.data, a.x.dtype, kFp8Block};
  ToFp8 rest = rows;
  rest.rows = 1, rest.columns = a.elements % kFp8Block, rest.input.data = rows.input.at(rows.rows, 0);
  for (const ToFp8& part : {rows, rest}) {
    float most = largest_in(part);
    alignas(float) std::byte rounded[sizeof most];
    vector_.from_float[storage_index(a.rounded_to)](&most, rounded, 1);
    vector_.to_float[storage_index(a.rounded_to)](rounded, &most, 1);
    *a.largest = std::max(*a.largest, std::int64_t{std::bit_cast<std::uint32_t>(most)});
  }
}

void CpuKernels::compute(const ToCodes& a) {
  const float scale = scale_of(Fp8::e4m3, std::bit_cast<float>(static_cast<std::uint32_t>(*a.largest)));
  const Tiling tiles = Tiling::of_size(a.elements, 16 * kFp8Block);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    const Tile tile = tiles[task];
    alignas(64) std::byte rounded[kFp8Block * sizeof(float)];
    for_blocks(vector_, a.x.columns_from(tile.begin), tile.size(),
               [&](std::int64_t column, float* block, std::int64_t length) {
                 vector_.from_float[storage_index(a.rounded_to)](block, rounded, length);
                 vector_.to_float[storage_index(a.rounded_to)](rounded, block, length);
                 for (std::int64_t i = 0; i < length; ++i) block[i] = round_to_fp8(Fp8::e4m3, block[i] * scale);
                 e4m3_codes(block, static_cast<std::byte*>(a.codes) + tile.begin + column, length);
               });
  });
}

void CpuKernels::compute(const ToFp8& a) {
  const Tiling tiles = Tiling::of_size(a.rows, 16);
  const float magnitude = a.largest != nullptr ? *a.largest : largest_in(a);
  const float scale = scale_of(a.type, magnitude);
  const bool is_code = a.input.dtype == DType::e4m3;
  *a.factor = std::isfinite(magnitude) ? 1.0f / scale : std::numeric_limits<float>::quiet_NaN();
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    for (std::int64_t row = tiles[task].begin; row < tiles[task].end; ++row) {
      for_blocks(vector_, a.input.rows_from(row), a.columns, [&](std::int64_t column, float* x, std::int64_t n) {
        for (std::int64_t i = 0; !is_code && i < n; ++i) x[i] = round_to_fp8(a.type, x[i] * scale);
        vector_.from_float[storage_index(a.output.dtype)](x, a.output.at(row, column), n);
      });
    }
  });
}

}  // namespace tessera
