#include "cuda/kernels/cudnn_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cuda/kernels/attention_proof.hpp"
#include "cuda/kernels/document_offsets.hpp"
#include "kernels/gpu/layouts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/cuda/check.hpp"
#include "tessera/kernels/gpu_attention.hpp"

namespace tessera {

namespace {

/// The numbers that a graph takes by value; they must live until the call returns.
struct Numbers {
  explicit Numbers(const AttentionShape& s) : scale(1.0f / std::sqrt(static_cast<float>(s.head_width))) {}
  float scale, minus_infinity = -std::numeric_limits<float>::infinity(), one = 1.0f;
};

/// Returns why a problem is unsupported before the library is asked; empty if it is supported.
std::string own_obstacle(const AttentionProblem& p) {
  if (std::string obstacle = cudnn_obstacle(p.shape, p.dtype, false); !obstacle.empty()) return obstacle;
  for (const std::int64_t stride :
       {p.query, p.key, p.value, p.output, p.output_gradient, p.query_gradient, p.key_gradient, p.value_gradient}) {
    if (stride % 8 != 0) return fmt::format("rows are {} elements apart, which is not a multiple of 8", stride);
  }
  if (p.shape.documents == 0) return {};
  const std::int64_t widest = std::max({p.query, p.key, p.value, p.output});
  if (checked_multiply(p.shape.batch * p.shape.sequence, widest) > std::numeric_limits<std::int32_t>::max())
    return fmt::format("{} tokens in rows of {} elements are too many for 32-bit offsets of documents",
                       p.shape.batch * p.shape.sequence, widest);
  const bool is_forward = p.output_gradient == 0;
  const bool are_alike = p.output_gradient == p.output && p.query_gradient == p.query && p.key_gradient == p.key &&
                         p.value_gradient == p.value;
  return is_forward || are_alike ? "" : "gradients lie in other rows than what they are of";
}

/// Returns why samples of several documents are not given to the library; empty if they are. Until 9.17 it leaves
/// numbers of its workspace, perhaps NaN, in gradients (TransformerEngine #2186). On GPUs of compute capability 8 and
/// 12 its frontend forbids a backward whose log-sum-exp is as ragged as the samples, although the library has plans for
/// it.
std::string documents_obstacle(std::size_t version) {
  if (version < 91800) return "samples of several documents need 9.18";
  int device = 0, major = 0;
  TESSERA_CHECK_CUDA(cudaGetDevice(&device));
  TESSERA_CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  if (major == 9 || major == 10) return "";
  return fmt::format("samples of several documents need a GPU of compute capability 9 or 10, and this one has {}",
                     major);
}

/// Names and addresses for a variant pack.
struct Pack {
  std::vector<std::int64_t> names;
  std::vector<void*> addresses;

  void add(AttentionTensor name, const void* address) {
    if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0 && name > AttentionTensor::one) {
      throw InternalError("attention by cuDNN on memory that is not aligned to 16 bytes (tensor {})",
                          static_cast<int>(name));
    }
    names.push_back(static_cast<std::int64_t>(name));
    addresses.push_back(const_cast<void*>(address));
  }
};

/// Returns what forward and backward have in common.
template <class Arguments>
AttentionProblem problem_of_both(const Arguments& a) {
  AttentionProblem p;
  p.shape = a.shape, p.dtype = a.query.dtype;
  p.shape.window = 0;  // the library is given none: a wider one than the sequence at most
  p.query = a.query.stride, p.key = a.key.stride, p.value = a.value.stride, p.output = a.output.stride;
  return p;
}

/// Packs the arguments that forward and backward have in common.
template <class Arguments>
Pack pack_of_both(const Numbers& numbers, const Arguments& a) {
  Pack pack;
  pack.add(AttentionTensor::scale, &numbers.scale);
  pack.add(AttentionTensor::minus_infinity, &numbers.minus_infinity);
  pack.add(AttentionTensor::query, a.query.data);
  pack.add(AttentionTensor::key, a.key.data);
  pack.add(AttentionTensor::value, a.value.data);
  pack.add(AttentionTensor::output, a.output.data);
  pack.add(AttentionTensor::log_sum_exp, a.log_sum_exp);
  return pack;
}

/// Tells the library where documents lie, if there are any.
template <class Arguments>
void add_documents(cudaStream_t stream, const Arguments& a, const CudnnDocumentsLayout& layout, Pack& pack) {
  if (a.shape.documents == 0) return;
  const auto narrow = [](std::int64_t stride) { return static_cast<std::int32_t>(stride); };
  launch_document_offsets(stream, a.borders, a.shape.documents,
                          {narrow(a.query.stride), narrow(a.key.stride), narrow(a.value.stride),
                           narrow(a.output.stride), narrow(a.shape.heads)},
                          layout);
  pack.add(AttentionTensor::query_lengths, layout.lengths);
  pack.add(AttentionTensor::key_lengths, layout.lengths);
  pack.add(AttentionTensor::query_offsets, layout.query);
  pack.add(AttentionTensor::key_offsets, layout.key);
  pack.add(AttentionTensor::value_offsets, layout.value);
  pack.add(AttentionTensor::output_offsets, layout.output);
  pack.add(AttentionTensor::log_sum_exp_offsets, layout.log_sum_exp);
}

/// Returns the bytes in front of the library's workspace in forward.
std::int64_t bytes_of_documents(const AttentionShape& shape) {
  return round_up(scratch_bytes_of<CudnnDocumentsLayout>(shape.documents), 256);
}

}  // namespace

