#include "cuda/backend/fill_pattern.hpp"
#include "tessera/backend/pattern.hpp"
#include "tessera/backend/region.hpp"
#include "tessera/base/error.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kThreads = 256, kMostBlocks = 1024, kWord = 16;

/// Returns sixteen bytes of the pattern.
__device__ ulonglong2 pattern_word(std::uint64_t offset) {
  ulonglong2 word{0, 0};
#pragma unroll
  for (unsigned i = 0; i < 8; ++i) {
    word.x |= static_cast<unsigned long long>(pattern_at(offset + i)) << (8 * i);
    word.y |= static_cast<unsigned long long>(pattern_at(offset + 8 + i)) << (8 * i);
  }
  return word;
}

/// Fills by words if `memory` is aligned to them; the rest byte by byte.
__global__ void fill_pattern_kernel(std::uint8_t* memory, std::int64_t bytes, std::int64_t words) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = first; i < words; i += step)
    reinterpret_cast<ulonglong2*>(memory)[i] = pattern_word(static_cast<std::uint64_t>(i * kWord));
  for (std::int64_t i = words * kWord + first; i < bytes; i += step)
    memory[i] = pattern_at(static_cast<std::uint64_t>(i));
}

/// Returns whether any of the bytes memory[begin .. end) has changed; `begin` lies on a word.
__device__ bool has_changed(const std::uint8_t* memory, std::int64_t begin, std::int64_t end, std::int64_t offset) {
  for (; begin + kWord <= end; begin += kWord) {
    const ulonglong2 here = *reinterpret_cast<const ulonglong2*>(memory + begin);
    const ulonglong2 filled = pattern_word(static_cast<std::uint64_t>(offset + begin));
    if (here.x != filled.x || here.y != filled.y) return true;
  }
  for (; begin < end; ++begin) {
    if (memory[begin] != pattern_at(static_cast<std::uint64_t>(offset + begin))) return true;
  }
  return false;
}

/// A thread checks one piece: of a written one, it mostly reads the first word.
__global__ void count_touched_kernel(const std::uint8_t* memory, std::int64_t bytes, std::int64_t offset,
                                     unsigned long long* touched) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  unsigned long long sum = 0;
  for (std::int64_t piece = first; piece * kTouchPiece < bytes; piece += step) {
    const std::int64_t begin = piece * kTouchPiece;
    const std::int64_t end = begin + kTouchPiece < bytes ? begin + kTouchPiece : bytes;
    if (has_changed(memory, begin, end, offset)) sum += static_cast<unsigned long long>(end - begin);
  }
  if (sum > 0) atomicAdd(touched, sum);
}

/// Returns as many blocks as rounds of `each` bytes, within reason.
dim3 blocks_of(std::int64_t bytes, std::int64_t each) {
  const std::int64_t blocks = (bytes + each - 1) / each;
  return dim3(static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks));
}

}  // namespace

void launch_fill_pattern(cudaStream_t stream, std::byte* memory, std::int64_t bytes) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(memory) % kWord == 0;
  launch(stream, blocks_of(bytes, kThreads * kWord), dim3(kThreads), 0, fill_pattern_kernel,
         reinterpret_cast<std::uint8_t*>(memory), bytes, aligned ? bytes / kWord : 0);
}

void launch_count_touched(cudaStream_t stream, const std::byte* memory, std::int64_t bytes, std::int64_t offset,
                          unsigned long long* touched) {
  TESSERA_ASSERT(reinterpret_cast<std::uintptr_t>(memory) % kWord == 0 && offset % kTouchPiece == 0,
                 "memory at {} is looked at from {} on", static_cast<const void*>(memory), offset);
  launch(stream, blocks_of(bytes, kThreads * kTouchPiece), dim3(kThreads), 0, count_touched_kernel,
         reinterpret_cast<const std::uint8_t*>(memory), bytes, offset, touched);
}

}  // namespace tessera
