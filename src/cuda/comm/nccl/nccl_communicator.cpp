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
    call(nccl_.init(&comm_, size(), id, rank(), &config), "ncclCommInitRankConfig");
  }
  context_.watchdog->add(comm_, name_);
}

/// Lets the first member make the id and tell the others.
ncclUniqueId NcclCommunicator::agree_on_id(const std::vector<std::int64_t>& members) const {
  ncclUniqueId id{};
  ncclResult_t made = ncclSuccess;
  if (index_ == 0) made = nccl_.unique_id(&id);
  call(made, "ncclGetUniqueId");
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

NcclWatchdog::Guard NcclCommunicator::guarded(const CallShape& shape) const {
  return {*context_.watchdog, fmt::format("{} on '{}'", shape.text(), name_)};
}

/// Counts a call.
void NcclCommunicator::done(Stream& stream, Collective collective, const CallShape& shape) {
  counters_.add(collective, bytes_sent(collective, size_, shape.elements, shape.wire), 0);
  watch_until_done(stream, shape);
}

/// Watches the call, unless it is being captured.
void NcclCommunicator::watch_until_done(Stream& stream, const CallShape& shape) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TESSERA_CHECK_CUDA(cudaStreamIsCapturing(cuda_stream(stream), &status));
  if (status == cudaStreamCaptureStatusNone) {
    context_.watchdog->watch_until_done(cuda_stream(stream), fmt::format("{} on '{}'", shape.text(), name_));
  }
}

void NcclCommunicator::all_gather(Stream& stream, void* whole, std::int64_t elements_per_rank, DType dtype) {
  const CallShape shape{.kind = CallKind::all_gather, .wire = dtype, .result = dtype, .elements = elements_per_rank};
  const auto guard = guarded(shape);
  const auto* const mine = static_cast<const std::byte*>(whole) + index_ * elements_per_rank * size_of(dtype);
  call(nccl_.all_gather(mine, whole, static_cast<std::size_t>(elements_per_rank), nccl_type(dtype), comm_,
                        cuda_stream(stream)),
       "ncclAllGather");
  done(stream, Collective::all_gather, shape);
}

/// Receives member m's contribution to this rank's slice at received[m * elements]; this rank's own stays in place.
void NcclCommunicator::receive_terms(cudaStream_t stream, const std::byte* contribution, std::byte* received,
                                     DType dtype, std::int64_t elements) {
  const std::int64_t bytes = elements * size_of(dtype);
  const auto count = static_cast<std::size_t>(elements);
  const ncclDataType_t type = nccl_type(dtype);
  call(nccl_.group_start(), "ncclGroupStart");
  ncclResult_t result = ncclSuccess;
  for (std::int64_t step = 1; step < size_; ++step) {
    const std::int64_t to = (index_ + step) % size_, from = (index_ + size_ - step) % size_;
    const ncclResult_t sent = nccl_.send(contribution + to * bytes, count, type, static_cast<int>(to), comm_, stream);
    const ncclResult_t taken =
        nccl_.receive(received + from * bytes, count, type, static_cast<int>(from), comm_, stream);
    if (result == ncclSuccess) result = sent != ncclSuccess ? sent : taken;
  }
  const ncclResult_t ended = nccl_.group_end();  // always, or the thread stays inside the group
  call(result, "ncclSend or ncclRecv");
  call(ended, "ncclGroupEnd");
}

void NcclCommunicator::reduce_scatter(Stream& stream, const void* contribution, DType wire_dtype, void* shard,
                                      DType shard_dtype, std::int64_t elements_per_rank) {
  const CallShape shape{
      .kind = CallKind::reduce_scatter, .wire = wire_dtype, .result = shard_dtype, .elements = elements_per_rank};
  const auto guard = guarded(shape);
  const auto* const base = static_cast<const std::byte*>(contribution);
  const std::int64_t bytes = elements_per_rank * size_of(wire_dtype);
  const CollectiveAlgorithm algorithm =
      context_.deterministic ? CollectiveAlgorithm::nccl_tree : CollectiveAlgorithm::nccl_sum;
  const auto room = static_cast<std::int64_t>(received_.size());
  TESSERA_ASSERT(reduce_scratch_bytes(algorithm, size_, elements_per_rank, wire_dtype, shard_dtype) <= room,
                 "a contribution of {} bytes on '{}' is received in {}", size_ * bytes, name_, room);
  auto* const native = cuda_stream(stream);
  if (context_.deterministic) {
    receive_terms(native, base, received_.data(), wire_dtype, elements_per_rank);
    enqueue_tree_sum(native, {received_.data(), base + index_ * bytes, size_, index_}, wire_dtype, shard, shard_dtype,
                     elements_per_rank);
  } else {
    void* const sum = wire_dtype == shard_dtype ? shard : received_.data();
    call(nccl_.reduce_scatter(contribution, sum, static_cast<std::size_t>(elements_per_rank), nccl_type(wire_dtype),
                              ncclSum, comm_, native),
         "ncclReduceScatter");
    if (sum != shard) {  // a sum over one member is a conversion
      enqueue_tree_sum(native, {nullptr, sum, 1, 0}, wire_dtype, shard, shard_dtype, elements_per_rank);
    }
  }
  done(stream, Collective::reduce_scatter, shape);
}

