#pragma once
// The CPU's kernels: loops over tasks on a ThreadPool, rows by VectorKernels, tiles of matmuls by oneDNN. The methods
// are defined in one file per subject.

#include <algorithm>
#include <vector>

#include "kernels/cpu/storage.hpp"
#include "kernels/cpu/vector/vector_kernels.hpp"
#include "kernels/cpu/worker_scratch.hpp"
#include "kernels/tiling.hpp"
#include "tessera/backend/thread_pool.hpp"
#include "tessera/kernels/kernels.hpp"

namespace tessera {

/// Conversions of codes to their numbers, and back, as VectorKernels has them of other types.
void e4m3_numbers(const void* codes, float* out, std::int64_t n);
void e4m3_codes(const float* numbers, void* out, std::int64_t n);

class CpuKernels final : public Kernels {
 public:
  CpuKernels(ThreadPool& pool, InstructionSet set);

  void embedding_forward(Stream& stream, const EmbeddingForward& a) override;
  void embedding_backward(Stream& stream, const EmbeddingBackward& a) override;
  void norm_forward(Stream& stream, const NormForward& a) override;
  void norm_backward(Stream& stream, const NormBackward& a) override;
  void to_fp8(Stream& stream, const Fp8Arguments& a) override;
  void largest_magnitude(Stream& stream, const void* x, DType dtype, std::int64_t n, DType rounded_to,
                         std::int64_t* largest) override;
  void to_codes(Stream& stream, const void* x, DType dtype, std::int64_t n, DType rounded_to,
                const std::int64_t* largest, void* codes) override;
  void linear_forward(Stream& stream, const LinearForward& a) override;
  void linear_backward(Stream& stream, const LinearBackward& a) override;
  void gelu(Stream& stream, ConstView input, View output, std::int64_t rows, std::int64_t columns,
            float* largest) override;
  void attention_forward(Stream& stream, const AttentionForward& a) override;
  void attention_backward(Stream& stream, const AttentionBackward& a) override;
  void attention_cached(Stream& stream, const AttentionCached& a) override;
  void rotary(Stream& stream, const RotaryArguments& a) override;
  void glu_forward(Stream& stream, const GluForward& a) override;
  void glu_backward(Stream& stream, const GluBackward& a) override;
  void head(Stream& stream, const HeadArguments& a) override;
  void dropout(Stream& stream, ConstView input, View output, std::int64_t rows, std::int64_t columns,
               const Dropout& dropout) override;
  void cast(Stream& stream, const void* src, DType src_dtype, void* dst, DType dst_dtype, std::int64_t n) override;
  void fill_zero(Stream& stream, void* data, std::int64_t bytes) override;
  void add(Stream& stream, const void* a, DType a_dtype, const void* b, DType b_dtype, void* out, DType out_dtype,
           std::int64_t n) override;
  void square_sum(Stream& stream, const void* x, DType dtype, std::int64_t n, ExactSum* sum) override;
  void checksum(Stream& stream, const void* data, std::int64_t words, std::int64_t first, std::uint64_t* sum) override;
  void adamw(Stream& stream, const UpdateArguments& a) override;
  void muon_direction(Stream& stream, const DirectionArguments& a) override;
  void muon(Stream& stream, const UpdateArguments& a) override;
  void orthogonalize(Stream& stream, const OrthogonalizeArguments& a) override;
  void accumulate_loss(Stream& stream, const AccountArguments& a) override;
  void clip(Stream& stream, const ClipArguments& a) override;
  std::string description() const override;

 private:
  /// Whether states are bf16, rounded at random.
  static bool is_rounded(const UpdateArguments& a) { return a.states_dtype != DType::fp32; }
  /// Calls update(run, begin, end, words) for pieces of all runs that are to change, and makes the copies. Takes tiles
  /// that caches hold, and keeps the update's checksums, if it has any. `words`: of the piece's elements, if states are
  /// rounded.
  template <class Update>
  void update_runs(const UpdateArguments& a, const Update& update) {
    const bool skips = a.scalars->skip != 0;
    if (skips && a.copy == nullptr) return;
    const Tiling tiles = Tiling::of_size(a.elements, kUpdateGrain);
    pool_.parallel_for(tiles.count(), [&](std::int64_t task, int worker) {
      const Tile tile = tiles[task];
      for (const DecayRun& run : a.runs) {
        const std::int64_t begin = std::max(run.begin, tile.begin), end = std::min(run.end, tile.end);
        if (begin >= end) continue;
        if (!skips && !run.is_padding) {
          if (a.sums != nullptr) add_to_sums(a, begin, end, -std::uint64_t{1});
          update(run, begin, end, rounding_words(a, run, begin, end, worker));
          if (a.sums != nullptr) add_to_sums(a, begin, end, 1);
        }
        if (a.copy != nullptr) {  // of what the cache still holds
          vector_.from_float[storage_index(a.copy_dtype)](
              a.master + begin, static_cast<std::byte*>(a.copy) + begin * size_of(a.copy_dtype), end - begin);
        }
      }
    });
  }
  /// Returns the random words of elements [begin, end) of a run, in the worker's scratch; null if none are needed.
  const std::uint32_t* rounding_words(const UpdateArguments& a, const DecayRun& run, std::int64_t begin,
                                      std::int64_t end, int worker);
  /// Adds sign * the checksums of elements [begin, end) to those of an update.
  void add_to_sums(const UpdateArguments& a, std::int64_t begin, std::int64_t end, std::uint64_t sign) const;
  /// Returns the largest magnitude of an operand.
  float largest_in(const Fp8Arguments& a);
  /// Raises *largest to the largest magnitude of a row, unless it is null. Tasks may do so at the same time.
  void raise(float* largest, const ConstView& row, std::int64_t columns) const;
  static constexpr std::int64_t kUpdateGrain = 16384;  ///< elements of a tile of an update
  ScratchLayout scratch_of(int worker) { return workers_[static_cast<std::size_t>(worker)].scratch(); }

  ThreadPool& pool_;
  InstructionSet set_;
  const VectorKernels& vector_;
  std::vector<WorkerScratch> workers_;  ///< one per thread
  std::vector<ExactSum> worker_sums_;   ///< one per thread
};

}  // namespace tessera
