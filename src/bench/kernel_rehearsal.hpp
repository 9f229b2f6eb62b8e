#pragma once
// The kernels of a training step, called on separate buffers on any device: one block stands for all blocks, without a
// schedule or peers.

#include <cstdint>
#include <vector>

#include "bench/device.hpp"
#include "bench/kernel_work.hpp"
#include "tessera/config/options.hpp"
#include "tessera/model/decoder.hpp"

namespace tessera {

class KernelRehearsal {
 public:
  /// Allocates the memory of `work`, with initial weights and drawn tokens. References must outlive the rehearsal. All
  /// pointers are to device memory.
  KernelRehearsal(const StepSchedule& schedule, const KernelWork& work, const Options& options, BenchDevice& device);

  /// Calls the kernels of one part's direction once. Directions must come in the step's order.
  void play(Kernels& kernels, const PartWork& work);
  /// Calls the kernel once on a stretch of a flat parameter.
  void play(Kernels& kernels, const FlatWork& work);

  /// Returns the loss of the last pass through the head, per token. Waits for the stream.
  double loss() const;

 private:
  /// A part of block 0, or an end of the model.
  struct PartMemory {
    std::vector<void*> saved;
    std::vector<const void*> parameters, constants;
    std::vector<void*> gradients;
  };

  void open_part(PartId id);
  void open_tensors(const std::vector<TensorId>& stack);
  void draw_tokens();
  void open_flat(const KernelWork& work);
  void play_update(Kernels& kernels, const FlatWork& work, const OptimizerRules& rules);

  const StepSchedule& schedule_;
  const OptimOptions& optim_;
  std::uint64_t seed_;
  BenchDevice& device_;
  std::vector<const float*> constants_;               ///< per ModelParts::constants
  IndexedVector<PartId, PartMemory> parts_;           ///< empty for parts that have a representative
  IndexedVector<TensorId, void*> tensor_, gradient_;  ///< null if no part played here reads it
  const std::int32_t *tokens_ = nullptr, *targets_ = nullptr;
  std::byte* residual_[3] = {};  ///< the stream after embedding, attention and MLP
  std::byte* residual_gradient_ = nullptr;
  std::byte* scratch_ = nullptr;
  float* master_ = nullptr;
  std::vector<float*> states_;
  float* direction_ = nullptr;
  std::byte* iterations_ = nullptr;  ///< scratch
  std::byte *flat_from_ = nullptr, *flat_to_ = nullptr;
  const StepScalars* scalars_ = nullptr;
  ExactSum* square_sum_ = nullptr;
  double* loss_ = nullptr;
};

}  // namespace tessera