AttentionProblem AttentionProblem::of(const AttentionForward& a) { return problem_of_both(a); }

AttentionProblem AttentionProblem::of(const AttentionBackward& a, bool deterministic) {
  AttentionProblem p = problem_of_both(a);
  p.output_gradient = a.output_gradient.stride, p.query_gradient = a.query_gradient.stride;
  p.key_gradient = a.key_gradient.stride, p.value_gradient = a.value_gradient.stride;
  p.deterministic = deterministic;
  return p;
}

CudnnAttention::CudnnAttention(bool deterministic)
    : handle_(nullptr, DestroyHandle{library_.destroy}), deterministic_(deterministic) {
  if (library_.version() < kOldest) {
    throw refusal("{} is too old for attention", name())
        .use("9.{} or newer instead of {}", kOldest / 100 % 100, library_.library.path());
  }
  cudnnContext* made = nullptr;
  if (const int status = library_.create(&made); status != cudnn::kSuccess) {
    throw refusal("{} cannot be used here", name())
        .because("cudnnCreate ends with status {}", status)
        .use("another version, or own kernels");
  }
  handle_.reset(made);
}

const CudnnAttention::Entry& CudnnAttention::entry(Plans& plans, MakeGraph* make, const AttentionProblem& p,
                                                   std::int64_t most_workspace_bytes) {
  if (const auto found = plans.find(p); found != plans.end()) return found->second;
  Entry made;
  made.obstacle = own_obstacle(p);
  if (made.obstacle.empty() && p.shape.documents > 0) made.obstacle = documents_obstacle(library_.version());
  if (made.obstacle.empty()) {
    try {
      const CudnnTarget target{handle_.get(), nullptr};
      made.graph = make(library_, target, p);
      made.plan = make_cudnn_plan(library_, target, made.graph->graph, most_workspace_bytes);
    } catch (const CudnnRefusal& refusal) {
      made.obstacle = refusal.what();
    }
  }
  return plans.emplace(p, std::move(made)).first->second;
}

std::string CudnnAttention::forward_obstacle(const AttentionProblem& p, std::int64_t workspace_bytes) {
  return entry(forward_, attention_forward_graph, p, workspace_bytes - bytes_of_documents(p.shape)).obstacle;
}

std::string CudnnAttention::backward_obstacle(const AttentionProblem& p) {
  const std::int64_t most = CudnnAttentionBackwardLayout::workspace_bytes(p.shape, p.deterministic);
  return entry(backward_, attention_backward_graph, p, most).obstacle;
}

void CudnnAttention::forward(cudaStream_t stream, const AttentionForward& a, void* workspace) {
  const Entry& found = forward_.at(AttentionProblem::of(a));
  const Numbers numbers(a.shape);
  Pack pack = pack_of_both(numbers, a);
  const std::int64_t bytes = bytes_of_documents(a.shape);
  ScratchLayout scratch(workspace, bytes);
  add_documents(stream, a, CudnnDocumentsLayout(scratch, a.shape.documents), pack);
  execute(stream, *found.plan, pack.names, pack.addresses, static_cast<std::byte*>(workspace) + bytes);
}

void CudnnAttention::backward(cudaStream_t stream, const AttentionBackward& a) {
  Entry& found = backward_.at(AttentionProblem::of(a, deterministic_));
  const std::int64_t bytes = scratch_bytes_of<CudnnAttentionBackwardLayout>(a.shape, deterministic_);
  ScratchLayout scratch(a.scratch, bytes);
  const CudnnAttentionBackwardLayout layout(scratch, a.shape, deterministic_);
  const Numbers numbers(a.shape);
  Pack pack = pack_of_both(numbers, a);
  pack.add(AttentionTensor::one, &numbers.one);
  pack.add(AttentionTensor::output_gradient, a.output_gradient.data);
  pack.add(AttentionTensor::query_gradient, a.query_gradient.data);
  pack.add(AttentionTensor::key_gradient, a.key_gradient.data);
  pack.add(AttentionTensor::value_gradient, a.value_gradient.data);
  pack.add(AttentionTensor::delta, layout.delta);
  if (!deterministic_) pack.add(AttentionTensor::query_gradient_sum, layout.query_gradient_sum);
  const auto play = [&] {
    Pack all = pack;  // what is told of documents lies in the scratch, too
    add_documents(stream, a, layout.documents, all);
    execute(stream, *found.plan, all.names, all.addresses, layout.workspace);
  };
  if (!deterministic_ || std::exchange(found.is_proved, true)) return play();
  prove_deterministic(stream, a, bytes, name(), play);
}

void CudnnAttention::execute(cudaStream_t stream, const CudnnPlan& plan, const std::vector<std::int64_t>& names,
                             const std::vector<void*>& addresses, void* workspace) const {
  using cudnn::Attribute;
  using cudnn::Type;
  try {
    CudnnDescriptor pack(library_, cudnn::Kind::variant_pack);
    pack.set(Attribute::pack_ids, Type::int64, names);
    pack.set(Attribute::pack_pointers, Type::pointer, addresses);
    pack.set(Attribute::pack_workspace, Type::pointer, workspace);
    pack.finalize();
    library_.check(library_.set_stream(handle_.get(), stream), "cudnnSetStream");
    library_.check(library_.execute(handle_.get(), plan.plan.get(), pack.get()), "cudnnBackendExecute");
  } catch (const CudnnRefusal& refusal) {
    throw DeviceError("{} does not run its plan for attention: {}", name(), refusal.what());
  }
}

}  // namespace tessera
