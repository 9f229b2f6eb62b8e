// AdamW with the CPU's bits: every rounding of kernels/cpu/vector/optimizer_rows.hpp is spelt out.

#include "cuda/kernels/checksum.cuh"
#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/packs.cuh"
#include "cuda/kernels/state_rounding.cuh"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr unsigned kThreads = 256;
constexpr int kRuns = 64;  ///< of one launch
/// Elements of a thread: 16 bytes of fp32, so that a warp's accesses are one piece of memory. With eight, every store
/// would leave half of each sector to the next one.
constexpr int kFour = 4;

template <class T>
struct alignas(sizeof(T) * kFour) Four {
  T element[kFour];
};

/// Loads x = p[0..4), at an address that is a multiple of its bytes.
template <class T>
__device__ __forceinline__ void load_four(const T* p, float (&x)[kFour]) {
  const Four<T> stored = *reinterpret_cast<const Four<T>*>(p);
#pragma unroll
  for (int i = 0; i < kFour; ++i) x[i] = to_float(stored.element[i]);
}

/// Stores p[0..4) = x, at such an address.
template <class T>
__device__ __forceinline__ void store_four(T* p, const float (&x)[kFour]) {
  Four<T> stored;
#pragma unroll
  for (int i = 0; i < kFour; ++i) stored.element[i] = from_float<T>(x[i]);
  *reinterpret_cast<Four<T>*>(p) = stored;
}

/// The update of a launch: runs of elements, each by whole blocks.
struct Runs {
  DecayRun run[kRuns];
  std::int64_t first_block[kRuns];
  int count;
};

struct Constants {
  double weight_decay;
  float one_minus_beta1, beta2, one_minus_beta2, epsilon;
};

template <class S>
struct State {
  float* master;
  S *first, *second;
};

/// Updates the elements of one thread. `first`: of the state, for checksums.
template <class T, class Copy, class S, bool kept>
__device__ __forceinline__ void adamw_of_thread(const State<S>& state, const T* gradient, Copy* copy, const Runs& runs,
                                                const Constants& constants, const StepScalars* scalars, bool aligned,
                                                std::int64_t first, ChecksumChanges<3, kept>& changes) {
  int number = 0;
  for (int i = 1; i < runs.count; ++i) number += std::int64_t{blockIdx.x} >= runs.first_block[i] ? 1 : 0;
  const DecayRun run = runs.run[number];
  // Fours lie at multiples of 4 elements of the full range: a run's first and last may be partly its own.
  const std::int64_t four =
      run.begin / kFour + (std::int64_t{blockIdx.x} - runs.first_block[number]) * kThreads + threadIdx.x;
  const std::int64_t i = four * kFour;
  const bool keeps = scalars->skip != 0 || run.is_padding;
  if (i >= run.end || (keeps && copy == nullptr)) return;

  const float clip = scalars->clip_coefficient;
  const float minus_decay =
      run.decays ? -__double2float_rn(__dmul_rn(static_cast<double>(scalars->learning_rate), constants.weight_decay))
                 : -0.0f;
  const float minus_step = -__fdiv_rn(scalars->learning_rate, scalars->bias_correction1);
  const float inverse_correction2 = __fdiv_rn(1.0f, scalars->bias_correction2);
  const RoundingWords<S, kFour> words(scalars, run, i);
  const auto update = [&](std::int64_t j, float g, float& p, float& m, float& v) {
    const float p_old = p, m_old = m, v_old = v;
    g = __fmul_rn(g, clip);
    m = __fmaf_rn(constants.one_minus_beta1, __fsub_rn(g, m), m);
    v = __fmaf_rn(__fmul_rn(constants.one_minus_beta2, g), g, __fmul_rn(constants.beta2, v));
    p = __fmaf_rn(minus_decay, p, p);
    const float root = __fsqrt_rn(__fmul_rn(v, inverse_correction2));
    p = __fmaf_rn(minus_step, __fdiv_rn(m, __fadd_rn(root, constants.epsilon)), p);
    m = words.rounded(m, static_cast<int>(j - i), 0);
    v = words.rounded(v, static_cast<int>(j - i), 16);
    changes.note(0, first + j, p_old, p);
    changes.template note<S>(1, first + j, m_old, m);
    changes.template note<S>(2, first + j, v_old, v);
  };
  if (aligned && i >= run.begin && i + kFour <= run.end) {
    float g[kFour], p[kFour], m[kFour], v[kFour];
    load_four(gradient + i, g);
    load_four(state.master + i, p);
    load_four(state.first + i, m);
    load_four(state.second + i, v);
    if (!keeps) {
#pragma unroll
      for (int j = 0; j < kFour; ++j) update(i + j, g[j], p[j], m[j], v[j]);
      store_four(state.first + i, m);
      store_four(state.second + i, v);
      store_four(state.master + i, p);
    }
    if (copy != nullptr) store_four(copy + i, p);
  } else {
    for (std::int64_t j = i < run.begin ? run.begin : i; j < run.end && j < i + kFour; ++j) {
      if (!keeps) {
        float m = to_float(state.first[j]), v = to_float(state.second[j]);
        update(j, to_float(gradient[j]), state.master[j], m, v);
        state.first[j] = from_float<S>(m), state.second[j] = from_float<S>(v);
      }
      if (copy != nullptr) copy[j] = from_float<Copy>(state.master[j]);
    }
  }
}

