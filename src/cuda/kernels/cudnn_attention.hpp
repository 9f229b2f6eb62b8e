#pragma once
// Attention by cuDNN: plans by shape, and their execution. Nothing is allocated after a plan is made.

#include <map>
#include <optional>
#include <string>

#include "cuda/kernels/attention_graph.hpp"

namespace tessera {

class CudnnAttention {
 public:
  /// The first version whose backward takes every sequence length without a padding mask. (Its frontend works around
  /// 9.15.0 and older.)
  static constexpr std::size_t kOldest = 91600;

  /// Opens the library for the current device. `deterministic`: backward has the same bits each time. UsageError if it
  /// is not found, too old, or not for this driver.
  explicit CudnnAttention(bool deterministic);

  std::string version() const { return library_.version_text(); }
  std::string name() const { return "cuDNN " + version(); }

  /// Returns why the library does not compute this with this workspace; empty if it does. Makes the plan at the first
  /// call for a problem.
  std::string forward_obstacle(const AttentionProblem& p, std::int64_t workspace_bytes);
  std::string backward_obstacle(const AttentionProblem& p);

  /// Only for problems without an obstacle. `workspace`: aligned to 256 bytes, of the size given to forward_obstacle.
  void forward(cudaStream_t stream, const AttentionForward& a, void* workspace);
  /// Works within a.scratch. The first deterministic one of a problem is proved (attention_proof.hpp).
  void backward(cudaStream_t stream, const AttentionBackward& a);

 private:
  struct Entry {
    std::optional<AttentionGraph> graph;
    std::optional<CudnnPlan> plan;
    std::string obstacle;
    bool is_proved = false;
  };
  using Plans = std::map<AttentionProblem, Entry>;
  using MakeGraph = AttentionGraph(const Cudnn&, const CudnnTarget&, const AttentionProblem&);

  const Entry& entry(Plans& plans, MakeGraph* make, const AttentionProblem& p, std::int64_t most_workspace_bytes);
  void execute(cudaStream_t stream, const CudnnPlan& plan, const std::vector<std::int64_t>& names,
               const std::vector<void*>& addresses, void* workspace) const;

  struct DestroyHandle {
    decltype(Cudnn::destroy) function;
    void operator()(cudnnContext* handle) const { static_cast<void>(function(handle)); }
  };
  Cudnn library_;
  std::unique_ptr<cudnnContext, DestroyHandle> handle_;
  Plans forward_, backward_;
  bool deterministic_;
};

}  // namespace tessera
