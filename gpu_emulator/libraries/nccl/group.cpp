#include "gpu_emulator/libraries/nccl/group.hpp"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace emulator {

std::int64_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclFloat32:
    case ncclInt32:
      return 4;
    case ncclInt64:
    case ncclFloat64:
      return 8;
    default:
      throw std::runtime_error("the emulated NCCL has no such type");
  }
}

bool NcclCall::operator==(const NcclCall& other) const {
  return std::strcmp(name, other.name) == 0 && count == other.count && type == other.type &&
         operation == other.operation && root == other.root;
}

std::string NcclCall::text() const {
  return fmt::format("{}(count {}, type {}, operation {}, root {})", name, count, static_cast<int>(type),
                     static_cast<int>(operation), root);
}

template <class Condition>
void NcclGroup::wait(std::unique_lock<std::mutex>& lock, Condition&& condition) {
  changed_.wait(lock, [&] { return failure_ != ncclSuccess || condition(); });
  if (failure_ != ncclSuccess) throw std::runtime_error(failure_text_);
}

void NcclGroup::fail(ncclResult_t result, const std::string& text) {
  {
    const std::lock_guard lock(lock_);
    if (failure_ == ncclSuccess) failure_ = result, failure_text_ = text;
  }
  changed_.notify_all();
}

ncclResult_t NcclGroup::failure() {
  const std::lock_guard lock(lock_);
  return failure_;
}

std::string NcclGroup::failure_text() {
  const std::lock_guard lock(lock_);
  return failure_text_;
}

void NcclGroup::meet(int rank, const NcclCall& call, const NcclBuffers& mine,
                     const std::function<void(const std::vector<NcclBuffers>&)>& work,
                     const std::function<void()>& after) {
  std::unique_lock lock(lock_);
  const std::int64_t number = next_[static_cast<std::size_t>(rank)]++;
  Meeting& meeting = meetings_[number];
  if (meeting.arrived == 0) {
    meeting.call = call;
    meeting.buffers.resize(static_cast<std::size_t>(ranks_));
  } else if (!(meeting.call == call)) {
    const std::string text =
        fmt::format("rank {} calls {} where another calls {}", rank, call.text(), meeting.call.text());
    lock.unlock();
    fail(ncclInvalidUsage, text);
    throw std::runtime_error(text);
  }
  meeting.buffers[static_cast<std::size_t>(rank)] = mine;
  ++meeting.arrived;
  changed_.notify_all();
  wait(lock, [&] { return meeting.arrived == ranks_; });
  const std::vector<NcclBuffers> buffers = meeting.buffers;
  lock.unlock();
  work(buffers);
  lock.lock();
  ++meeting.worked;
  changed_.notify_all();
  wait(lock, [&] { return meeting.worked == ranks_; });
  if (after) after();
  ++meeting.left;
  changed_.notify_all();
  wait(lock, [&] { return meetings_.count(number) == 0 || meeting.left == ranks_; });
  meetings_.erase(number);
}

void NcclGroup::exchange(int rank, const std::vector<Side>& sends, const std::vector<Side>& receives) {
  std::vector<NcclMessage> under_way;
  for (const Side& send : sends) under_way.push_back(send.message);
  std::unique_lock lock(lock_);
  for (std::size_t i = 0; i < sends.size(); ++i) mail_[{rank, sends[i].peer}].push_back(&under_way[i]);
  changed_.notify_all();
  for (const Side& receive : receives) {
    auto& queue = mail_[{receive.peer, rank}];
    wait(lock, [&] { return !queue.empty(); });
    NcclMessage& message = *queue.front();
    if (message.count != receive.message.count || message.type != receive.message.type) {
      const std::string text = fmt::format("rank {} sends {} of type {}, rank {} receives {} of type {}", receive.peer,
                                           message.count, static_cast<int>(message.type), rank, receive.message.count,
                                           static_cast<int>(receive.message.type));
      lock.unlock();
      fail(ncclInvalidUsage, text);
      throw std::runtime_error(text);
    }
    std::memcpy(const_cast<void*>(receive.message.data), message.data,
                message.count * static_cast<std::size_t>(bytes_of(message.type)));
    message.taken = true;
    queue.pop_front();
    changed_.notify_all();
  }
  wait(lock, [&] {
    for (const NcclMessage& message : under_way) {
      if (!message.taken) return false;
    }
    return true;
  });
}

}  // namespace emulator
