#include "cuda/comm/staged/staging_channel.hpp"

#include <chrono>
#include <thread>

#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/comm/scratch.hpp"
#include "tessera/cuda/check.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

StagingChannel::StagingChannel(RankContext& context, Device& device, std::int64_t largest_full,
                               std::int64_t largest_result, const SharedRegion* region)
    : context_(context),
      device_(device),
      result_offset_(round_up(largest_full, std::int64_t{256})),
      own_(region != nullptr ? nullptr
                             : std::make_unique<SharedRegion>(context, staged_bytes(largest_full, largest_result))),
      region_(region != nullptr ? region : own_.get()),
      stream_(device.make_stream("staging")),
      host_(make_serial_stream("staging")),
      ready_(device.make_event()),
      done_(device.make_event()) {
  for (Slot& slot : slots_) slot.channel = this;
  TESSERA_ASSERT(region_->size() >= staged_bytes(largest_full, largest_result), "{} bytes to stage {} and {} in",
                 region_->size(), largest_full, largest_result);
  // Pinned in place, because peers of the node open it as shared memory.
  if (region_->size() > 0) {
    TESSERA_CHECK_CUDA(
        cudaHostRegister(region_->data(), static_cast<std::size_t>(region_->size()), cudaHostRegisterDefault));
  }
}

StagingChannel::~StagingChannel() {
  cudaStreamSynchronize(cuda_stream(*stream_));
  if (region_->size() > 0) cudaHostUnregister(region_->data());
}

void StagingChannel::check_room(std::int64_t whole, std::int64_t result) const {
  TESSERA_ASSERT(whole <= result_offset_ && result <= region_->size() - result_offset_,
                 "a collective of {} bytes with a result of {} is staged in {} and {}", whole, result, result_offset_,
                 region_->size() - result_offset_);
}

void StagingChannel::begin(Stream& caller) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TESSERA_CHECK_CUDA(cudaStreamIsCapturing(cuda_stream(caller), &status));
  TESSERA_ASSERT(status == cudaStreamCaptureStatusNone, "staged collectives are host work: they cannot be captured");
  check();
  caller.record(*ready_);
  stream_->wait(*ready_);
}

void StagingChannel::copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) device_.copy(*stream_, to, from, bytes);
}

void StagingChannel::run(Communicator& inner, const CollectiveCall& call) {
  Slot& slot = slots_[next_++ % slots_.size()];
  while (slot.busy.load(std::memory_order_acquire)) std::this_thread::sleep_for(std::chrono::microseconds(50));
  slot.inner = &inner;
  slot.call = call;
  slot.busy.store(true, std::memory_order_relaxed);
  TESSERA_CHECK_CUDA(cudaLaunchHostFunc(cuda_stream(*stream_), &StagingChannel::run_slot, &slot));
}

void StagingChannel::end(Stream& caller) {
  stream_->record(*done_);
  caller.wait(*done_);
}

void StagingChannel::run_slot(void* slot) noexcept {
  auto& mine = *static_cast<Slot*>(slot);
  mine.channel->run(mine);
  mine.busy.store(false, std::memory_order_release);
}

/// After a failure nothing more is sent: awaited data does not come, and the notice tells the peers so.
void StagingChannel::run(const Slot& slot) noexcept {
  if (failed_.load()) return;
  try {
    slot.inner->run(*host_, slot.call);
  } catch (const PeerError&) {
    fail(ExitCode::finished, nullptr);
  } catch (...) {
    const Caught error = caught_error();
    fail(error.code, error.what.c_str());
  }
}

/// Keeps the exception being handled for check(). Tells the other ranks, unless `what` is null: then they know.
void StagingChannel::fail(ExitCode code, const char* what) noexcept {
  {
    const std::lock_guard lock(failure_lock_);
    failure_ = std::current_exception();
  }
  failed_.store(true);
  if (what != nullptr) context_.notice().raise({context_.rank(), code, what});
}

void StagingChannel::check() {
  if (!failed_.load()) return;
  const std::lock_guard lock(failure_lock_);
  std::rethrow_exception(failure_);
}

}  // namespace tessera