void NcclCommunicator::all_reduce(Stream& stream, std::int64_t* values, std::int64_t count, Reduction reduction) {
  const CallShape shape{.kind = CallKind::all_reduce,
                        .wire = DType::int64,
                        .result = DType::int64,
                        .detail = static_cast<std::int64_t>(reduction),
                        .elements = count};
  const auto guard = guarded(shape);
  call(nccl_.all_reduce(values, values, static_cast<std::size_t>(count), ncclInt64,
                        reduction == Reduction::max ? ncclMax : ncclSum, comm_, cuda_stream(stream)),
       "ncclAllReduce");
  done(stream, Collective::all_reduce, shape);
}

void NcclCommunicator::broadcast(Stream& stream, void* data, std::int64_t bytes, int root) {
  const CallShape shape{.kind = CallKind::broadcast, .detail = root, .elements = bytes};
  const auto guard = guarded(shape);
  call(nccl_.broadcast(data, data, static_cast<std::size_t>(bytes), ncclInt8, root, comm_, cuda_stream(stream)),
       "ncclBroadcast");
  done(stream, Collective::broadcast, shape);
}

/// Runs that a member sends to itself are copied. NCCL matches the sends and receives of two members in the order of
/// the list.
void NcclCommunicator::exchange(Stream& stream, const void* sent, void* received, std::span<const ExchangeRun> runs,
                                DType dtype) {
  const CallShape shape = shape_of(runs, dtype);
  const auto guard = guarded(shape);
  auto* const native = cuda_stream(stream);
  call(nccl_.group_start(), "ncclGroupStart");
  ncclResult_t result = ncclSuccess;
  for (const ExchangeRun& run : runs) {
    const auto count = static_cast<std::size_t>(run.elements);
    ncclResult_t one = ncclSuccess;
    if (run.sender == index_ && run.receiver != index_)
      one = nccl_.send(source_of(run, sent, dtype), count, nccl_type(dtype), static_cast<int>(run.receiver), comm_,
                       native);
    if (run.receiver == index_ && run.sender != index_)
      one = nccl_.receive(target_of(run, received, dtype), count, nccl_type(dtype), static_cast<int>(run.sender), comm_,
                          native);
    if (result == ncclSuccess) result = one;
  }
  const ncclResult_t ended = nccl_.group_end();  // always, or the thread stays inside the group
  call(result, "ncclSend or ncclRecv");
  call(ended, "ncclGroupEnd");
  for (const ExchangeRun& run : runs) {
    if (run.sender != index_ || run.receiver != index_) continue;
    context_.device->copy(stream, target_of(run, received, dtype), source_of(run, sent, dtype),
                          run.elements * size_of(dtype));
  }
  counters_.add(Collective::exchange, bytes_sent(runs, dtype), 0);
  watch_until_done(stream, shape);
}

/// Makes a sum that completes only when all members have contributed.
void NcclCommunicator::barrier(Stream& stream) {
  const CallShape shape{.kind = CallKind::barrier, .wire = DType::int64, .result = DType::int64, .elements = 0};
  const auto guard = guarded(shape);
  call(nccl_.all_reduce(token_->data(), token_->data(), 1, ncclInt64, ncclSum, comm_, cuda_stream(stream)),
       "ncclAllReduce");
  watch_until_done(stream, shape);
}

void NcclCommunicator::set_workspace(std::span<std::byte> scratch) {
  if (context_.external_workspace) received_ = scratch;
}

void NcclCommunicator::warm_up(Stream& stream) {
  auto* const native = cuda_stream(stream);
  auto* const token = reinterpret_cast<std::int64_t*>(token_->data());
  const std::int64_t elements = kTokenElements;
  call(nccl_.all_gather(token + index_ * elements, token, kTokenElements, ncclInt64, comm_, native), "ncclAllGather");
  call(nccl_.all_reduce(token, token, kTokenElements, ncclInt64, ncclSum, comm_, native), "ncclAllReduce");
  call(nccl_.broadcast(token, token, kTokenElements, ncclInt64, 0, comm_, native), "ncclBroadcast");
  if (largest_contribution_ == 0) return;
  if (context_.deterministic) {
    receive_terms(native, token_->data(), token_->data() + size_ * elements * 8, DType::int64, elements);
    return;
  }
  // As long as the longest one to come: NCCL's algorithm depends on the length.
  auto* const memory = context_.external_workspace ? static_cast<std::byte*>(context_.shared) : own_->data();
  const std::int64_t longest = largest_contribution_ / size_ / size_of(DType::fp32);
  call(nccl_.reduce_scatter(memory, memory + index_ * longest * 4, static_cast<std::size_t>(longest), ncclFloat32,
                            ncclSum, comm_, native),
       "ncclReduceScatter");
}

void NcclCommunicator::check() const {
  ncclResult_t state = ncclSuccess;
  call(nccl_.async_error(comm_, &state), "ncclCommGetAsyncError");
  check_nccl(state, "an operation", name_);
}

}  // namespace tessera
