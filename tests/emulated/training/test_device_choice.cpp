// Which GPU a rank gets, by what the job system shows it.
#include <catch2/catch.hpp>
#include <functional>
#include <mutex>
#include <set>

#include "gpu_case.hpp"
#include "tessera/engine/backend.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// A rank and the GPUs that it sees.
using Sight = std::function<std::pair<int, int>(std::int64_t rank)>;

/// The GPUs of ranks that see `view`, and how many ranks each says it has.
std::multiset<std::pair<std::string, std::int64_t>> chosen(std::int64_t ranks, const Sight& view, bool share = false) {
  std::multiset<std::pair<std::string, std::int64_t>> all;
  std::mutex mutex;
  run_ranks(ranks, ranks, [&](RankContext& context) {
    const auto [first, count] = view(context.rank());
    emulator::see_devices(first, count);
    const auto device = backend_of(DeviceKind::cuda).open_device(context, share);
    const std::vector<std::string> of_all = context.control().all_gather(device->identity());
    const std::int64_t on_it = std::count(of_all.begin(), of_all.end(), device->identity());
    const std::lock_guard lock(mutex);
    all.emplace(device->identity(), on_it);
  });
  return all;
}

std::set<std::string> names(const std::multiset<std::pair<std::string, std::int64_t>>& all) {
  std::set<std::string> some;
  for (const auto& [name, ranks] : all) some.insert(name);
  return some;
}

}  // namespace

TEST_CASE("ranks get GPUs of their own, however many of them they see") {
  const GpuCount gpus(8);
  const Sight all = [](std::int64_t) { return std::pair(0, 0); };
  const Sight one = [](std::int64_t rank) { return std::pair(static_cast<int>(rank), 1); };
  const Sight two = [](std::int64_t rank) { return std::pair(2 * static_cast<int>(rank), 2); };
  for (const Sight& view : {all, one, two}) CHECK(names(chosen(4, view)).size() == 4);
}

TEST_CASE("two ranks of one GPU are refused, whatever they see, unless they may share it") {
  const GpuCount gpus(2);
  const Sight all = [](std::int64_t) { return std::pair(0, 0); };
  const Sight last = [](std::int64_t) { return std::pair(1, 1); };
  CHECK_THROWS_WITH(chosen(3, all),
                    Catch::Contains("ranks 0 and 2 compute on one GPU") && Catch::Contains("run.share_gpu = true"));
  CHECK_THROWS_WITH(chosen(2, last), Catch::Contains("ranks 0 and 1 compute on one GPU"));
  const auto shared = chosen(3, all, true);
  CHECK(names(shared).size() == 2);
  std::int64_t sum = 0;
  for (const auto& [name, ranks] : shared) sum += ranks;
  CHECK(sum == 2 + 2 + 1);
}
