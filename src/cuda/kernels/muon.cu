// Muon's element-wise kernels: the direction that is made orthogonal, and the update by it.

#include "cuda/kernels/checksum.cuh"
#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/packs.cuh"
#include "cuda/kernels/state_rounding.cuh"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr unsigned kThreads = 256;

/// Moves m towards g: the same arithmetic in the direction and in the update.
__device__ __forceinline__ float moved(float m, float g, float one_minus_momentum) {
  return __fmaf_rn(one_minus_momentum, __fsub_rn(g, m), m);
}

template <class T, class S>
__global__ void __launch_bounds__(kThreads)
    direction_kernel(const S* state, const T* gradient, float* output, std::int64_t n, float momentum,
                     float one_minus_momentum, const StepScalars* scalars, bool aligned) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack;
  if (i >= n) return;
  const StoredPack<S> m = load_pack(state + i, n - i, aligned);
  const StoredPack<T> stored = load_pack(gradient + i, n - i, aligned);
  const float clip = scalars->clip_coefficient;
  float out[kPack];
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    const float g = __fmul_rn(stored[j], clip);
    out[j] = __fmaf_rn(momentum, __fsub_rn(moved(m[j], g, one_minus_momentum), g), g);
  }
  store_pack(output + i, n - i, aligned, out);
}

/// Updates the elements of one thread in a run. `first`: of the state, for checksums.
template <class T, class Copy, class S, bool kept>
__device__ __forceinline__ void muon_of_thread(float* master, S* state, const T* gradient, const float* direction,
                                               Copy* copy, const DecayRun& run, double weight_decay,
                                               float one_minus_momentum, const StepScalars* scalars, bool aligned,
                                               std::int64_t first, ChecksumChanges<2, kept>& changes) {
  const std::int64_t i = run.begin + (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack;
  const std::int64_t left = run.end - i;
  const bool keeps = scalars->skip != 0 || run.is_padding;
  if (left <= 0 || (keeps && copy == nullptr)) return;
  const StoredPack<float> old = load_pack(master + i, left, aligned);
  float p[kPack];
#pragma unroll
  for (int j = 0; j < kPack; ++j) p[j] = old[j];
  if (!keeps) {
    const StoredPack<S> m = load_pack(state + i, left, aligned);
    const StoredPack<float> o = load_pack(direction + i, left, aligned);
    const RoundingWords<S, kPack> words(scalars, run, i);
    const StoredPack<T> g = load_pack(gradient + i, left, aligned);
    const float rate = scalars->learning_rate, clip = scalars->clip_coefficient;
    const float decay = run.decays ? __double2float_rn(__dmul_rn(static_cast<double>(rate), weight_decay)) : 0.0f;
    const float scaled = __fmul_rn(rate, run.scale);
    float next[kPack];
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      next[j] = words.rounded(moved(m[j], __fmul_rn(g[j], clip), one_minus_momentum), j, 0);
      p[j] = __fmaf_rn(-scaled, o[j], __fmaf_rn(-decay, p[j], p[j]));
      if (j >= left) continue;
      changes.note(0, first + i + j, old[j], p[j]);
      changes.template note<S>(1, first + i + j, m[j], next[j]);
    }
    store_pack(state + i, left, aligned, next);
    store_pack(master + i, left, aligned, p);
  }
  if (copy != nullptr) store_pack(copy + i, left, aligned, p);
}

/// A run's elements.
template <class T, class Copy, class S, bool kept>
__global__ void __launch_bounds__(kThreads)
    muon_kernel(float* master, S* state, const T* gradient, const float* direction, Copy* copy, const DecayRun run,
                double weight_decay, float one_minus_momentum, const StepScalars* scalars, bool aligned,
                std::int64_t first, Checksum* sums) {
  ChecksumChanges<2, kept> changes;
  muon_of_thread(master, state, gradient, direction, copy, run, weight_decay, one_minus_momentum, scalars, aligned,
                 first, changes);
  if constexpr (kept) add_block_sums<kThreads>(changes.of, sums);
}

}  // namespace

void CudaKernels::enqueue(cudaStream_t stream, const MuonDirection& a) {
  if (a.elements == 0) return;
  const bool aligned = is_aligned(a.state) && is_aligned(a.gradient) && is_aligned(a.output);
  with_float_type(a.gradient_dtype, [&]<class T>() {
    with_state_type(a.state_dtype, [&]<class S>() {
      launch(stream, blocks_for(a.elements, kThreads * kPack), dim3(kThreads), 0, direction_kernel<T, S>,
             static_cast<const S*>(a.state), static_cast<const T*>(a.gradient), a.output, a.elements,
             static_cast<float>(a.momentum), static_cast<float>(1.0 - a.momentum), a.scalars, aligned);
    });
  });
}

void CudaKernels::muon(cudaStream_t stream, const ParameterUpdate& a) {
  for (DecayRun run : a.runs) {
    run.end = std::min(run.end, a.elements);
    if (run.begin >= run.end) continue;
    with_float_type(a.gradient_dtype, [&]<class T>() {
      with_float_type(a.copy_dtype, [&]<class Copy>() {
        const auto* const gradient = static_cast<const T*>(a.gradient);
        auto* const copy = static_cast<Copy*>(a.copy);
        const std::int64_t at = run.begin;
        with_state_type(a.states_dtype, [&]<class S>() {
          auto* const state = static_cast<S*>(a.states[0]);
          const bool aligned = is_aligned(a.master + at) && is_aligned(state + at) && is_aligned(gradient + at) &&
                               is_aligned(a.direction + at) && (copy == nullptr || is_aligned(copy + at));
          const auto kernel = a.sums != nullptr ? muon_kernel<T, Copy, S, true> : muon_kernel<T, Copy, S, false>;
          launch(stream, blocks_for(run.end - run.begin, kThreads * kPack), dim3(kThreads), 0, kernel, a.master, state,
                 gradient, a.direction, copy, run, a.weight_decay, static_cast<float>(1.0 - a.momentum), a.scalars,
                 aligned, a.first, reinterpret_cast<Checksum*>(a.sums));
        });
      });
    });
  }
}

}  // namespace tessera
