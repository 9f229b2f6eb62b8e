#include <algorithm>
#include <bit>

#include "cuda/comm/nccl/tree_sum.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

#include "comm/float_bits.inc"

constexpr int kInlineLevels = 3;  ///< subtrees of eight are unrolled
constexpr int kMostLevels = 12;
constexpr unsigned kThreads = 256;
constexpr std::int64_t kMostBlocks = 4096;

/// kWidth neighbouring elements, loaded and stored at once.
template <class T, int kWidth>
struct alignas(kWidth * sizeof(T)) Pack {
  T at[kWidth];
};

template <int kWidth>
struct Sums {
  float at[kWidth];
};

template <class Wire, int kWidth>
__device__ Sums<kWidth> load_source(const TreeSources& sources, std::int64_t member, std::int64_t pack,
                                    std::int64_t packs) {
  using Packed = Pack<Wire, kWidth>;
  const auto* const from = member == sources.self ? static_cast<const Packed*>(sources.own)
                                                  : static_cast<const Packed*>(sources.received) + member * packs;
  const Packed loaded = from[pack];
  Sums<kWidth> wide;
  for (int i = 0; i < kWidth; ++i) wide.at[i] = widen(loaded.at[i]);
  return wide;
}

/// Sums the tree over members [first, first + 2^kLevel), as far as there are any. A node with more members than its
/// left half holds splits there, at the largest power of two below its size.
template <class Wire, int kWidth, int kLevel>
__device__ Sums<kWidth> tree(const TreeSources& sources, std::int64_t first, std::int64_t pack, std::int64_t packs) {
  if constexpr (kLevel == 0) {
    return load_source<Wire, kWidth>(sources, first, pack, packs);
  } else {
    constexpr std::int64_t kHalf = std::int64_t{1} << (kLevel - 1);
    Sums<kWidth> sum = tree<Wire, kWidth, kLevel - 1>(sources, first, pack, packs);
    if (first + kHalf < sources.members) {
      const Sums<kWidth> right = tree<Wire, kWidth, kLevel - 1>(sources, first + kHalf, pack, packs);
      for (int i = 0; i < kWidth; ++i) sum.at[i] += right.at[i];
    }
    return sum;
  }
}

/// Handles more than eight members: two equal halves of a level are added when the second is complete, as in binary
/// counting.
template <class Wire, int kWidth>
__device__ Sums<kWidth> tall_tree(const TreeSources& sources, std::int64_t pack, std::int64_t packs) {
  constexpr std::int64_t kLeaves = std::int64_t{1} << kInlineLevels;
  Sums<kWidth> partial[kMostLevels - kInlineLevels + 1];
  int level = -1;
  for (std::int64_t first = 0, eight = 1; first < sources.members; first += kLeaves, ++eight) {
    partial[++level] = tree<Wire, kWidth, kInlineLevels>(sources, first, pack, packs);
    // A last, incomplete eight is added below: it is never a whole half.
    if (first + kLeaves > sources.members) break;
    for (std::int64_t done = eight; done % 2 == 0; done /= 2, --level) {
      for (int i = 0; i < kWidth; ++i) partial[level - 1].at[i] += partial[level].at[i];
    }
  }
  for (; level > 0; --level) {
    for (int i = 0; i < kWidth; ++i) partial[level - 1].at[i] += partial[level].at[i];
  }
  return partial[0];
}

template <class Wire, class Sum, int kWidth, bool kTall>
__global__ void __launch_bounds__(kThreads) tree_sum_kernel(TreeSources sources, Sum* sum, std::int64_t packs) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; pack < packs;
       pack += stride) {
    Sums<kWidth> total;
    if constexpr (kTall) {
      total = tall_tree<Wire, kWidth>(sources, pack, packs);
    } else {
      total = tree<Wire, kWidth, kInlineLevels>(sources, 0, pack, packs);
    }
    Pack<Sum, kWidth> out;
    for (int i = 0; i < kWidth; ++i) narrow(total.at[i], out.at[i]);
    reinterpret_cast<Pack<Sum, kWidth>*>(sum)[pack] = out;
  }
}

template <class Wire, class Sum, int kWidth>
void enqueue(cudaStream_t stream, const TreeSources& sources, void* sum, std::int64_t elements) {
  const std::int64_t packs = elements / kWidth;
  const auto blocks = static_cast<unsigned>(std::min(kMostBlocks, ceil_div(packs, std::int64_t{kThreads})));
  const bool tall = sources.members > (std::int64_t{1} << kInlineLevels);
  const auto kernel = tall ? tree_sum_kernel<Wire, Sum, kWidth, true> : tree_sum_kernel<Wire, Sum, kWidth, false>;
  launch(stream, dim3(blocks), dim3(kThreads), 0, kernel, sources, static_cast<Sum*>(sum), packs);
}

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

}  // namespace

void enqueue_tree_sum(cudaStream_t stream, const TreeSources& sources, DType wire_dtype, void* sum, DType sum_dtype,
                      std::int64_t elements) {
  TESSERA_ASSERT(sources.members >= 1 && sources.members <= std::int64_t{1} << kMostLevels,
                 "a sum over {} ranks on a GPU: 1 to {}", sources.members, 1 << kMostLevels);
  with_float_type(wire_dtype, [&]<class Wire>() {
    with_float_type(sum_dtype, [&]<class Sum>() {
      // Each read is 16 bytes (a store may take two).
      constexpr int kWidth = 16 / static_cast<int>(sizeof(Wire));
      const bool wide = elements % kWidth == 0 && is_aligned(sources.received) && is_aligned(sources.own) &&
                        reinterpret_cast<std::uintptr_t>(sum) % (kWidth * sizeof(Sum)) == 0;
      if (wide) {
        enqueue<Wire, Sum, kWidth>(stream, sources, sum, elements);
      } else {
        enqueue<Wire, Sum, 1>(stream, sources, sum, elements);
      }
    });
  });
}

}  // namespace tessera
