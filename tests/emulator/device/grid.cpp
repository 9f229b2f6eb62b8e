#include "emulator/device/grid.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulator/device/fiber.hpp"
#include "emulator/device/tensor_core.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) (static_cast<void>(address), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) (static_cast<void>(address), static_cast<void>(bytes))
#endif

namespace emulator {

namespace {

/// kMostShared: of a block, static and dynamic, on compute capability 8.0, the least that bundles are built for.
constexpr std::size_t kStaticShared = 48 << 10, kMostShared = 163 << 10, kGuard = 128;
constexpr int kPoison = 0xff, kGuardByte = 0xa5;

std::uint64_t first_seed() {
  const char* text = std::getenv("TESSERA_EMULATOR_SEED");  // NOLINT(concurrency-mt-unsafe): before any thread
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

std::uint64_t chosen_seed = first_seed();

enum class State : std::uint8_t { ready, at_barrier, in_meeting, done };

/// A cp.async that was issued.
struct Copy {
  void* shared;
  const void* global;
  int bytes;
};

struct Thread {
  Fiber fiber;
  std::vector<std::vector<Copy>> copies;  ///< committed groups, oldest first; the last one is still open
  ThreadPlace place;
  State state = State::done;
  SourcePlace waits_at;
};

/// Lanes of one warp that wait for each other.
struct OpenMeeting {
  std::uint32_t mask = 0, arrived = 0;
  SourcePlace at;
  Meeting meeting;
};

/// An array in shared memory, found again by every thread of the block; guard bytes follow it.
struct SharedArray {
  const void* site;
  std::size_t offset, bytes;
};

std::string where(const SourcePlace& at) {
  return std::string(at.file) + ":" + std::to_string(at.line) + " (" + at.function + ")";
}

/// The blocks of one launch. One per operating-system thread, kept for its stacks.
class Machine {
 public:
  void run(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& body) {
    const std::size_t threads = std::size_t{block.x} * block.y * block.z;
    if (threads < 1 || threads > 1024 || block.z > 64) throw std::runtime_error("emulator: a block of so many threads");
    if (grid.y > 65535 || grid.z > 65535 || grid.x > 0x7fffffffu) throw std::runtime_error("emulator: grid too large");
    if (shared_bytes > kMostShared) throw std::runtime_error("emulator: more dynamic shared memory than a GPU has");
    if (body_ != nullptr) throw std::runtime_error("emulator: a launch inside a kernel");
    const std::size_t blocks = std::size_t{grid.x} * grid.y * grid.z;
    while (threads_.size() < threads) threads_.push_back(std::make_unique<Thread>());
    count_ = threads, body_ = &body, dynamic_bytes_ = shared_bytes;
    random_.seed(chosen_seed);
    struct Restore {
      Machine& machine;
      ~Restore() { machine.body_ = nullptr, machine.current_ = nullptr; }
    } restore{*this};
    // With a seed, blocks come in the order of an odd multiple modulo a power of two: every one once, no list of them.
    std::size_t range = 1;
    while (range < blocks) range *= 2;
    const std::size_t factor = chosen_seed == 0 ? 1 : 2 * (random_() % range) + 1;
    const std::size_t first = chosen_seed == 0 ? 0 : random_() % range;
    for (std::size_t i = 0; i < range; ++i) {
      const std::size_t number = (first + factor * i) % range;
      if (number < blocks) run_block(grid, block, number);
    }
  }

  Thread& current() {
    if (current_ == nullptr) throw std::runtime_error("emulator: device code outside of a launch");
    return *current_;
  }
  void* dynamic_memory() { return dynamic_.get(); }

  void* shared_array(const void* site, std::size_t bytes, std::size_t alignment) {
    for (const SharedArray& array : arrays_) {
      if (array.site == site) return static_.get() + array.offset;
    }
    const std::size_t offset = (static_used_ + alignment - 1) / alignment * alignment;
    if (offset + bytes > kStaticShared) fail("more than 48 KB of shared arrays", SourcePlace::current());
    static_bytes_ += bytes;
    if (static_bytes_ + dynamic_bytes_ > kMostShared) {
      fail("more shared memory, static and dynamic, than a GPU has", SourcePlace::current());
    }
    arrays_.push_back({site, offset, bytes});
    ASAN_UNPOISON_MEMORY_REGION(static_.get() + offset, bytes);
    std::memset(static_.get() + offset, kPoison, bytes);
    static_used_ = offset + bytes + kGuard;
    return static_.get() + offset;
  }

  void barrier(const SourcePlace& at) {
    Thread& self = current();
    for (std::size_t i = 0; i < count_; ++i) {
      const Thread& other = *threads_[i];
      if (other.state == State::done) fail("a barrier that some threads have left the kernel without", at);
      if (other.state == State::at_barrier && !same_place(other.waits_at, at)) {
        fail("barriers at different places, the other at " + where(other.waits_at), at);
      }
    }
    self.state = State::at_barrier, self.waits_at = at;
    if (++at_barrier_ == count_) {
      at_barrier_ = 0;
      for (std::size_t i = 0; i < count_; ++i) make_ready(i);
    }
    self.fiber.leave();
  }

  void meet(std::uint32_t mask, const void* in, void* out, const std::function<void(const Meeting&)>& combine,
            const SourcePlace& at) {
    Thread& self = current();
    const unsigned lane = self.place.lane;
    if ((mask >> lane & 1u) == 0) fail("a warp operation whose mask lacks the lane that calls it", at);
    const std::size_t warp = index_of(self) / 32;
    auto& open = meetings_[warp];
    auto found = std::find_if(open.begin(), open.end(), [&](const OpenMeeting& m) { return (m.mask & mask) != 0; });
    if (found == open.end()) {
      open.push_back({mask, 0, at, {}});
      found = open.end() - 1;
    }
    if (found->mask != mask || !same_place(found->at, at)) {
      fail("lanes of a warp in different operations, the other at " + where(found->at), at);
    }
    found->arrived |= 1u << lane;
    found->meeting.in[lane] = in, found->meeting.out[lane] = out;
    if (found->arrived != mask) {
      self.state = State::in_meeting, self.waits_at = at;
      self.fiber.leave();
      return;
    }
    const OpenMeeting complete = *found;
    open.erase(found);
    combine(complete.meeting);
    for (unsigned other = 0; other < 32; ++other) {
      if (other != lane && (mask >> other & 1u) != 0) make_ready(warp * 32 + other);
    }
  }

  void cp_async(void* shared, const void* global, int bytes) {
    if ((reinterpret_cast<std::uintptr_t>(shared) | reinterpret_cast<std::uintptr_t>(global)) % 16 != 0) {
      fail("cp.async of misaligned 16 bytes", SourcePlace::current());
    }
    std::memset(shared, kPoison, 16);
    current().copies.back().push_back({shared, global, bytes});
  }
  void cp_async_commit() { current().copies.emplace_back(); }
  void cp_async_wait(std::size_t pending) {
    auto& groups = current().copies;
    while (groups.size() > pending + 1) {
      for (const Copy& copy : groups.front()) {
        std::memset(copy.shared, 0, 16);
        std::memcpy(copy.shared, copy.global, static_cast<std::size_t>(copy.bytes));
      }
      groups.erase(groups.begin());
    }
  }

  [[noreturn]] void fail(const std::string& what, const SourcePlace& at) {
    const ThreadPlace& p = current().place;
    throw std::runtime_error("emulator: " + what + " at " + where(at) + ", block " + std::to_string(p.block_index.x) +
                             "," + std::to_string(p.block_index.y) + "," + std::to_string(p.block_index.z) +
                             ", thread " + std::to_string(index_of(current())));
  }

 private:
  static bool same_place(const SourcePlace& a, const SourcePlace& b) {
    return a.line == b.line && std::strcmp(a.file, b.file) == 0;
  }
  std::size_t index_of(const Thread& t) const {
    return t.place.thread_index.x +
           t.place.block.x * (t.place.thread_index.y + std::size_t{t.place.block.y} * t.place.thread_index.z);
  }
  void make_ready(std::size_t index) {
    threads_[index]->state = State::ready;
    ready_.push_back(index);
  }

  static void thread_entry(void* machine) {
    auto& self = *static_cast<Machine*>(machine);
    Thread& thread = *self.current_;
    try {
      (*self.body_)();
    } catch (...) {
      self.failure_ = std::current_exception();
    }
    thread.state = State::done;
    thread.fiber.leave();
  }

  void prepare_shared() {
    if (static_ == nullptr) static_.reset(new (std::align_val_t{128}) std::byte[kStaticShared + 64 * kGuard]);
    ASAN_UNPOISON_MEMORY_REGION(static_.get(), kStaticShared + 64 * kGuard);
    std::memset(static_.get(), kGuardByte, kStaticShared + kGuard);
    ASAN_POISON_MEMORY_REGION(static_.get(), kStaticShared + 64 * kGuard);
    arrays_.clear(), static_used_ = 0, static_bytes_ = 0;
    if (dynamic_ == nullptr) dynamic_.reset(new (std::align_val_t{128}) std::byte[kMostShared + kGuard]);
    ASAN_UNPOISON_MEMORY_REGION(dynamic_.get(), kMostShared + kGuard);
    std::memset(dynamic_.get(), kPoison, dynamic_bytes_);
    std::memset(dynamic_.get() + dynamic_bytes_, kGuardByte, kGuard);
    ASAN_POISON_MEMORY_REGION(dynamic_.get() + dynamic_bytes_, kMostShared + kGuard - dynamic_bytes_);
  }

  void check_guards() const {
    ASAN_UNPOISON_MEMORY_REGION(static_.get(), kStaticShared + 64 * kGuard);
    ASAN_UNPOISON_MEMORY_REGION(dynamic_.get(), kMostShared + kGuard);
    const auto clean = [](const std::byte* from) {
      return std::all_of(from, from + kGuard, [](std::byte b) { return b == std::byte{kGuardByte}; });
    };
    bool intact = clean(dynamic_.get() + dynamic_bytes_);
    for (const SharedArray& array : arrays_) {
      // The next array starts behind the guard, rounded up: these bytes are nobody's.
      intact = intact && clean(static_.get() + array.offset + array.bytes);
    }
    if (!intact) throw std::runtime_error("emulator: a kernel wrote beside its shared memory");
  }

  /// Takes the thread that runs next. Odd seeds: any. Even ones: mostly the one that was woken last, so that a warp
  /// runs as far ahead of the others as it can.
  std::size_t next_ready() {
    if (chosen_seed != 0 && (chosen_seed % 2 != 0 || random_() % 64 == 0)) {
      std::swap(ready_.back(), ready_[random_() % ready_.size()]);
    }
    const bool last = chosen_seed != 0;
    const std::size_t next = last ? ready_.back() : ready_.front();
    last ? ready_.pop_back() : ready_.pop_front();
    return next;
  }

  void run_block(dim3 grid, dim3 block, std::size_t number) {
    prepare_shared();
    meetings_.assign((count_ + 31) / 32, {});
    ready_.clear(), at_barrier_ = 0, failure_ = nullptr;
    const uint3 block_index{static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
                            static_cast<unsigned>(number / grid.x / grid.y)};
    for (std::size_t i = 0; i < count_; ++i) {
      Thread& t = *threads_[i];
      t.place = {grid,
                 block,
                 block_index,
                 {static_cast<unsigned>(i % block.x), static_cast<unsigned>(i / block.x % block.y),
                  static_cast<unsigned>(i / block.x / block.y)},
                 static_cast<unsigned>(i % 32)};
      t.copies.assign(1, {});
      t.fiber.prepare(&Machine::thread_entry, this);
      make_ready(i);
    }
    while (!ready_.empty()) {
      current_ = threads_[next_ready()].get();
      current_->fiber.resume();
      current_ = nullptr;
      if (failure_ != nullptr) {
        check_guards();
        std::rethrow_exception(failure_);
      }
    }
    check_guards();
    for (std::size_t i = 0; i < count_; ++i) {
      const auto& copies = threads_[i]->copies;
      if (copies.size() > 1 || !copies.back().empty()) {
        current_ = threads_[i].get();
        fail("cp.async that nobody waited for", SourcePlace::current());
      }
      if (threads_[i]->state == State::done) continue;
      current_ = threads_[i].get();
      fail("threads that wait in vain: not all came", threads_[i]->waits_at);
    }
  }

  struct FreeAligned {
    void operator()(std::byte* p) const { operator delete[](p, std::align_val_t{128}); }
  };
  std::vector<std::unique_ptr<Thread>> threads_;
  std::size_t count_ = 0, at_barrier_ = 0, dynamic_bytes_ = 0, static_used_ = 0, static_bytes_ = 0;
  const std::function<void()>* body_ = nullptr;
  Thread* current_ = nullptr;
  std::deque<std::size_t> ready_;
  std::vector<std::vector<OpenMeeting>> meetings_;  ///< per warp
  std::unique_ptr<std::byte[], FreeAligned> static_, dynamic_;
  std::vector<SharedArray> arrays_;
  std::exception_ptr failure_;
  std::mt19937_64 random_;
};

Machine& machine() {
  thread_local Machine instance;
  return instance;
}

}  // namespace

void run_grid(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, const std::function<void()>& thread) {
  machine().run(grid, block, dynamic_shared_bytes, thread);
}
void* dynamic_shared_memory() { return machine().dynamic_memory(); }
void set_order_seed(std::uint64_t seed) { chosen_seed = seed; }
std::uint64_t order_seed() { return chosen_seed; }
const ThreadPlace& place() { return machine().current().place; }
void* shared_array(const void* site, std::size_t bytes, std::size_t alignment) {
  return machine().shared_array(site, bytes, alignment);
}
void block_barrier(const SourcePlace& at) { machine().barrier(at); }
void meet(std::uint32_t mask, const void* in, void* out, const std::function<void(const Meeting&)>& combine,
          const SourcePlace& at) {
  machine().meet(mask, in, out, combine, at);
}
void cp_async(void* shared, const void* global, int bytes) { machine().cp_async(shared, global, bytes); }
void cp_async_commit() { machine().cp_async_commit(); }
void cp_async_wait(int pending) { machine().cp_async_wait(static_cast<std::size_t>(pending)); }
void fault(const char* what, const SourcePlace& at) { machine().fail(what, at); }

}  // namespace emulator
