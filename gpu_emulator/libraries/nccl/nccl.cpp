// The functions of NCCL that the project calls.

#include "gpu_emulator/libraries/nccl/nccl.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

#include "gpu_emulator/libraries/nccl/group.hpp"
#include "gpu_emulator/runtime/enqueue.hpp"
#include "gpu_emulator/runtime/state.hpp"
#include "tessera/base/dtype.hpp"

using emulator::NcclBuffers;
using emulator::NcclCall;
using emulator::NcclGroup;

/// A rank's end of a communicator.
struct ncclComm {
  std::shared_ptr<NcclGroup> group;
  int rank = 0, device = 0;
  std::atomic<ncclResult_t> failure{ncclSuccess};
  std::atomic<bool> busy{false};
  std::shared_ptr<int> captured = std::make_shared<int>();  ///< held by the graphs that have work of it
};

namespace {

struct World {
  std::mutex lock;
  std::condition_variable changed;
  std::int64_t ids = 0, open = 0;
  struct Meeting {
    std::shared_ptr<NcclGroup> group;
    std::set<int> ranks;
    std::set<int> devices;
    bool refused = false;
  };
  std::map<std::int64_t, Meeting> starting;
  std::map<int, std::vector<std::int64_t>> issued;  ///< per device: numbers of groups, in order
  std::map<int, std::set<std::int64_t>> joined;     ///< per device
  /// By who owns the capture, because a later one may lie at the same address.
  std::map<std::weak_ptr<emulator::Capture>, std::size_t, std::owner_less<>> last_captured;
};

// Never destroyed, because watchdogs may still look at it while the process ends.
World& world() {
  static auto* const all = new World;
  return *all;
}

std::atomic<std::int64_t> operations_to_failure{0};
std::atomic<bool> calls_connect{false};
std::atomic<std::int64_t> captured_registrations{0};

struct PendingSide {
  ncclComm_t comm;
  cudaStream_t stream;
  bool sends;
  NcclGroup::Side side;
};
thread_local int group_depth = 0;
thread_local std::vector<PendingSide> pending;
thread_local std::string error_text;

/// With NCCL_LAUNCH_ORDER_IMPLICIT the captured work of one device's communicators keeps the order of its issue.
void order_in_capture(cudaStream_t stream) {
  const char* const ordered = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  if (stream->capture == nullptr || ordered == nullptr || std::strcmp(ordered, "1") != 0) return;
  const std::lock_guard lock(world().lock);
  std::erase_if(world().last_captured, [](const auto& one) { return one.first.expired(); });
  const auto last = world().last_captured.find(stream->capture);
  if (last != world().last_captured.end()) stream->frontier.push_back(last->second);
  world().last_captured[stream->capture] = stream->capture->nodes.size();
}

/// Runs `work` in the stream, as this communicator's next operation.
ncclResult_t issue(ncclComm_t comm, cudaStream_t stream, std::function<void()> work) {
  if (comm == nullptr) return ncclInvalidArgument;
  if (stream == nullptr) return ncclInvalidUsage;  // ours never use the default stream
  if (comm->failure != ncclSuccess) return comm->failure;
  {
    const std::lock_guard lock(world().lock);
    world().issued[comm->device].push_back(comm->group->number());
  }
  const char* const registers = std::getenv("NCCL_GRAPH_REGISTER");
  if (stream->capture != nullptr && (registers == nullptr || std::strcmp(registers, "0") != 0))
    ++captured_registrations;
  if (calls_connect) {
    try {
      comm->group->meet(comm->rank, {"a connection"}, {}, [](const auto&) {});
    } catch (const std::exception&) {
      return comm->group->failure();
    }
  }
  order_in_capture(stream);
  const auto captured = stream->capture != nullptr ? comm->captured : nullptr;
  emulator::enqueue(stream, [comm, captured, work = std::move(work)] {
    if (operations_to_failure > 0 && --operations_to_failure == 0) {
      comm->failure = ncclRemoteError;
      for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    if (comm->busy.exchange(true)) throw std::runtime_error("two operations of one communicator at a time");
    try {
      work();
    } catch (...) {
      comm->failure = comm->group->failure();
      comm->busy = false;
      throw;
    }
    comm->busy = false;
  });
  return ncclSuccess;
}

std::size_t bytes(std::size_t count, ncclDataType_t type) {
  return count * static_cast<std::size_t>(emulator::bytes_of(type));
}

/// into[i] += from[i], rounded to the type at every step, as a ring does; or, of integers, the larger of the two.
void combine(void* into, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t operation) {
  const auto each = [&]<class T>(auto plus) {
    for (std::size_t i = 0; i < count; ++i) {
      T& left = static_cast<T*>(into)[i];
      left = plus(left, static_cast<const T*>(from)[i]);
    }
  };
  const auto rounded = [](auto a, auto b) { return decltype(a)(static_cast<float>(a) + static_cast<float>(b)); };
  switch (type) {
    case ncclFloat32:
      return each.operator()<float>(rounded);
    case ncclBfloat16:
      return each.operator()<tessera::bf16>(rounded);
    case ncclFloat16:
      return each.operator()<tessera::fp16>(rounded);
    case ncclInt64:
      if (operation == ncclMax) return each.operator()<std::int64_t>([](auto a, auto b) { return std::max(a, b); });
      return each.operator()<std::uint64_t>([](auto a, auto b) { return a + b; });
    default:
      throw std::runtime_error("the emulated NCCL does not sum this type");
  }
}

/// Element range [first, first + count) summed over the ranks, beginning behind `owner` and ending with it.
std::vector<std::byte> ring_sum(const std::vector<NcclBuffers>& all, std::size_t first, std::size_t count,
                                ncclDataType_t type, int owner, ncclRedOp_t operation = ncclSum) {
  std::vector<std::byte> sum(bytes(count, type));
  const int ranks = static_cast<int>(all.size());
  for (int step = 1; step <= ranks; ++step) {
    const std::byte* const from = all[static_cast<std::size_t>((owner + step) % ranks)].send + bytes(first, type);
    if (step == 1) {
      std::memcpy(sum.data(), from, sum.size());
    } else {
      combine(sum.data(), from, count, type, operation);
    }
  }
  return sum;
}

}  // namespace

namespace emulator {

void fail_nccl_operation(std::int64_t n) { operations_to_failure = n; }

void connect_in_nccl_calls() { calls_connect = true; }

std::int64_t captured_nccl_registrations() { return captured_registrations.exchange(0); }

std::int64_t open_nccl_communicators() {
  const std::lock_guard lock(world().lock);
  return world().open;
}

std::string nccl_issue_orders() {
  const std::lock_guard lock(world().lock);
  std::string wrong;
  for (const auto& [one, first] : world().issued) {
    for (const auto& [other, second] : world().issued) {
      if (other <= one) continue;
      const auto shared = [&](const std::vector<std::int64_t>& all, int device) {
        std::vector<std::int64_t> some;
        for (const std::int64_t number : all) {
          if (world().joined[device].count(number) > 0) some.push_back(number);
        }
        return some;
      };
      if (shared(first, other) != shared(second, one))
        wrong =
            fmt::format("devices {} and {} issue work of their common communicators in different orders", one, other);
    }
  }
  world().issued.clear();
  return wrong;
}

}  // namespace emulator

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = kNcclAbiVersion;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : result == ncclInvalidUsage ? "invalid usage" : "an emulated error";
}

