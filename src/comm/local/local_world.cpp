#include "tessera/comm/local_world.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "comm/anonymous_memory.hpp"
#include "comm/local/mail_room.hpp"
#include "comm/notice_block.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

/// What the ranks of a local world have in common.
class Hub {
 public:
  Hub(std::int64_t rank_count, std::int64_t ranks_per_node) : ranks(rank_count), per_node(ranks_per_node) {}

  const std::int64_t ranks, per_node;
  NoticeBlock notice{};

  /// The mail room of the `ordinal`-th transport over these members: the first to come makes it, the last takes it
  /// away.
  std::shared_ptr<MailRoom> room(const std::vector<std::int64_t>& members, std::int64_t ordinal) {
    const std::lock_guard lock(lock_);
    auto& [room, joined] = rooms_[{members, ordinal}];
    if (!room) room = std::make_shared<MailRoom>(static_cast<std::int64_t>(members.size()));
    const std::shared_ptr<MailRoom> result = room;
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
    const auto memory = offer == offers_.end() ? nullptr : offer->second.lock();
    TESSERA_ASSERT(memory, "memory number {} is gone", token);
    return memory;
  }

 private:
  struct Room {
    std::shared_ptr<MailRoom> room;
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
  std::string host_;
  BlockNotice notice_;
  LocalExchange memory_;
  std::map<std::vector<std::int64_t>, std::int64_t> opened_;
  std::unique_ptr<Transport> transport_;
  ControlPlane control_;
};

/// Runs one rank; the world's first failure is kept in `first`.
void run_rank(Hub& hub, std::int64_t rank, const std::function<void(RankContext&)>& body, std::exception_ptr& first) {
  const auto fail = [&](ExitCode code, const char* what) {
    if (hub.notice.write({rank, code, what})) first = std::current_exception();
  };
  try {
    LocalRank context(hub, rank);
    body(context);
  } catch (const Error& error) {
    fail(error.code(), error.what());
  } catch (const std::exception& error) {
    fail(ExitCode::internal, error.what());
  } catch (...) {
    fail(ExitCode::internal, "an exception of unknown type");
  }
}

}  // namespace

void run_ranks(std::int64_t ranks, std::int64_t ranks_per_node, const std::function<void(RankContext&)>& body) {
  if (ranks < 1 || ranks_per_node < 1 || ranks % ranks_per_node != 0) {
    throw UsageError("{} ranks on nodes of {}: nodes must be of equal size", ranks, ranks_per_node);
  }
  Hub hub(ranks, ranks_per_node);
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&hub, &body, &first, rank] { run_rank(hub, rank, body, first); });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace tessera
