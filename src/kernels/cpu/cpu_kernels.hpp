#pragma once
// The CPU's kernels: loops over tasks on a ThreadPool, rows by VectorKernels, tiles of matmuls by oneDNN. The
// overloads of compute() are defined in one file per subject.

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

  void run(Stream& stream, const KernelArguments& call) override;
  Implementation description() const override;

 private:
  void compute(const EmbeddingForward& a);
  void compute(const EmbeddingBackward& a);
  void compute(const NormForward& a);
  void compute(const NormBackward& a);
  void compute(const ToFp8& a);
  void compute(const LargestMagnitude& a);
  void compute(const ToCodes& a);
  void compute(const LinearForward& a);
  void compute(const LinearBackward& a);
  void compute(const GeluForward& a);
  void compute(const AttentionForward& a);
  void compute(const AttentionBackward& a);
  void compute(const AttentionCached& a);
  void compute(const Rotate& a);
  void compute(const GluForward& a);
  void compute(const GluBackward& a);
  void compute(const HeadLoss& a);
  void compute(const ApplyDropout& a);
  void compute(const Cast& a);
  void compute(const FillZero& a);
  void compute(const Add& a);
  void compute(const SquareSum& a);
  void compute(const AddChecksum& a);
  void compute(const ParameterUpdate& a);
  void compute(const MuonDirection& a);
  void compute(const Orthogonalize& a);
  void compute(const AddLoss& a);
  void compute(const Clip& a);
  void adamw(const ParameterUpdate& a);
  void muon(const ParameterUpdate& a);

  /// Whether states are bf16, rounded at random.
  static bool is_rounded(const ParameterUpdate& a) { return a.states_dtype != DType::fp32; }
  /// Calls update(run, begin, end, words) for pieces of all runs that are to change, and makes the copies. Takes tiles
  /// that caches hold, and keeps the update's checksums, if it has any. `words`: of the piece's elements, if states are
  /// rounded.
  template <class Update>
  void update_runs(const ParameterUpdate& a, const Update& update) {
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
  const std::uint32_t* rounding_words(const ParameterUpdate& a, const DecayRun& run, std::int64_t begin,
                                      std::int64_t end, int worker);
  /// Adds sign * the checksums of elements [begin, end) to those of an update.
  void add_to_sums(const ParameterUpdate& a, std::int64_t begin, std::int64_t end, std::uint64_t sign) const;
  /// Returns the largest magnitude of an operand.
  float largest_in(const ToFp8& a);
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
