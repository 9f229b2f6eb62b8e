#include "cuda/comm/nccl/nccl_communicator.hpp"

#include <mpi.h>

#include <algorithm>
#include <exception>

#include "cuda/comm/nccl/tree_sum.hpp"
#include "tessera/base/threads.hpp"
#include "tessera/comm/scratch.hpp"
#include "tessera/cuda/check.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kTokenElements = 64;  ///< of int64, for every rank

/// Returns whether MPI is over: then peers may be gone and NCCL's sockets with them.
bool mpi_is_over() {
  int over = 0;
  return MPI_Finalized(&over) == MPI_SUCCESS && over != 0;
}

}  // namespace

NcclCommunicator::NcclCommunicator(const NcclContext& context, const std::vector<std::int64_t>& members,
                                   std::string name, std::int64_t largest_contribution)
    : context_(context),
      nccl_(nccl_api()),
      size_(static_cast<std::int64_t>(members.size())),
      index_(std::find(members.begin(), members.end(), context.context->rank()) - members.begin()),
      name_(std::move(name)),
      largest_contribution_(largest_contribution),
      own_(context.device->allocate(MemoryKind::device, context.external_workspace ? 0 : largest_contribution)),
      token_(context.device->allocate(MemoryKind::device, 2 * size_ * kTokenElements * 8)),
      received_(own_->data(), static_cast<std::size_t>(own_->size())) {
  const SignalsBlocked threads_of_nccl;
  const ncclUniqueId id = agree_on_id(members);
  ncclConfig_t config;
  config.blocking = 1;
  config.splitShare = 0;
  config.commName = name_.c_str();
  {
    const NcclWatchdog::Guard guard(*context_.watchdog, fmt::format("the start of NCCL on '{}'", name_));
    succeed(nccl_.init(&comm_, size(), id, rank(), &config), "ncclCommInitRankConfig");
  }
  context_.watchdog->add(comm_, name_);
}

/// Lets the first member make the id and tell the others.
ncclUniqueId NcclCommunicator::agree_on_id(const std::vector<std::int64_t>& members) const {
  ncclUniqueId id{};
  ncclResult_t made = ncclSuccess;
  if (index_ == 0) made = nccl_.unique_id(&id);
  succeed(made, "ncclGetUniqueId");
  ControlPlane group = context_.context->control().part(members);
  group.broadcast(std::as_writable_bytes(std::span(id.internal)), 0);
  return id;
}

/// Shuts down in NCCL's order: work, finalize, destroy. Peers must do the same, so after a failure, during one, and
/// after MPI nothing is done, because the process is about to end.
NcclCommunicator::~NcclCommunicator() {
  context_.watchdog->remove(comm_);
  const bool is_failing = std::uncaught_exceptions() > 0;  // the notice is raised when all is unwound
  if (comm_ == nullptr || mpi_is_over() || is_failing || context_.context->notice().is_over()) return;
  const NcclWatchdog::Guard guard(*context_.watchdog, fmt::format("the end of NCCL on '{}'", name_));
  static_cast<void>(cudaDeviceSynchronize());
  nccl_.finalize(comm_);
  nccl_.destroy(comm_);
}

void NcclCommunicator::run(Stream& stream, const CollectiveCall& call) {
  const std::string what = fmt::format("{} on '{}'", call.text(), name_);
  const NcclWatchdog::Guard guard(*context_.watchdog, what);  // it may wait for peers, if it connects to them first
  enqueue(stream, call);
  add(call, {});
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TESSERA_CHECK_CUDA(cudaStreamIsCapturing(cuda_stream(stream), &status));
  if (status == cudaStreamCaptureStatusNone) context_.watchdog->watch_until_done(cuda_stream(stream), what);
}

void NcclCommunicator::enqueue(Stream& stream, const CollectiveCall& call) {
  auto* const native = cuda_stream(stream);
  const auto count = static_cast<std::size_t>(call.elements);
  switch (call.collective) {
    case Collective::all_gather: {
      const auto* const mine = static_cast<const std::byte*>(call.from) + index_ * call.bytes();
      return succeed(nccl_.all_gather(mine, call.to, count, nccl_type(call.wire), comm_, native), "ncclAllGather");
    }
    case Collective::reduce_scatter:
      return reduce_scatter(native, call);
    case Collective::all_reduce:
      return succeed(nccl_.all_reduce(call.from, call.to, count, ncclInt64,
                                      call.reduction() == Reduction::max ? ncclMax : ncclSum, comm_, native),
                     "ncclAllReduce");
    case Collective::broadcast:
      return succeed(nccl_.broadcast(call.from, call.to, count, ncclInt8, call.root(), comm_, native), "ncclBroadcast");
    case Collective::exchange:
      return exchange(stream, call);
    case Collective::barrier:  // a sum that completes only when all members have contributed
      return succeed(nccl_.all_reduce(token_->data(), token_->data(), 1, ncclInt64, ncclSum, comm_, native),
                     "ncclAllReduce");
  }
}

