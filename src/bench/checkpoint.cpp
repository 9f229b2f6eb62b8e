#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <system_error>

#include "tessera/base/clock.hpp"
#include "tessera/base/file_descriptor.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/quantile.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/bench/commands.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/checkpoint/near.hpp"
#include "tessera/checkpoint/reader.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/training/checkpoint_writer.hpp"

namespace tessera {

namespace {

constexpr std::size_t kPiece = 1 << 20;

/// A file that this rank writes and reads plainly, for comparison.
class PlainFile {
 public:
  explicit PlainFile(const std::filesystem::path& path, int flags)
      : path_(path), file_(::open(path.c_str(), flags, 0666)) {
    if (!file_) fail_to("open", path_);
  }

  void write(std::int64_t bytes) const {
    std::vector<char> piece(kPiece);
    std::minstd_rand random(1);
    for (char& byte : piece) byte = static_cast<char>(random());  // not compressible by a disk
    for (; bytes > 0; bytes -= std::ssize(piece))
      write_all(file_, path_, {piece.data(), std::min(piece.size(), static_cast<std::size_t>(bytes))});
    sync_file(file_, path_);
  }
  void read() const {
    std::vector<char> piece(kPiece);
    ssize_t n = 0;
    while ((n = ::read(file_.get(), piece.data(), piece.size())) > 0) continue;
    if (n < 0) fail_to("read", path_);
  }
  /// Drops the file's pages from memory.
  void forget() const { ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED); }

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

void forget_folder(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    PlainFile(entry->path(), O_RDONLY).forget();
  if (error) throw IoError("cannot read folder {} ({})", folder.string(), error.message());
}

/// Returns the runs that rank `rank` of a layout holds, into `memory`, kind after kind.
std::vector<WantedRun> wanted_of(const StepSchedule& schedule, const UnitLayout& layout, std::int64_t rank,
                                 std::vector<float>& memory) {
  const std::vector<TensorRecord> tensors =
      tensor_records(schedule.model.tensors, schedule.policy.optimizer, schedule.policy.moments);
  const std::span<const StateKind> kinds = kinds_of(StateContent::full);
  std::int64_t share = 0;
  for (const Unit& unit : layout.units) share += unit.share(layout.world);
  memory.assign(static_cast<std::size_t>(share) * kinds.size(), 0.0F);
  std::vector<WantedRun> wanted;
  float* to = memory.data();
  for (const StateKind kind : kinds) {
    for (const Unit& unit : layout.units) {
      if (!unit.trains) continue;
      const std::int64_t count = unit.share(layout.world);
      for (const TensorRun& run : runs_in_slice(schedule.model, unit, rank * count, count)) {
        const std::int64_t number = run.tensor - schedule.model.first_trained_tensor();
        if (tensors[static_cast<std::size_t>(number)].keeps(kind))
          wanted.push_back(
              {kind, number, run.first, run.count, to + run.offset, dtype_of(kind, schedule.policy.moments)});
      }
      to += count;
    }
  }
  return wanted;
}

/// Returns run.dir, which must not exist, or a name unique to this process, because runs/run is a training's.
std::filesystem::path folder_of(World& world, const Options& options) {
  if (!options.run.dir.empty()) return options.run.dir;
  return world.control().broadcast(world.rank() == 0 ? fmt::format("runs/bench-checkpoint-{}", ::getpid()) : "");
}

class Bench {
 public:
  Bench(World& world, const Options& options) : world_(world), folder_(folder_of(world, options)) {
    if (path_exists(folder_))
      throw refusal("run.dir = {} exists", folder_.string()).hint("Name a folder that does not exist");
    world_.control().barrier();
    make_folder(folder_);
    world_.control().barrier();
  }
  ~Bench() {
    std::error_code ignored;
    if (world_.rank() == 0) std::filesystem::remove_all(folder_, ignored);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

  /// Returns the seconds until the last rank is done.
  template <class F>
  double seconds(F&& f) {
    world_.control().barrier();
    const auto start = std::chrono::steady_clock::now();
    f();
    world_.control().barrier();
    return seconds_since(start);
  }

 private:
  World& world_;
  std::filesystem::path folder_;
};

/// Measures checkpoints that steps wait for; prints a line per measurement and returns the seconds of a write.
double bench_in_the_step(World& world, const Options& options, const MachineShape& machine, Bench& bench,
                         const Log& log) {
  const ResolvedRun run(options, {Purpose::bench, world, machine});
  const auto session = open_session(world, run);
  session->train_step();
  CheckpointSettings settings;
  settings.options = options.checkpoint;
  settings.options.keep = 1;
  settings.folder = bench.folder() / "checkpoints";
  CheckpointWriter writer(world, *session, settings);

  const ModelParts& model = session->schedule().model;
  const UnitLayout& same = session->schedule().layout;
  const UnitLayout other = divide_into_units(model, Wrap::model, 1, world.size());
  const int threads = threads_of(options, machine);
  const std::filesystem::path near = near_folder(options.checkpoint.keep_near, settings.folder);
  std::vector<double> plain_write, write, plain_read, load, reshard, load_near;
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < options.bench.steps; ++i) {
    std::filesystem::path folder;
    write.push_back(bench.seconds([&] { folder = writer.write().folder; }));
    const CheckpointReader reader(folder);
    bytes = 0;
    for (const FileRecord& file : reader.manifest().files) bytes += file.bytes;
    const std::int64_t mine = bytes / world.size();
    // As with checkpoints, the previous file is removed when the new one is complete. On some machines, blocks of a
    // disk that were written before are several times as fast as new ones.
    const auto plain_name = [&](std::int64_t n) {
      return bench.folder() / fmt::format("plain-{}-{}", world.rank(), n);
    };
    const std::filesystem::path plain = plain_name(i);
    plain_write.push_back(bench.seconds([&] {
      PlainFile(plain, O_WRONLY | O_CREAT | O_TRUNC).write(mine);
      std::error_code ignored;
      std::filesystem::remove(plain_name(i - 1), ignored);
    }));
    // Each reading first frees the page-cache memory of the previous one, because pages that a virtual machine has not
    // used for a while cost more time than the disk.
    PlainFile(plain, O_RDONLY).forget();
    plain_read.push_back(bench.seconds([&] { PlainFile(plain, O_RDONLY).read(); }));
    const auto cold_load = [&](const UnitLayout& layout, const std::filesystem::path& copy = {}) {
      std::vector<float> memory;
      const auto wanted = wanted_of(session->schedule(), layout, world.rank(), memory);
      PlainFile(plain, O_RDONLY).forget();
      if (world.rank() == 0) forget_folder(folder);
      return bench.seconds([&] { CheckpointReader(folder, read_manifest(folder), {}, copy).read(wanted, threads); });
    };
    // They take turns, so that neither is always the first.
    for (const bool resharded : {i % 2 != 0, i % 2 == 0})
      (resharded ? reshard : load).push_back(cold_load(resharded ? other : same));
    if (!near.empty()) load_near.push_back(cold_load(same, near));
  }
  writer.remove_near();
  const auto line = [&](const char* what, const std::vector<double>& seconds, const std::vector<double>& against,
                        const char* reference) {
    const double one = median(seconds);
    log.info(fmt::format("{:<28} {:>10} {:>12}/s   {:>5.2f} of {}", what, format_seconds(one),
                         format_bytes(static_cast<std::int64_t>(static_cast<double>(bytes) / one)),
                         median(against) / one, reference));
  };
  log.info(fmt::format("checkpoint {} in {} files, {}, medians", format_bytes(bytes), world.size() + 2,
                       counted(options.bench.steps, "repetition")));
  line("plain write with fsync", plain_write, plain_write, "itself");
  line("write, checksums included", write, plain_write, "plain write");
  line("plain read, cold", plain_read, plain_read, "itself");
  line("load, same shape, cold", load, plain_read, "plain read");
  line("load, other shape, cold", reshard, load, "load, same shape");
  if (!near.empty()) line("load, same shape, near", load_near, load, "load, same shape");
  return median(write);
}

/// Trains a session with checkpoint.async and makes bench.steps checkpoints. Prints how long steps waited, also as a
/// share of `in_the_step` (seconds of a checkpoint without async), the time of the writing, and its cost to the
/// concurrent steps.
void bench_async(World& world, const Options& options, const MachineShape& machine, Bench& bench, double in_the_step,
                 const Log& log) {
  Options async = options;
  async.checkpoint.async = true;
  const ResolvedRun run(async, {Purpose::bench, world, machine});
  const auto session = open_session(world, run);
  CheckpointSettings settings;
  settings.options = async.checkpoint;
  settings.options.keep_near = "none";
  settings.options.keep = 1;
  settings.folder = bench.folder() / "async";
  CheckpointWriter writer(world, *session, settings);

  const auto step = [&] { return bench.seconds([&] { session->train_step(); }); };
  step();
  std::vector<double> blocked, written, steps_alone, steps_meanwhile;
  for (std::int64_t i = 0; i < options.bench.steps; ++i) {
    steps_alone.push_back(step());
    blocked.push_back(bench.seconds([&] { writer.begin(); }));
    do {
      steps_meanwhile.push_back(step());
    } while (world.control().sum(std::int64_t{writer.is_writing()}) > 0);
    writer.wait();
    written.push_back(writer.finished()->background_seconds);
  }
  log.info(fmt::format("{:<28} {:>10}   {:>20.3f} of write\n{:<28} {:>10}   steps meanwhile {} each, alone {}",
                       "async: steps wait", format_seconds(median(blocked)), median(blocked) / in_the_step,
                       "async: written after", format_seconds(median(written)), format_seconds(median(steps_meanwhile)),
                       format_seconds(median(steps_alone))));
}

}  // namespace

int run_bench_checkpoint(World& world, const Options& given) {
  const Log log(static_cast<int>(world.rank()), static_cast<int>(world.size()));
  const ResolvedRun here(given, {Purpose::machine, world});
  const Options& options = here.options;
  Bench bench(world, options);
  Options within = options;
  within.checkpoint.async = false;
  const double write = bench_in_the_step(world, within, here.machine, bench, log);
  bench_async(world, options, here.machine, bench, write, log);
  return 0;
}

}  // namespace tessera
