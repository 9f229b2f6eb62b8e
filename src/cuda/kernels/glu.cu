// Gates of MLPs.

#include "cuda/kernels/activation.cuh"
#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/fp8_tile.cuh"
#include "cuda/kernels/largest.cuh"
#include "cuda/kernels/packs.cuh"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

// Kernels that `Measure` raise the largest magnitudes of what they store. Threads without a place have zeros then.

template <class T, GateActivation activation, bool Measures>
__global__ void __launch_bounds__(kPlaceThreads)
    glu_forward_kernel(Rows<const T> gate, Rows<const T> up, Rows<T> output, std::int64_t rows, std::int64_t columns,
                       bool aligned, unsigned* largest) {
  const Place at(rows, columns);
  if (!Measures && at.left <= 0) return;
  const StoredPack<T> g = load_pack(gate.at(at.row, at.column), at.left, aligned);
  const StoredPack<T> u = load_pack(up.at(at.row, at.column), at.left, aligned);
  float h[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) h[i] = activated<T, activation>(g[i]).value * u[i];
  const StoredPack<T> stored = store_pack(output.at(at.row, at.column), at.left, aligned, h);
  if constexpr (Measures) raise_largest<T, kPlaceThreads>(largest, most_of(stored));
}

/// The matrices that backward reads.
template <class T>
struct GluRows {
  Rows<const T> gate, up, output_gradient;
  std::int64_t rows, columns;
  bool aligned;
};

/// Eight numbers of each.
template <class T, GateActivation activation>
struct GluPack {
  StoredPack<T> g, u, d;

  __device__ __forceinline__ GluPack(const GluRows<T>& a, std::int64_t row, std::int64_t column, std::int64_t left)
      : g(load_pack(a.gate.at(row, column), left, a.aligned)),
        u(load_pack(a.up.at(row, column), left, a.aligned)),
        d(load_pack(a.output_gradient.at(row, column), left, a.aligned)) {}
  /// Makes the gradients of gate and up, and the output again.
  __device__ __forceinline__ void backward(float (&dg)[kPack], float (&du)[kPack], float (&h)[kPack]) const {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const Activated gate_of = activated<T, activation>(g[i]);
      h[i] = gate_of.value * u[i];
      dg[i] = d[i] * u[i] * gate_of.slope;
      du[i] = d[i] * gate_of.value;
    }
  }
};

template <class T, GateActivation activation, bool Measures>
__global__ void __launch_bounds__(kPlaceThreads)
    glu_backward_kernel(const GluRows<T> a, Rows<T> gate_gradient, Rows<T> up_gradient, Rows<T> output,
                        unsigned* gate_largest, unsigned* up_largest, unsigned* output_largest) {
  const Place at(a.rows, a.columns);
  if (!Measures && at.left <= 0) return;
  float h[kPack], dg[kPack], du[kPack];
  GluPack<T, activation>(a, at.row, at.column, at.left).backward(dg, du, h);
  const StoredPack<T> stored_dg = store_pack(gate_gradient.at(at.row, at.column), at.left, a.aligned, dg);
  const StoredPack<T> stored_du = store_pack(up_gradient.at(at.row, at.column), at.left, a.aligned, du);
  StoredPack<T> stored_h{};
  if (output.data != nullptr) stored_h = store_pack(output.at(at.row, at.column), at.left, a.aligned, h);
  if constexpr (Measures) {
    raise_largest<T, kPlaceThreads>({gate_largest, up_largest, output_largest},
                                    {most_of(stored_dg), most_of(stored_du), most_of(stored_h)});
  }
}

// In fp8 backward is computed twice: all of its scales come before the first code, and numbers that are not stored in
// between cost less memory traffic than it takes to read them again.

