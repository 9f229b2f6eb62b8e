// The choice of cuBLASLt's algorithm for a kind of matmul: one that was kept, the library's favourite, or the fastest.

#include <array>
#include <cstring>
#include <limits>

#include "cuda/backend/cuda_stream.hpp"
#include "cuda/kernels/matmul.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/cuda/check.hpp"

namespace tessera {

namespace {

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(GemmAlgorithm::algorithm));

cublasLtMatmulAlgo_t algorithm_of(const GemmAlgorithm& choice) {
  cublasLtMatmulAlgo_t algorithm{};
  std::memcpy(&algorithm, choice.algorithm.data(), sizeof algorithm);
  return algorithm;
}

}  // namespace

GemmAlgorithm Matmuls::choose(cudaStream_t stream, const Matmul& p, const Plan& plan, const GemmAlgorithm* kept) const {
  if (kept != nullptr) {
    GemmAlgorithm again = *kept;
    if (again.possible == 0 || accepts(plan, again)) return again;
  }
  if (settings_.only_kept) {
    throw refusal("a matmul {} x {} x {} of {} into {} does not work", p.m, p.n, p.k, name_of(p.a.view.dtype),
                  name_of(p.d.dtype))
        .because("the file of run.algorithms has {} for it",
                 kept == nullptr ? "no algorithm" : "an algorithm that the library refuses")
        .hint("Make the file again, with bench kernels and all options of this run");
  }
  if (settings_.times &&
      p.c.data == p.d.data) {  // a matmul added to its own result cannot be timed: it is timed as stored
    Matmul stored = p;
    stored.c = {};
    const auto timed = plans_.find(key_of(stored));
    if (timed != plans_.end() && timed->second.choice.possible != 0) {
      GemmAlgorithm same = timed->second.choice;
      if (accepts(plan, same)) return same;
    }
  }
  const std::vector<GemmAlgorithm> all = candidates(p, plan);
  if (all.empty()) return {};
  return settings_.times ? fastest(stream, p, plan, all) : all.front();
}

bool Matmuls::accepts(const Plan& plan, GemmAlgorithm& choice) const {
  const cublasLtMatmulAlgo_t algorithm = algorithm_of(choice);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = library_.check(handle_.get(), plan.description.get(), plan.a.get(), plan.b.get(),
                                               plan.d.get(), plan.d.get(), &algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS) return false;
  choice.workspace_bytes = static_cast<std::int64_t>(result.workspaceSize);
  return choice.workspace_bytes <= workspace_bytes_;
}

std::vector<GemmAlgorithm> Matmuls::candidates(const Matmul& p, const Plan& plan) const {
  cublasLtMatmulPreference_t made = nullptr;
  check_cublaslt(library_.preference_create(&made), "cublasLtMatmulPreferenceCreate");
  const CublasLtHandle<cublasLtMatmulPreference_t> preference(made, {library_.preference_destroy});
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check_cublaslt(library_.preference_set(made, attribute, &value, sizeof(value)),
                   "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes_));
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b.view));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a.view));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.c ? alignment_of(p.c) : alignment_of(p.d));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.d));

  // The heuristic infers an epilogue's alignment from its address. It gets one with the 16 bytes that all matmuls of
  // the kind have (epilogue_allowed), so that the choice does not depend on the first one's address.
  alignas(32) static constexpr std::array<std::byte, 32> kSomewhere{};
  const void* const somewhere = kSomewhere.data() + 16;
  set_places(plan, bias_of(p) != nullptr ? somewhere : nullptr, gelu_input_of(p) != nullptr ? somewhere : nullptr);
  constexpr int kWanted = 6;
  std::array<cublasLtMatmulHeuristicResult_t, kWanted> results{};
  int found = 0;
  const cublasStatus_t status =
      library_.heuristic(handle_.get(), plan.description.get(), plan.a.get(), plan.b.get(), plan.d.get(), plan.d.get(),
                         preference.get(), settings_.times ? kWanted : 1, results.data(), &found);
  set_places(plan, bias_of(p), gelu_input_of(p));
  std::vector<GemmAlgorithm> all;
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    GemmAlgorithm& choice = all.emplace_back();
    std::memcpy(choice.algorithm.data(), &result.algo, sizeof result.algo);
    choice.workspace_bytes = static_cast<std::int64_t>(result.workspaceSize);
    choice.possible = 1;
  }
  return all;
}

/// Not where timing would show: in a matmul that is added to its own result (choose), or in a graph.
GemmAlgorithm Matmuls::fastest(cudaStream_t stream, const Matmul& p, const Plan& plan,
                               const std::vector<GemmAlgorithm>& all) const {
  cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
  TESSERA_CHECK_CUDA(cudaStreamIsCapturing(stream, &captured));
  if (all.size() == 1 || p.c.data == p.d.data || captured != cudaStreamCaptureStatusNone) return all.front();
  constexpr int kRuns = 4;  // the first warms up
  CudaEvent begin(EventUse::timing), end(EventUse::timing);
  GemmAlgorithm best = all.front();
  float best_time = std::numeric_limits<float>::max();
  for (const GemmAlgorithm& choice : all) {
    for (int i = 0; i < kRuns; ++i) {
      TESSERA_CHECK_CUDA(cudaEventRecord(begin.native(), stream));
      if (launch(stream, p, plan, choice) != CUBLAS_STATUS_SUCCESS) break;
      TESSERA_CHECK_CUDA(cudaEventRecord(end.native(), stream));
      TESSERA_CHECK_CUDA(cudaEventSynchronize(end.native()));
      float milliseconds = 0;
      TESSERA_CHECK_CUDA(cudaEventElapsedTime(&milliseconds, begin.native(), end.native()));
      if (i == 0 || milliseconds >= best_time) continue;
      best_time = milliseconds;
      best = choice;
    }
  }
  return best;
}

cublasStatus_t Matmuls::launch(cudaStream_t stream, const Matmul& p, const Plan& plan,
                               const GemmAlgorithm& choice) const {
  const float zero = 0.0f;
  const cublasLtMatmulAlgo_t algorithm = algorithm_of(choice);
  const void* c = p.c ? p.c.data : p.d.data;
  return library_.matmul(handle_.get(), plan.description.get(), &p.scale, p.b.view.data, plan.a.get(), p.a.view.data,
                         plan.b.get(), p.c ? &p.c_scale : &zero, c, plan.d.get(), p.d.data, plan.d.get(), &algorithm,
                         workspace_, static_cast<std::size_t>(choice.workspace_bytes), stream);
}

}  // namespace tessera
