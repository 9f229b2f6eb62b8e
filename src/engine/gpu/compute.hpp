#pragma once
// Kernels of one GPU, with the algorithms that its matmuls run with.

#include "tessera/comm/rank_context.hpp"
#include "tessera/engine/resources.hpp"
#include "tessera/kernels/gemm_algorithms.hpp"

namespace tessera {

class GpuCompute final : public RankCompute {
 public:
  /// As Backend::make_compute.
  GpuCompute(Device& device, const ResourceSettings& settings, std::byte* workspace, const ModelParts* model,
             RankContext* peers);

  Kernels& kernels(Queue) const override { return *kernels_; }
  void store(Stream& stream, float* to, const float* from, std::int64_t elements) const override;
  std::int64_t measured_bytes(std::span<const std::byte> memory, std::int64_t offset) const override;
  std::string description() const override { return device_.description() + ", " + kernels_->description(); }
  std::string gemm_algorithms() const override { return header() + "\n" + algorithms_.text(); }
  std::string gemm_remark() const override { return remark_; }

 private:
  std::string header() const;
  void take_kept(const std::string& kept);

  Device& device_;
  bool measures_;  ///< memory was filled with a pattern, to be read back
  GemmAlgorithms algorithms_;
  std::string remark_;
  std::unique_ptr<Kernels> kernels_;
};

}  // namespace tessera