/// Finds the largest magnitudes of what glu_backward_kernel would store. Blocks are few, as are their atomics.
template <class T, GateActivation activation>
__global__ void __launch_bounds__(kPlaceThreads)
    glu_largest_kernel(const GluRows<T> a, unsigned* gate_largest, unsigned* up_largest, unsigned* output_largest) {
  const auto packs = static_cast<unsigned>((a.columns + kPack - 1) / kPack);
  const std::int64_t all = a.rows * packs, step = std::int64_t{gridDim.x} * kPlaceThreads;
  unsigned gate_most = 0, up_most = 0, output_most = 0;
  for (std::int64_t index = std::int64_t{blockIdx.x} * kPlaceThreads + threadIdx.x; index < all; index += step) {
    const auto row = static_cast<unsigned>(index) / packs;
    const std::int64_t column = static_cast<std::int64_t>(static_cast<unsigned>(index) % packs) * kPack;
    float h[kPack], dg[kPack], du[kPack];
    GluPack<T, activation>(a, row, column, a.columns - column).backward(dg, du, h);
    gate_most = max(gate_most, most_of(stored_as<T>(dg))), up_most = max(up_most, most_of(stored_as<T>(du)));
    output_most = max(output_most, most_of(stored_as<T>(h)));
  }
  raise_largest<T, kPlaceThreads>({gate_largest, up_largest, output_largest}, {gate_most, up_most, output_most});
}

/// Each block makes one tile of both gradients, and of the output if that has a factor.
template <class T, GateActivation activation, Fp8 Gradients>
__global__ void __launch_bounds__(kTileThreads)
    glu_backward_to_fp8_kernel(const GluRows<T> a, const Fp8Result gate, const Fp8Result up, const Fp8Result output) {
  unsigned* const tiles = dynamic_shared<unsigned>();
  const bool has_output = output.factor != nullptr;
  const float gate_scale = scale_of<Gradients>(*gate.largest), up_scale = scale_of<Gradients>(*up.largest);
  const float output_scale = has_output ? scale_of<Fp8::e4m3>(*output.largest) : 0.0f;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *gate.factor = factor_of(*gate.largest, gate_scale), *up.factor = factor_of(*up.largest, up_scale);
    if (has_output) *output.factor = factor_of(*output.largest, output_scale);
  }
  const Fp8Tile at(a.rows, a.columns);
#pragma unroll 1
  for (int i = 0; i < kTileUnits; ++i) {
    const TileUnit unit(at, i);
    const GluPack<T, activation> x[2] = {{a, unit.row, unit.column, unit.left},
                                         {a, unit.row, unit.column + kPack, unit.left - kPack}};
    Bytes16 gate_codes, up_codes, output_codes;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float h[kPack], dg[kPack], du[kPack];
      x[half].backward(dg, du, h);
      const StoredPack<T> stored_dg = stored_as<T>(dg), stored_du = stored_as<T>(du), stored_h = stored_as<T>(h);
#pragma unroll
      for (int word = 0; word < 2; ++word) {
        gate_codes.word[2 * half + word] = four_codes<Gradients>(stored_dg, 4 * word, gate_scale);
        up_codes.word[2 * half + word] = four_codes<Gradients>(stored_du, 4 * word, up_scale);
        output_codes.word[2 * half + word] = four_codes<Fp8::e4m3>(stored_h, 4 * word, output_scale);
      }
    }
    keep_codes(tiles, at, unit, gate_codes, gate), keep_codes(tiles + kTileWords, at, unit, up_codes, up);
    if (has_output) keep_codes(tiles + 2 * kTileWords, at, unit, output_codes, output);
  }
  __syncthreads();
  store_turned(tiles, at, gate), store_turned(tiles + kTileWords, at, up);
  if (has_output) store_turned(tiles + 2 * kTileWords, at, output);
}

/// Calls f<activation, measures>().
template <class F>
void with_gate(GateActivation activation, bool measures, const F& f) {
  using enum GateActivation;
  if (activation == gelu)
    measures ? f.template operator()<gelu, true>() : f.template operator()<gelu, false>();
  else
    measures ? f.template operator()<silu, true>() : f.template operator()<silu, false>();
}