/// Receives member m's contribution to this rank's slice at received[m * elements]; this rank's own stays in place.
void NcclCommunicator::receive_terms(cudaStream_t stream, const std::byte* contribution, std::byte* received,
                                     DType dtype, std::int64_t elements) {
  const std::int64_t bytes = elements * size_of(dtype);
  const auto count = static_cast<std::size_t>(elements);
  const ncclDataType_t type = nccl_type(dtype);
  succeed(nccl_.group_start(), "ncclGroupStart");
  ncclResult_t result = ncclSuccess;
  for (std::int64_t step = 1; step < size_; ++step) {
    const std::int64_t to = (index_ + step) % size_, from = (index_ + size_ - step) % size_;
    const ncclResult_t sent = nccl_.send(contribution + to * bytes, count, type, static_cast<int>(to), comm_, stream);
    const ncclResult_t taken =
        nccl_.receive(received + from * bytes, count, type, static_cast<int>(from), comm_, stream);
    if (result == ncclSuccess) result = sent != ncclSuccess ? sent : taken;
  }
  const ncclResult_t ended = nccl_.group_end();  // always, or the thread stays inside the group
  succeed(result, "ncclSend or ncclRecv");
  succeed(ended, "ncclGroupEnd");
}

/// Runs, if deterministic, an all-to-all, then the tree's sum. Otherwise NCCL's sum in the wire's type, then a
/// conversion.
void NcclCommunicator::reduce_scatter(cudaStream_t stream, const CollectiveCall& call) {
  const auto* const base = static_cast<const std::byte*>(call.from);
  const CollectiveAlgorithm algorithm =
      context_.deterministic ? CollectiveAlgorithm::nccl_tree : CollectiveAlgorithm::nccl_sum;
  const auto room = static_cast<std::int64_t>(received_.size());
  TESSERA_ASSERT(reduce_scratch_bytes(algorithm, size_, call.elements, call.wire, call.result) <= room,
                 "a contribution of {} bytes on '{}' is received in {}", size_ * call.bytes(), name_, room);
  if (context_.deterministic) {
    receive_terms(stream, base, received_.data(), call.wire, call.elements);
    enqueue_tree_sum(stream, {received_.data(), base + index_ * call.bytes(), size_, index_}, call.wire, call.to,
                     call.result, call.elements);
    return;
  }
  void* const sum = call.wire == call.result ? call.to : received_.data();
  succeed(nccl_.reduce_scatter(call.from, sum, static_cast<std::size_t>(call.elements), nccl_type(call.wire), ncclSum,
                               comm_, stream),
          "ncclReduceScatter");
  if (sum != call.to) {  // a sum over one member is a conversion
    enqueue_tree_sum(stream, {nullptr, sum, 1, 0}, call.wire, call.to, call.result, call.elements);
  }
}

/// Copies runs that a member sends to itself. NCCL matches the sends and receives of two members in the order of the
/// list.
void NcclCommunicator::exchange(Stream& stream, const CollectiveCall& call) {
  auto* const native = cuda_stream(stream);
  const ncclDataType_t type = nccl_type(call.wire);
  succeed(nccl_.group_start(), "ncclGroupStart");
  ncclResult_t result = ncclSuccess;
  for (const ExchangeRun& run : call.runs) {
    const auto count = static_cast<std::size_t>(run.elements);
    ncclResult_t one = ncclSuccess;
    if (run.sender == index_ && run.receiver != index_)
      one = nccl_.send(call.source_of(run), count, type, static_cast<int>(run.receiver), comm_, native);
    if (run.receiver == index_ && run.sender != index_)
      one = nccl_.receive(call.target_of(run), count, type, static_cast<int>(run.sender), comm_, native);
    if (result == ncclSuccess) result = one;
  }
  const ncclResult_t ended = nccl_.group_end();  // always, or the thread stays inside the group
  succeed(result, "ncclSend or ncclRecv");
  succeed(ended, "ncclGroupEnd");
  for (const ExchangeRun& run : call.runs) {
    if (run.sender != index_ || run.receiver != index_) continue;
    context_.device->copy(stream, call.target_of(run), call.source_of(run), run.elements * size_of(call.wire));
  }
}

void NcclCommunicator::set_workspace(std::span<std::byte> scratch) {
  if (context_.external_workspace) received_ = scratch;
}

void NcclCommunicator::warm_up(Stream& stream) {
  auto* const native = cuda_stream(stream);
  auto* const token = reinterpret_cast<std::int64_t*>(token_->data());
  const std::int64_t elements = kTokenElements;
  succeed(nccl_.all_gather(token + index_ * elements, token, kTokenElements, ncclInt64, comm_, native),
          "ncclAllGather");
  succeed(nccl_.all_reduce(token, token, kTokenElements, ncclInt64, ncclSum, comm_, native), "ncclAllReduce");
  succeed(nccl_.broadcast(token, token, kTokenElements, ncclInt64, 0, comm_, native), "ncclBroadcast");
  if (largest_contribution_ == 0) return;
  if (context_.deterministic) {
    receive_terms(native, token_->data(), token_->data() + size_ * elements * 8, DType::int64, elements);
    return;
  }
  // As long as the longest one to come: NCCL's algorithm depends on the length.
  auto* const memory = context_.external_workspace ? static_cast<std::byte*>(context_.shared) : own_->data();
  const std::int64_t longest = largest_contribution_ / size_ / size_of(DType::fp32);
  succeed(nccl_.reduce_scatter(memory, memory + index_ * longest * 4, static_cast<std::size_t>(longest), ncclFloat32,
                               ncclSum, comm_, native),
          "ncclReduceScatter");
}

void NcclCommunicator::check() const {
  ncclResult_t state = ncclSuccess;
  succeed(nccl_.async_error(comm_, &state), "ncclCommGetAsyncError");
  check_nccl(state, "an operation", name_);
}

}  // namespace tessera