const char* ncclGetLastError(ncclComm_t comm) {
  error_text = comm != nullptr && comm->group->failure() != ncclSuccess ? comm->group->failure_text() : error_text;
  return error_text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(world().lock);
  *id = {};
  const std::int64_t number = ++world().ids;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  // The environment goes before the caller. Calls that do not block are not known here, nor to ours.
  const char* const blocks = std::getenv("NCCL_COMM_BLOCKING");
  if (config->blocking != 1 || (blocks != nullptr && std::strcmp(blocks, "0") == 0) || config->splitShare == 1)
    return ncclInvalidArgument;
  if (rank < 0 || rank >= ranks) return ncclInvalidArgument;
  std::int64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  const int device = emulator::current_device();
  std::unique_lock lock(world().lock);
  World::Meeting& meeting = world().starting[number];
  if (meeting.group == nullptr) meeting.group = std::make_shared<NcclGroup>(number, ranks);
  const auto group = meeting.group;
  const bool shared = !meeting.devices.insert(device).second && std::getenv("NCCL_MULTI_RANK_GPU_ENABLE") == nullptr;
  if (group->ranks() != ranks || !meeting.ranks.insert(rank).second || shared) {
    error_text = shared ? "Duplicate GPU detected" : "ranks do not fit together";
    meeting.refused = true;
  }
  world().changed.notify_all();
  world().changed.wait(lock, [&] { return meeting.refused || static_cast<int>(meeting.ranks.size()) == ranks; });
  if (meeting.refused) return ncclInvalidUsage;
  world().joined[device].insert(number);
  ++world().open;
  *comm = new ncclComm{group, rank, device};
  return ncclSuccess;
}

