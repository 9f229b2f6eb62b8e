#include "cuda/kernels/attention_choice.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/kernels/gpu_attention.hpp"

namespace tessera {

namespace {

template <class Arguments>
std::string obstacle_of(const Arguments& a) {
  const bool tells_borders = a.borders != nullptr && a.shape.documents > 0;
  if (a.positions != nullptr && !tells_borders) return "the borders of its documents are not told";
  return cudnn_obstacle(a.shape, a.query.dtype, a.dropout.probability > 0);
}

AttentionProblem problem_of_run(const CudaKernelSettings& settings, bool backward) {
  const AttentionShape& s = settings.shape;
  AttentionProblem p;
  p.shape = s, p.dtype = settings.dtype;
  p.shape.window = 0;
  p.query = settings.query_stride, p.key = p.value = settings.key_stride, p.output = s.heads * s.head_width;
  if (!backward) return p;
  p.output_gradient = p.output, p.query_gradient = p.query, p.key_gradient = p.value_gradient = p.key;
  p.deterministic = settings.deterministic;
  return p;
}

}  // namespace

AttentionByChoice::AttentionByChoice(const CudaKernelSettings& settings, void* workspace, std::int64_t workspace_bytes)
    : settings_(settings), workspace_(workspace), workspace_bytes_(workspace_bytes) {
  if (settings.attention == AttentionChoice::own) {
    description_.text = "attention by own kernels (run.attention = own)";
    return;
  }
  try {
    library_ = std::make_unique<CudnnAttention>(settings_.deterministic);
    description_.libraries = {{"cudnn", library_->version()}};
  } catch (const UsageError& error) {
    if (demanded()) throw;
    const char* const problem = error.UsageError::what();  // without the paths that were tried
    description_ = {fmt::format("attention by own kernels ({})", problem), {}, true};
    return;
  }
  choose();
}

bool AttentionByChoice::demanded() const { return settings_.attention == AttentionChoice::cudnn; }

void AttentionByChoice::choose() {
  const bool of_a_run = settings_.shape.batch > 0;
  std::string backward_obstacle = settings_.own_backward ? "run.deterministic" : "";
  if (of_a_run) {
    std::string obstacle = cudnn_obstacle(settings_.shape, settings_.dtype, settings_.dropout);
    if (obstacle.empty()) obstacle = library_->forward_obstacle(problem_of_run(settings_, false), workspace_bytes_);
    if (obstacle.empty() && backward_obstacle.empty()) {
      backward_obstacle = library_->backward_obstacle(problem_of_run(settings_, true));
      if (!backward_obstacle.empty() && demanded()) refuse(backward_obstacle);
    }
    // Own kernels' backward reads another log-sum-exp than cuDNN's forward leaves of documents.
    if (obstacle.empty() && settings_.shape.documents > 0) obstacle = backward_obstacle;
    if (!obstacle.empty()) {
      if (demanded()) refuse(obstacle);
      description_.text = fmt::format("attention by own kernels ({}: {})", library_->name(), obstacle);
      description_.lacks_library = true;
      library_.reset();
      return;
    }
  }
  backward_ = backward_obstacle.empty();
  must_ = demanded() || of_a_run;
  description_.text = "attention by " + library_->name();
  if (must_ && settings_.windows) description_.text += ", by own kernels in layers with a window";
  if (!must_) description_.text += " where it can, by own kernels elsewhere";
  if (!backward_) description_.text += fmt::format(", its backward by own kernels ({})", backward_obstacle);
  if (backward_ && settings_.deterministic) description_.text += ", deterministic";
}

void AttentionByChoice::refuse(const std::string& obstacle) const {
  throw tessera::refuse("run.attention", demanded() ? "cudnn" : "auto")
      .because("{} does not compute this attention: {}", library_->name(), obstacle)
      .use("run.attention = own");
}

bool AttentionByChoice::run(cudaStream_t stream, const AttentionForward& a) {
  if (library_ == nullptr || is_ours(a.shape)) return false;
  std::string obstacle = obstacle_of(a);
  if (obstacle.empty()) obstacle = library_->forward_obstacle(AttentionProblem::of(a), workspace_bytes_);
  if (!obstacle.empty() && must_) refuse(obstacle);
  if (!obstacle.empty()) return false;
  library_->forward(stream, a, workspace_);
  return true;
}

bool AttentionByChoice::run(cudaStream_t stream, const AttentionBackward& a) {
  if (library_ == nullptr || !backward_ || is_ours(a.shape)) return false;
  std::string obstacle = obstacle_of(a);
  if (obstacle.empty()) obstacle = library_->backward_obstacle(AttentionProblem::of(a, settings_.deterministic));
  if (!obstacle.empty() && must_) refuse(obstacle);
  if (!obstacle.empty()) return false;
  library_->backward(stream, a);
  return true;
}

}  // namespace tessera
