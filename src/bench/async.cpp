#include "bench/async.hpp"

#include <chrono>

#include "bench/median.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/format.hpp"
#include "tessera/training/checkpoint_writer.hpp"

namespace tessera {

namespace {

/// Returns the seconds until the last rank is done.
template <class F>
double seconds_of_all(World& world, F&& f) {
  world.control().barrier();
  const auto start = std::chrono::steady_clock::now();
  f();
  world.control().barrier();
  return seconds_since(start);
}

}  // namespace

std::string bench_async_checkpoints(World& world, const Options& options, const MachineShape& machine,
                                    const std::filesystem::path& folder, double in_the_step) {
  Options beside = options;
  beside.checkpoint.async = true;
  const ResolvedRun run(beside, {Purpose::bench, world, machine});
  const auto session = open_session(world, run);
  CheckpointSettings settings;
  settings.options = beside.checkpoint;
  settings.options.keep = 1;
  settings.folder = folder;
  CheckpointWriter writer(world, *session, settings);

  const auto step = [&] { return seconds_of_all(world, [&] { session->train_step(); }); };
  step();
  std::vector<double> blocked, written, steps_alone, steps_beside;
  for (std::int64_t i = 0; i < options.bench.steps; ++i) {
    steps_alone.push_back(step());
    blocked.push_back(seconds_of_all(world, [&] { writer.begin(); }));
    do {
      steps_beside.push_back(step());
    } while (world.control().sum(std::int64_t{writer.is_writing()}) > 0);
    writer.wait();
    written.push_back(writer.finished()->background_seconds);
  }
  return fmt::format("{:<28} {:>10}   {:>20.3f} of write\n{:<28} {:>10}   steps beside it {} each, alone {}",
                     "async: steps wait", format_seconds(median(blocked)), median(blocked) / in_the_step,
                     "async: written after", format_seconds(median(written)), format_seconds(median(steps_beside)),
                     format_seconds(median(steps_alone)));
}

}  // namespace tessera