/// Waits for the other ranks, as the real one may, but does not wait forever for graphs, as the real one would.
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm->captured.use_count() > 1) {
    std::fprintf(stderr, "emulator: a communicator ends before the graphs that it is captured in\n");
    std::abort();
  }
  try {
    comm->group->meet(comm->rank, {"ncclCommFinalize"}, {}, [](const auto&) {});
    return ncclSuccess;
  } catch (const std::exception&) {
    return comm->group->failure();
  }
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::lock_guard lock(world().lock);
  --world().open;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  *result = comm->failure;
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return issue(comm, stream, [=] {
    const NcclBuffers mine{static_cast<const std::byte*>(send), static_cast<std::byte*>(receive)};
    comm->group->meet(comm->rank, {"ncclAllGather", count, type}, mine, [&](const std::vector<NcclBuffers>& all) {
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        std::byte* const to = mine.receive + rank * bytes(count, type);
        if (to != all[rank].send) std::memcpy(to, all[rank].send, bytes(count, type));
      }
    });
  });
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  if (operation != ncclSum) return ncclInvalidArgument;
  return issue(comm, stream, [=] {
    std::vector<std::byte> sum;
    comm->group->meet(
        comm->rank, {"ncclReduceScatter", count, type}, {static_cast<const std::byte*>(send), nullptr},
        [&](const auto& all) {
          sum = ring_sum(all, static_cast<std::size_t>(comm->rank) * count, count, type, comm->rank);
        },
        [&] { std::memcpy(receive, sum.data(), sum.size()); });
  });
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  if (operation != ncclSum && (operation != ncclMax || type != ncclInt64)) return ncclInvalidArgument;
  return issue(comm, stream, [=] {
    std::vector<std::byte> sum;
    comm->group->meet(
        comm->rank, {"ncclAllReduce", count, type, operation}, {static_cast<const std::byte*>(send), nullptr},
        [&](const auto& all) { sum = ring_sum(all, 0, count, type, 0, operation); },
        [&] { std::memcpy(receive, sum.data(), sum.size()); });
  });
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue(comm, stream, [=] {
    const NcclBuffers mine{static_cast<const std::byte*>(send), static_cast<std::byte*>(receive)};
    comm->group->meet(comm->rank, {"ncclBroadcast", count, type, ncclSum, root}, mine, [&](const auto& all) {
      const std::byte* const from = all[static_cast<std::size_t>(root)].send;
      if (from != mine.receive) std::memcpy(mine.receive, from, bytes(count, type));
    });
  });
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (group_depth == 0) return ncclInvalidUsage;  // alone it may wait for the peer forever
  pending.push_back({comm, stream, true, {peer, {data, count, type}}});
  return ncclSuccess;
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (group_depth == 0) return ncclInvalidUsage;
  pending.push_back({comm, stream, false, {peer, {data, count, type}}});
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth > 0 || pending.empty()) return ncclSuccess;
  std::vector<NcclGroup::Side> sends, receives;
  ncclComm_t const comm = pending.front().comm;
  cudaStream_t const stream = pending.front().stream;
  bool mixed = false;
  for (const PendingSide& one : pending) {
    mixed |= one.comm != comm || one.stream != stream;
    (one.sends ? sends : receives).push_back(one.side);
  }
  pending.clear();
  if (mixed) return ncclInvalidUsage;  // ours are of one communicator and stream
  return issue(comm, stream, [=] { comm->group->exchange(comm->rank, sends, receives); });
}

}  // extern "C"
