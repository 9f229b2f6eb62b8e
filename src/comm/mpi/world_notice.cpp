#include "comm/mpi/world_notice.hpp"

#include <chrono>
#include <memory>
#include <thread>

#include "comm/wait.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kLookEveryNs = 500'000;
constexpr double kTellPatience = 2;  ///< seconds for the message to leave; small ones leave at once

std::int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

WorldNotice::WorldNotice(std::shared_ptr<SharedMemory> block, MPI_Comm comm, std::vector<int> remote)
    : memory_(std::move(block)), comm_(comm), remote_(std::move(remote)) {}

bool WorldNotice::raise(const Failure& failure) {
  if (!block().write(failure)) return false;
  tell_remote(failure);
  return true;
}

void WorldNotice::tell_remote(const Failure& failure) {
  auto message = std::make_unique<NoticeMessage>(NoticeMessage::of(failure));
  std::vector<MPI_Request> requests(remote_.size(), MPI_REQUEST_NULL);
  for (std::size_t i = 0; i < remote_.size(); ++i) {
    MPI_Isend(message.get(), sizeof *message, MPI_BYTE, remote_[i], 0, comm_, &requests[i]);
  }
  PeerDeadline deadline(kTellPatience);
  int done = 0;
  for (; !done && !deadline.passed(); std::this_thread::yield()) {
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
  }
  if (!done) static_cast<void>(message.release());  // MPI may still read it
}

bool WorldNotice::raised() {
  if (block().is_raised()) return true;
  if (remote_.empty() || now_ns() < next_look_.load(std::memory_order_relaxed)) return false;
  look_for_message();
  return block().is_raised();
}

void WorldNotice::look_for_message() {
  const std::unique_lock lock(lock_, std::try_to_lock);
  if (!lock) return;
  next_look_.store(now_ns() + kLookEveryNs, std::memory_order_relaxed);
  int there = 0;
  MPI_Status status;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &there, &status), "MPI_Iprobe");
  if (!there) return;
  NoticeMessage message;
  check_mpi(MPI_Recv(&message, sizeof message, MPI_BYTE, status.MPI_SOURCE, 0, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
  block().write(message.failure());
}

}  // namespace tessera
