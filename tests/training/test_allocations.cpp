// Nothing is allocated in a steady step: a hook on operator new counts. oneDNN takes and returns its packing buffer
// with malloc inside each matmul; that is the library's own and not seen here.
#include <atomic>
// Not in sanitizer builds: opening an operation's memory allocates there.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "plan_run.hpp"
#include "session_case.hpp"

namespace {
std::atomic<bool> counting{false};
std::atomic<std::int64_t> allocations{0};

void* counted(std::size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes > 0 ? bytes : 1); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes > 0 ? bytes : 1); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Allocations in five steps, after two, of two ranks as threads.
std::int64_t allocations_in_steps(const Options& options, std::int64_t ranks_per_node) {
  const Architecture architecture = GENERATE(small_model(Family::gpt2), small_model(Family::qwen2));
  const PlannedRun planned = plan_run(options, architecture, 2, ranks_per_node);
  std::atomic<std::int64_t> counted_total{0};
  with_sessions(options, planned, [&](RankContext& context, TrainingSession& session) {
    for (int i = 0; i < 2; ++i) session.train_step();
    context.control().barrier();
    if (context.rank() == 0) allocations = 0, counting = true;
    context.control().barrier();
    for (int i = 0; i < 5; ++i) session.train_step();
    context.control().barrier();
    if (context.rank() == 0) counting = false, counted_total = allocations.load();
    context.control().barrier();
  });
  return counted_total;
}

}  // namespace

TEST_CASE("a steady step allocates nothing") {
  Options options = base_options();
  options.train.steps = 20;
  options.train.accumulation = 3;
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero1, Strategy::zero2, Strategy::zero3}) {
    for (const QueueMode mode : {QueueMode::serial, QueueMode::parallel}) {
      for (const std::int64_t ranks_per_node : {2, 1}) {
        options.shard.strategy = strategy;
        options.run.queues = mode;
        INFO(name_of(strategy) << " queues " << name_of(mode) << " nodes of " << ranks_per_node);
        // The barriers around the count may allocate a few times themselves: far fewer than operations are played.
        REQUIRE(allocations_in_steps(options, ranks_per_node) <= 16);
        Options offloading = options;
        offloading.shard.offload = Offload::optimizer;
        offloading.memory.checkpoint = ActivationCheckpointing::block;
        offloading.memory.offload_activations = true;
        INFO("with state and activations on the host");
        REQUIRE(allocations_in_steps(offloading, ranks_per_node) <= 16);
      }
    }
  }
}

#endif
