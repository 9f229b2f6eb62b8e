// GELU, gates of MLPs, dropout and rotary positions: matrices element by element.

#include "cuda/kernels/activation.cuh"
#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/dropout_mask.cuh"
#include "cuda/kernels/largest.cuh"
#include "cuda/kernels/packs.cuh"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

// Kernels that `Measure` raise the largest magnitudes of what they store. Threads without a place have zeros then.

template <class T, bool Measures>
__global__ void __launch_bounds__(kPlaceThreads) gelu_kernel(Rows<const T> input, Rows<T> output, std::int64_t rows,
                                                             std::int64_t columns, bool aligned, unsigned* largest) {
  const Place at(rows, columns);
  if (!Measures && at.left <= 0) return;
  const StoredPack<T> x = load_pack(input.at(at.row, at.column), at.left, aligned);
  float y[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) y[i] = gelu_of<T>(x[i]);
  const StoredPack<T> stored = store_pack(output.at(at.row, at.column), at.left, aligned, y);
  if constexpr (Measures) raise_largest<T, kPlaceThreads>(largest, most_of(stored));
}

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

template <class T, GateActivation activation, bool Measures>
__global__ void __launch_bounds__(kPlaceThreads)
    glu_backward_kernel(Rows<const T> gate, Rows<const T> up, Rows<const T> output_gradient, Rows<T> gate_gradient,
                        Rows<T> up_gradient, Rows<T> output, std::int64_t rows, std::int64_t columns, bool aligned,
                        unsigned* gate_largest, unsigned* up_largest, unsigned* output_largest) {
  const Place at(rows, columns);
  if (!Measures && at.left <= 0) return;
  const StoredPack<T> g = load_pack(gate.at(at.row, at.column), at.left, aligned);
  const StoredPack<T> u = load_pack(up.at(at.row, at.column), at.left, aligned);
  const StoredPack<T> d = load_pack(output_gradient.at(at.row, at.column), at.left, aligned);
  float h[kPack], dg[kPack], du[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const Activated gate_of = activated<T, activation>(g[i]);
    h[i] = gate_of.value * u[i];
    dg[i] = d[i] * u[i] * gate_of.slope;
    du[i] = d[i] * gate_of.value;
  }
  const StoredPack<T> stored_dg = store_pack(gate_gradient.at(at.row, at.column), at.left, aligned, dg);
  const StoredPack<T> stored_du = store_pack(up_gradient.at(at.row, at.column), at.left, aligned, du);
  StoredPack<T> stored_h{};
  if (output.data != nullptr) stored_h = store_pack(output.at(at.row, at.column), at.left, aligned, h);
  if constexpr (Measures) {
    raise_largest<T, kPlaceThreads>({gate_largest, up_largest, output_largest},
                                    {most_of(stored_dg), most_of(stored_du), most_of(stored_h)});
  }
}

template <class From, class To>
__global__ void __launch_bounds__(kPlaceThreads)
    dropout_kernel(Rows<const From> input, Rows<To> output, std::int64_t rows, std::int64_t columns,
                   DropoutSource dropout, bool aligned) {
  const Place at(rows, columns);
  if (at.left <= 0) return;
  const StoredPack<From> x = load_pack(input.at(at.row, at.column), at.left, aligned);
  float mask[kPack], y[kPack];
  dropout.row_masks(at.row, columns, at.column, mask);
#pragma unroll
  for (int i = 0; i < kPack; ++i) y[i] = __fmul_rn(x[i], mask[i]);
  store_pack(output.at(at.row, at.column), at.left, aligned, y);
}

