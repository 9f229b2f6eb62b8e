#include "cuda/kernels/attention_choice.hpp"

#include <algorithm>

#include "cuda/kernels/ordered_trial.hpp"
#include "kernels/gpu/layouts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

/// Returns why the library cannot mask such attention; empty if it has nothing to mask.
std::string mask_obstacle(bool dropout, bool documents) {
  if (documents) return "it has no mask of documents here (data.document_mask)";
  return dropout ? "masks of dropout are our own" : "";
}

template <class Arguments>
std::string mask_obstacle(const Arguments& a) {
  return mask_obstacle(a.dropout.probability > 0, a.positions != nullptr);
}

AttentionProblem problem_of_run(const CudaKernelSettings& settings, bool backward) {
  const AttentionShape& s = settings.shape;
  AttentionProblem p;
  p.shape = s, p.dtype = settings.dtype;
  p.query = settings.query_stride, p.key = p.value = settings.key_stride, p.output = s.heads * s.head_width;
  if (backward) p.output_gradient = p.output, p.query_gradient = p.query, p.key_gradient = p.value_gradient = p.key;
  return p;
}

std::vector<std::int64_t> key_of(const AttentionProblem& p) {
  const auto numbers = p.key_numbers();
  return {numbers.begin(), numbers.end()};
}

}  // namespace

AttentionByChoice::AttentionByChoice(const CudaKernelSettings& settings, void* workspace, std::int64_t workspace_bytes)
    : settings_(settings), workspace_(workspace), workspace_bytes_(workspace_bytes) {
  if (settings.attention == AttentionChoice::own) {
    description_ = "attention by own kernels (run.attention = own)";
    return;
  }
  try {
    library_ = std::make_unique<CudnnAttention>(settings_.deterministic);
  } catch (const UsageError& error) {
    if (demanded()) throw;
    const std::string reason = error.what();  // without the paths that were tried
    const auto end = std::min({reason.find(" ("), reason.find(", because "), reason.find(". ")});
    description_ = fmt::format("attention by own kernels ({})", reason.substr(0, end));
    return;
  }
  choose();
}

bool AttentionByChoice::demanded() const { return settings_.attention == AttentionChoice::cudnn; }

void AttentionByChoice::choose() {
  const bool of_a_run = settings_.shape.batch > 0;
  std::string backward_obstacle = order_obstacle();
  backward_ = backward_obstacle.empty();
  if (of_a_run) {
    std::string obstacle = mask_obstacle(settings_.dropout, settings_.documents);
    if (obstacle.empty()) obstacle = library_->forward_obstacle(problem_of_run(settings_, false), workspace_bytes_);
    if (!obstacle.empty()) {
      if (demanded()) refuse(obstacle);
      description_ = fmt::format("attention by own kernels ({}: {})", library_->name(), obstacle);
      library_.reset();
      return;
    }
    if (backward_) {
      backward_obstacle = library_->backward_obstacle(problem_of_run(settings_, true));
      if (!backward_obstacle.empty() && (demanded() || settings_.deterministic)) refuse(backward_obstacle);
      backward_ = backward_obstacle.empty();
    }
  }
  must_ = demanded() || of_a_run;
  description_ = "attention by " + library_->name();
  if (!must_) description_ += " where it can, by own kernels elsewhere";
  if (!backward_) description_ += fmt::format(", its backward by own kernels ({})", backward_obstacle);
  if (backward_ && settings_.deterministic) description_ += ", its backward in a fixed order";
}

std::string AttentionByChoice::order_obstacle() const {
  if (!settings_.deterministic || settings_.trusts_ordered) return {};
  if (settings_.verdicts == nullptr) return "run.deterministic";
  const auto found = settings_.verdicts->find(key_of(problem_of_run(settings_, true)));
  if (found == settings_.verdicts->end()) return "run.deterministic";
  return found->second.takes_ordered() ? "" : fmt::format("run.algorithms: {}", found->second.description());
}

void AttentionByChoice::try_order(cudaStream_t stream, const AttentionBackward& a, const std::function<void()>& own) {
  settings_.tries_ordered = false;
  AttentionVerdict verdict;
  if (settings_.gemm.chooses && library_->backward_obstacle(AttentionProblem::of(a)).empty()) {
    const std::int64_t scratch = gpu_kernel_needs().attention_backward(a.shape, a.query.dtype);
    const std::span spare(static_cast<std::byte*>(workspace_), static_cast<std::size_t>(workspace_bytes_));
    verdict = try_ordered(stream, a, scratch, spare, own, [&] { library_->backward(stream, a); });
  }
  if (settings_.gemm.agree) settings_.gemm.agree(std::as_writable_bytes(std::span(&verdict, 1)));
  (*settings_.verdicts)[key_of(AttentionProblem::of(a))] = verdict;
  choose();
}

void AttentionByChoice::refuse(const std::string& obstacle) const {
  throw tessera::refuse("run.attention", demanded() ? "cudnn" : "auto")
      .because("{} does not compute this attention: {}", library_->name(), obstacle)
      .use("run.attention = own");
}

bool AttentionByChoice::run(cudaStream_t stream, const AttentionForward& a) {
  if (library_ == nullptr) return false;
  std::string obstacle = mask_obstacle(a);
  if (obstacle.empty()) obstacle = library_->forward_obstacle(AttentionProblem::of(a), workspace_bytes_);
  if (!obstacle.empty() && must_) refuse(obstacle);
  if (!obstacle.empty()) return false;
  library_->forward(stream, a, workspace_);
  return true;
}

bool AttentionByChoice::run(cudaStream_t stream, const AttentionBackward& a, const std::function<void()>& own) {
  if (library_ == nullptr) return false;
  if (settings_.tries_ordered && settings_.verdicts != nullptr) try_order(stream, a, own);
  if (!backward_) return false;
  std::string obstacle = mask_obstacle(a);
  if (obstacle.empty()) obstacle = library_->backward_obstacle(AttentionProblem::of(a));
  if (!obstacle.empty() && must_) refuse(obstacle);
  if (!obstacle.empty()) return false;
  library_->backward(stream, a);
  return true;
}

}  // namespace tessera
