#include "local_world/local_world.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "comm/anonymous_memory.hpp"
#include "local_world/block_notice.hpp"
#include "local_world/thread_transport.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/threads.hpp"

namespace tessera {

namespace {

/// The shared state of a local world's ranks.
class Hub {
 public:
  Hub(std::int64_t rank_count, std::int64_t ranks_per_node) : ranks(rank_count), per_node(ranks_per_node) {}

  const std::int64_t ranks, per_node;
  NoticeBlock notice{};

  /// Returns the mail room of the `ordinal`-th transport over these members: the first to arrive makes it, the last
  /// removes it.
  std::shared_ptr<ThreadMailbox> room(const std::vector<std::int64_t>& members, std::int64_t ordinal) {
    const std::lock_guard lock(lock_);
    auto& [room, joined] = rooms_[{members, ordinal}];
    if (!room) room = std::make_shared<ThreadMailbox>(static_cast<std::int64_t>(members.size()));
    std::shared_ptr<ThreadMailbox> result = room;
    if (++joined == static_cast<std::int64_t>(members.size())) rooms_.erase({members, ordinal});
    return result;
  }

  std::string offer(std::shared_ptr<SharedMemory> memory) {
    const std::lock_guard lock(lock_);
    offers_[++offered_] = memory;
    return std::to_string(offered_);
  }

  std::shared_ptr<SharedMemory> open(const std::string& token) {
    const std::lock_guard lock(lock_);
    const auto offer = offers_.find(std::stoll(token));
    auto memory = offer == offers_.end() ? nullptr : offer->second.lock();
    TESSERA_ASSERT(memory, "memory number {} is gone", token);
    return memory;
  }

 private:
  struct Room {
    std::shared_ptr<ThreadMailbox> room;
    std::int64_t joined = 0;
  };
  std::mutex lock_;
  std::map<std::pair<std::vector<std::int64_t>, std::int64_t>, Room> rooms_;
  std::map<std::int64_t, std::weak_ptr<SharedMemory>> offers_;
  std::int64_t offered_ = 0;
};

class LocalExchange final : public MemoryExchange {
 public:
  explicit LocalExchange(Hub& hub) : hub_(hub) {}
  Offer create(std::int64_t bytes) override {
    auto memory = std::make_shared<AnonymousMemory>(bytes);
    return {memory, hub_.offer(memory)};
  }
  std::shared_ptr<SharedMemory> open(const std::string& token, std::int64_t, bool) override { return hub_.open(token); }

 private:
  Hub& hub_;
};

class LocalRank final : public RankContext {
 public:
  LocalRank(Hub& hub, std::int64_t rank)
      : hub_(hub),
        rank_(rank),
        host_(fmt::format("thread {}", rank)),
        notice_(hub.notice),
        memory_(hub),
        transport_(open_transport(world())),
        control_(*transport_, notice_) {}

  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return hub_.ranks; }
  std::int64_t ranks_per_node() const override { return hub_.per_node; }
  const std::string& host() const override { return host_; }
  const std::string& machine() const override { return machine_; }
  ControlPlane& control() override { return control_; }
  FailureNotice& notice() override { return notice_; }
  MemoryExchange& memory() override { return memory_; }

  std::unique_ptr<Transport> open_transport(const std::vector<std::int64_t>& members) override {
    const auto place = std::find(members.begin(), members.end(), rank_);
    TESSERA_ASSERT(place != members.end(), "rank {} opens a transport that it is not on", rank_);
    return std::make_unique<LocalTransport>(hub_.room(members, opened_[members]++),
                                            static_cast<int>(place - members.begin()));
  }

 private:
  std::vector<std::int64_t> world() const {
    std::vector<std::int64_t> ranks;
    for (std::int64_t rank = 0; rank < hub_.ranks; ++rank) ranks.push_back(rank);
    return ranks;
  }

  Hub& hub_;
  std::int64_t rank_;
  std::string host_, machine_ = "this process";
  BlockNotice notice_;
  LocalExchange memory_;
  std::map<std::vector<std::int64_t>, std::int64_t> opened_;
  std::unique_ptr<Transport> transport_;
  ControlPlane control_;
};

/// The failure that run_ranks rethrows: the first that is a rank's own, not the echo of another's.
class FirstFailure {
 public:
  void keep(std::exception_ptr failure, bool own) {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr || (own && !own_)) failure_ = std::move(failure), own_ = own;
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
  bool own_ = false;
};

/// Runs one rank. Its body may have raised the notice itself (a player does, before it joins its queues).
void run_rank(Hub& hub, std::int64_t rank, const std::function<void(RankContext&)>& body, FirstFailure& first) {
  const auto fail = [&](ExitCode code, const char* what, bool own) {
    hub.notice.write({rank, code, what});
    first.keep(std::current_exception(), own);
  };
  try {
    LocalRank context(hub, rank);
    body(context);
  } catch (const PeerError& error) {
    fail(error.code(), error.what(), false);
  } catch (const Error& error) {
    fail(error.code(), error.what(), true);
  } catch (const std::exception& error) {
    fail(ExitCode::internal, error.what(), true);
  } catch (...) {
    fail(ExitCode::internal, "an exception of unknown type", true);
  }
}

}  // namespace

void run_ranks(std::int64_t ranks, std::int64_t ranks_per_node, const std::function<void(RankContext&)>& body) {
  if (ranks < 1 || ranks_per_node < 1 || ranks % ranks_per_node != 0) {
    throw UsageError("{} ranks on nodes of {}: nodes must be of equal size", ranks, ranks_per_node);
  }
  Hub hub(ranks, ranks_per_node);
  FirstFailure first;
  std::vector<std::thread> threads;
  try {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      threads.push_back(start_thread(fmt::format("rank {}", rank),
                                     [&hub, &body, &first, rank] { run_rank(hub, rank, body, first); }));
    }
  } catch (const IoError& error) {  // started ranks wait for those that did not start
    hub.notice.write({static_cast<std::int64_t>(threads.size()), error.code(), error.what()});
    first.keep(std::current_exception(), true);
  }
  for (std::thread& thread : threads) thread.join();
  first.rethrow();
}

}  // namespace tessera
