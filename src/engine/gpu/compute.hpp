#pragma once
// The kernels of one GPU, with the algorithms that its matmuls run with.

#include "tessera/comm/rank_context.hpp"
#include "tessera/engine/resources.hpp"
#include "tessera/kernels/gemm_algorithms.hpp"

namespace tessera {

class GpuCompute final : public RankCompute {
 public:
  /// As Backend::make_compute.
  GpuCompute(Device& device, const ResourceSettings& settings, std::byte* workspace, const ModelParts* model,
             RankContext* peers);

  Kernels& kernels(Queue queue) const override { return queue == Queue::host ? *host_kernels_ : *kernels_; }
  void copy(Queue queue, Stream& stream, void* to, const void* from, std::int64_t bytes) const override;
  Implementation description() const override {
    Implementation all = kernels_->description();
    all.text = device_.description() + ", " + all.text;
    return all;
  }
  std::string gemm_algorithms() const override { return header_ + "\n" + algorithms_.text(); }
  std::string gemm_remark() const override { return remark_; }

 private:
  void take_kept(const std::string& kept);
  /// UsageError if the file is for another GPU or library; IoError if it is damaged.
  void take_given(const std::string& given);

  Device& device_;
  GemmAlgorithms algorithms_;
  std::string header_;  ///< GPU and libraries
  std::string remark_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Kernels> host_kernels_;  ///< on the rank's threads, for offloaded state
};

}  // namespace tessera