/// Columns here are the first halves of all heads side by side: heads * half of them.
template <class T>
__global__ void __launch_bounds__(kPlaceThreads)
    rotary_kernel(Rows<const T> input, Rows<T> output, const float* table, const std::int32_t* positions,
                  std::int64_t rows, std::int64_t heads, std::int64_t half, std::int64_t sequence, float direction,
                  bool whole_packs) {
  const std::int64_t packs = (half + kPack - 1) / kPack;
  const Place at(rows, heads * packs * kPack);
  if (at.left <= 0) return;
  const std::int64_t pack = at.column / kPack, head = pack / packs, first = pack % packs * kPack;
  const std::int64_t low = head * 2 * half + first, left = half - first;
  const std::int64_t position = positions != nullptr ? positions[at.row] : at.row % sequence;
  const float* angles = table + (position * half + first) * 2;
  const StoredPack<T> x = load_pack(input.at(at.row, low), left, whole_packs);
  const StoredPack<T> y = load_pack(input.at(at.row, low + half), left, whole_packs);
  const StoredPack<float> angle[2] = {
      load_pack(angles, 2 * left, whole_packs),  // cosine and sine of a pair side by side
      load_pack(angles + kPack, 2 * left - kPack, whole_packs)};
  float rotated[2][kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const StoredPack<float>& pairs = angle[i / (kPack / 2)];
    const float cosine = pairs[2 * i % kPack], sine = direction * pairs[2 * i % kPack + 1];
    rotated[0][i] = x[i] * cosine - y[i] * sine;
    rotated[1][i] = y[i] * cosine + x[i] * sine;
  }
  store_pack(output.at(at.row, low), left, whole_packs, rotated[0]);
  store_pack(output.at(at.row, low + half), left, whole_packs, rotated[1]);
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

}  // namespace

void CudaKernels::enqueue(cudaStream_t stream, const GeluForward& a) {
  with_float_type(a.input.dtype, [&]<class T>() {
    launch(stream, blocks_of_places(a.rows, a.columns), dim3(kPlaceThreads), 0,
           a.largest != nullptr ? gelu_kernel<T, true> : gelu_kernel<T, false>, rows_of<T>(a.input),
           rows_of<T>(a.output), a.rows, a.columns, is_aligned(a.input) && is_aligned(a.output), bits_of(a.largest));
  });
}

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
    const bool measures = a.gate_largest != nullptr || a.up_largest != nullptr || a.output_largest != nullptr;
    with_gate(a.activation, measures, [&]<GateActivation Activation, bool Measures>() {
      launch(stream, blocks_of_places(a.tokens, a.width), dim3(kPlaceThreads), 0,
             glu_backward_kernel<T, Activation, Measures>, rows_of<T>(a.gate), rows_of<T>(a.up),
             rows_of<T>(a.output_gradient), rows_of<T>(a.gate_gradient), rows_of<T>(a.up_gradient),
             rows_of<T>(a.output), a.tokens, a.width, aligned, bits_of(a.gate_largest), bits_of(a.up_largest),
             bits_of(a.output_largest));
    });
  });
}

void CudaKernels::enqueue(cudaStream_t stream, const ApplyDropout& a) {
  const bool aligned = is_aligned(a.input) && is_aligned(a.output);
  with_float_type(a.input.dtype, [&]<class From>() {
    with_float_type(a.output.dtype, [&]<class To>() {
      launch(stream, blocks_of_places(a.rows, a.columns), dim3(kPlaceThreads), 0, dropout_kernel<From, To>,
             rows_of<From>(a.input), rows_of<To>(a.output), a.rows, a.columns, DropoutSource(a.dropout), aligned);
    });
  });
}

void CudaKernels::enqueue(cudaStream_t stream, const Rotate& a) {
  const std::int64_t rows = a.batch * a.sequence, half = a.head_width / 2;
  const bool whole_packs = is_aligned(a.input) && is_aligned(a.output) && is_aligned(a.table) && half % kPack == 0;
  with_float_type(a.input.dtype, [&]<class T>() {
    launch(stream, blocks_of_places(rows, a.heads * round_up(half, kPack)), dim3(kPlaceThreads), 0, rotary_kernel<T>,
           rows_of<T>(a.input), rows_of<T>(a.output), a.table, a.positions, rows, a.heads, half, a.sequence,
           a.inverse ? -1.0f : 1.0f, whole_packs);
  });
}

}  // namespace tessera