template <class T>
GluRows<T> rows_of(const GluBackward& a, bool aligned) {
  return {.gate = rows_of<T>(a.gate),
          .up = rows_of<T>(a.up),
          .output_gradient = rows_of<T>(a.output_gradient),
          .rows = a.tokens,
          .columns = a.width,
          .aligned = aligned};
}

Fp8Result result_of(const Fp8Output& a, const float* largest) {
  TESSERA_ASSERT(is_aligned(a.factor) && is_aligned(a.output) && is_aligned(a.turned),
                 "fp8 copies at unaligned places");
  return {reinterpret_cast<const unsigned*>(largest), a.factor, rows_of<std::uint8_t>(a.output),
          rows_of<std::uint8_t>(a.turned)};
}

template <class T, GateActivation Activation>
void launch_in_fp8(cudaStream_t stream, const GluBackward& a, const GluRows<T>& rows) {
  constexpr unsigned kMostBlocks = 2048;
  dim3 grid = blocks_of_places(a.tokens, a.width);
  grid.x = std::min(grid.x, kMostBlocks);
  launch(stream, grid, dim3(kPlaceThreads), 0, glu_largest_kernel<T, Activation>, rows, bits_of(a.gate_largest),
         bits_of(a.up_largest), bits_of(a.output_largest));
  const std::size_t tiles = a.output8 ? 3 : 2;
  launch(stream, blocks_for(tiles_of(a.tokens, a.width), 1), dim3(kTileThreads), tiles * kTileWords * sizeof(unsigned),
         a.gate_gradient8.type == Fp8::e4m3 ? glu_backward_to_fp8_kernel<T, Activation, Fp8::e4m3>
                                            : glu_backward_to_fp8_kernel<T, Activation, Fp8::e5m2>,
         rows, result_of(a.gate_gradient8, a.gate_largest), result_of(a.up_gradient8, a.up_largest),
         result_of(a.output8, a.output_largest));
}

}  // namespace

void CudaKernels::enqueue(cudaStream_t stream, const GluForward& a) {
  const bool aligned = is_aligned(a.gate) && is_aligned(a.up) && is_aligned(a.output);
  with_float_type(a.gate.dtype, [&]<class T>() {
    with_gate(a.activation, a.largest != nullptr, [&]<GateActivation Activation, bool Measures>() {
      launch(stream, blocks_of_places(a.tokens, a.width), dim3(kPlaceThreads), 0,
             glu_forward_kernel<T, Activation, Measures>, rows_of<T>(a.gate), rows_of<T>(a.up), rows_of<T>(a.output),
             a.tokens, a.width, aligned, bits_of(a.largest));
    });
  });
}

void CudaKernels::enqueue(cudaStream_t stream, const GluBackward& a) {
  const bool aligned = is_aligned(a.gate) && is_aligned(a.up) && is_aligned(a.output_gradient) &&
                       is_aligned(a.gate_gradient) && is_aligned(a.up_gradient) && is_aligned(a.output);
  with_float_type(a.gate.dtype, [&]<class T>() {
    const GluRows<T> rows = rows_of<T>(a, aligned);
    const bool measures = a.gate_largest != nullptr || a.up_largest != nullptr || a.output_largest != nullptr;
    with_gate(a.activation, measures, [&]<GateActivation Activation, bool Measures>() {
      if (a.gate_gradient8) return launch_in_fp8<T, Activation>(stream, a, rows);
      launch(stream, blocks_of_places(a.tokens, a.width), dim3(kPlaceThreads), 0,
             glu_backward_kernel<T, Activation, Measures>, rows, rows_of<T>(a.gate_gradient), rows_of<T>(a.up_gradient),
             rows_of<T>(a.output), bits_of(a.gate_largest), bits_of(a.up_largest), bits_of(a.output_largest));
    });
  });
}

}  // namespace tessera