template <class T, class Copy, class S, bool kept>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(State<S> state, const T* gradient, Copy* copy, const __grid_constant__ Runs runs,
                 const Constants constants, const StepScalars* scalars, bool aligned, std::int64_t first,
                 Checksum* sums) {
  ChecksumChanges<3, kept> changes;
  adamw_of_thread(state, gradient, copy, runs, constants, scalars, aligned, first, changes);
  if constexpr (kept) add_block_sums<kThreads>(changes.of, sums);
}

}  // namespace

void CudaKernels::adamw(cudaStream_t stream, const ParameterUpdate& a) {
  const Constants constants{a.weight_decay, static_cast<float>(1.0 - a.beta1), static_cast<float>(a.beta2),
                            static_cast<float>(1.0 - a.beta2), static_cast<float>(a.epsilon)};
  const bool aligned = is_aligned(a.master) && is_aligned(a.states[0]) && is_aligned(a.states[1]) &&
                       is_aligned(a.gradient) && is_aligned(a.copy);
  for (std::size_t first = 0; first < a.runs.size(); first += kRuns) {
    Runs runs{};
    std::int64_t blocks = 0;
    for (const DecayRun& run : a.runs.subspan(first, std::min<std::size_t>(kRuns, a.runs.size() - first))) {
      const std::int64_t end = std::min(run.end, a.elements);
      if (run.begin >= end) continue;
      runs.run[runs.count] = run, runs.run[runs.count].end = end;
      runs.first_block[runs.count++] = blocks;
      blocks += ceil_div(ceil_div(end, kFour) - run.begin / kFour, std::int64_t{kThreads});
    }
    with_float_type(a.gradient_dtype, [&]<class T>() {
      with_float_type(a.copy_dtype, [&]<class Copy>() {
        with_state_type(a.states_dtype, [&]<class S>() {
          const State<S> state{a.master, static_cast<S*>(a.states[0]), static_cast<S*>(a.states[1])};
          const auto kernel = a.sums != nullptr ? adamw_kernel<T, Copy, S, true> : adamw_kernel<T, Copy, S, false>;
          launch(stream, blocks_for(blocks, 1), dim3(kThreads), 0, kernel, state, static_cast<const T*>(a.gradient),
                 static_cast<Copy*>(a.copy), runs, constants, a.scalars, aligned, a.first,
                 reinterpret_cast<Checksum*>(a.sums));
        });
      });
    });
  }
}

}  // namespace tessera
