// Checkpoints that are written while steps go on. They hold the state at their start, are written one at a time, and
// report errors at a step boundary.
#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <fstream>
#include <sstream>
#include <thread>

#include "checkpoint_case.hpp"
#include "plan_run.hpp"
#include "tessera/checkpoint/folder.hpp"
#include "tessera/checkpoint/reader.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Holds the writing of files back until it is opened.
class Gate {
 public:
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  /// For CheckpointSettings::hdf5.
  RunHdf5 hook() {
    return [this](const std::function<void()>& task) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return open_; });
      }
      task();
    };
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

std::string bytes_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

Options async_options() {
  Options options = base_options();
  options.checkpoint.async = true;
  options.checkpoint.keep = 0;
  return options;
}

/// A session on every rank, with a writer whose HDF5 calls go through hook(rank).
void with_writers(const Options& base, const Shape& shape, const std::filesystem::path& folder,
                  const std::function<RunHdf5(std::int64_t)>& hook,
                  const std::function<void(RankContext&, TrainingSession&, CheckpointWriter&)>& body) {
  const Options options = shaped(base, shape);
  const Architecture architecture = small_gpt2();
  const PlannedRun planned = plan_run(options, architecture, shape.world, shape.ranks_per_node);
  with_sessions(options, planned, [&](RankContext& context, TrainingSession& session) {
    CheckpointSettings settings;
    settings.options = options.checkpoint;
    settings.folder = folder / "checkpoints";
    settings.hdf5 = hook(context.rank());
    CheckpointWriter writer(context, session, settings);
    body(context, session, writer);
  });
}

/// Checks for ranks, which are threads: Catch's own checks are for one.
void expect(bool condition, const char* what) {
  if (!condition) throw InternalError("not so: {}", what);
}

RunHdf5 no_hook(std::int64_t) { return run_hdf5_here; }

/// Returns the elements of a shard, without HDF5's own notes (the time).
std::string elements_of(const std::filesystem::path& folder, const FileRecord& file) {
  const std::string bytes = bytes_of(folder / file.name);
  std::string elements;
  for (const std::int64_t offset : file.offsets)
    elements += bytes.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(file.elements()) * 4);
  return elements;
}

}  // namespace

TEST_CASE("what is written is the state of the step, although steps go on; a second checkpoint waits for the first") {
  const Options options = async_options();
  for (const Shape& shape :
       {Shape{Strategy::zero3, 2, 2, 0, Wrap::block, 4}, Shape{Strategy::ddp, 2, 1, 0, Wrap::block, 4},
        Shape{Strategy::hsdp, 4, 4, 2, Wrap::block, 4}}) {
    INFO(shape.text());
    const RunPlace held, plain;
    Gate gate;
    std::vector<CheckpointReport> reports;
    with_writers(
        options, shape, held.path(), [&](std::int64_t) { return gate.hook(); },
        [&](RankContext& context, TrainingSession& session, CheckpointWriter& writer) {
          session.train_step();
          writer.begin();
          for (int more = 0; more < 3; ++more) {
            session.train_step();
            expect(writer.is_writing(), "still being written");
            expect(!writer.finished().has_value(), "not finished");
          }
          std::thread opener;
          if (context.rank() == 0) {
            opener = std::thread([&] {
              std::this_thread::sleep_for(std::chrono::seconds(1));  // begin() gives no sign that it waits
              gate.open();
            });
          }
          writer.begin();  // step 4: waits
          if (opener.joinable()) opener.join();
          session.train_step();
          writer.wait();
          while (const auto report = writer.finished()) {
            if (context.rank() == 0) reports.push_back(*report);
          }
        });
    REQUIRE(reports.size() == 2);
    REQUIRE(reports[0].step == 1);
    REQUIRE(reports[0].waited_seconds == 0);
    REQUIRE(reports[0].blocked_seconds > 0);
    REQUIRE(reports[0].background_seconds > 0.1);
    REQUIRE(reports[1].step == 4);
    REQUIRE(reports[1].waited_seconds > 0);
    REQUIRE(reports[1].blocked_seconds > reports[1].waited_seconds);
    REQUIRE(reports[0].bytes > 0);

    Options in_the_step = options;
    in_the_step.checkpoint.async = false;
    with_writers(in_the_step, shape, plain.path(), no_hook,
                 [&](RankContext&, TrainingSession& session, CheckpointWriter& writer) {
                   for (int step = 1; step <= 4; ++step) {
                     session.train_step();
                     if (step != 1 && step != 4) continue;
                     const CheckpointReport report = writer.write();
                     expect(report.background_seconds == 0 && report.waited_seconds == 0, "all of it in the step");
                   }
                 });
    for (const char* step : {"step-00000001", "step-00000004"}) {
      const auto folder = held.path() / "checkpoints" / step;
      REQUIRE(verify_checkpoint(folder, 2) == std::vector<std::string>{});
      const CheckpointReader reader(folder);
      for (const FileRecord& file : reader.manifest().files) {
        INFO(step << "/" << file.name);
        const bool same = elements_of(folder, file) == elements_of(plain.path() / "checkpoints" / step, file);
        REQUIRE(same);
      }
    }
  }
}

TEST_CASE("what goes wrong beside the steps ends all ranks at a boundary, with its own message; the one before stays") {
  const Shape shape{Strategy::zero3, 4, 2, 0, Wrap::block, 4};
  for (const std::int64_t bad_rank : {0, 1, 3}) {
    INFO("rank " << bad_rank);
    const RunPlace place;
    std::array<std::atomic<int>, 4> calls{};
    std::atomic<int> ended = 0;
    const auto hook = [&](std::int64_t rank) -> RunHdf5 {
      return [&, rank](const std::function<void()>& task) {
        // Rank 0 calls twice for a checkpoint: its shard's layout and tensors.h5.
        if (rank == bad_rank && ++calls[static_cast<std::size_t>(rank)] > (rank == 0 ? 2 : 1))
          throw IoError("the disk of rank {} is full", rank);
        task();
      };
    };
    try {
      with_writers(async_options(), shape, place.path(), hook,
                   [&](RankContext&, TrainingSession& session, CheckpointWriter& writer) {
                     try {
                       for (int step = 1; step <= 1000; ++step) {
                         session.train_step();
                         while (writer.finished().has_value()) continue;
                         if (step == 1 || step == 3) writer.begin();
                       }
                     } catch (const Error& error) {
                       ++ended;
                       writer.give_up();
                       expect(error.code() == ExitCode::input_output, "a fault of files");
                       expect(session.step() < 1000, "at a boundary soon after");
                       throw;
                     }
                   });
      FAIL("nobody noticed");
    } catch (const IoError& error) {
      REQUIRE(std::string(error.what()) == fmt::format("the disk of rank {} is full", bad_rank));
    }
    REQUIRE(ended == 4);
    REQUIRE(verify_checkpoint(place.path() / "checkpoints/step-00000001", 2) == std::vector<std::string>{});
    REQUIRE_FALSE(std::filesystem::exists(place.path() / "checkpoints/step-00000003"));
  }
}

TEST_CASE("a rank that ends for another reason takes nobody's writing with it") {
  const Shape shape{Strategy::zero3, 2, 2, 0, Wrap::block, 4};
  const RunPlace place;
  Gate gate;
  const auto hook = [&](std::int64_t rank) { return rank == 1 ? gate.hook() : RunHdf5(run_hdf5_here); };
  const auto body = [&](RankContext& context, TrainingSession& session, CheckpointWriter& writer) {
    session.train_step();
    writer.begin();
    if (context.rank() == 1) {
      gate.open();
      session.train_step();
      return;
    }
    try {
      throw UsageError("rank 0 has enough");
    } catch (const UsageError&) {
      writer.give_up();
      throw;
    }
  };
  REQUIRE_THROWS_WITH(with_writers(async_options(), shape, place.path(), hook, body), "rank 0 has enough");
}

TEST_CASE("a checkpoint has its name only when it is complete, and the one before stays until then") {
  Options options = base_options();
  options.checkpoint.keep = 1;
  const Shape shape;
  const RunPlace place;
  run(options, shape, place.path(), 1, 1);
  const CheckpointFolder folder(place.path() / "checkpoints");
  std::atomic<int> too_early{0};
  const RunHdf5 last_file_fails = [&](const std::function<void()>& task) {
    if (folder.steps() != std::vector<std::int64_t>{1}) ++too_early;
    if (std::filesystem::exists(folder.beside(2) / "manifest.json")) ++too_early;
    task();
    // Nothing can be moved over a folder that is not empty.
    if (std::filesystem::exists(folder.beside(2) / "tensors.h5"))
      std::filesystem::create_directories(folder.beside(2) / "manifest.json" / "something");
  };
  REQUIRE_THROWS_AS(run_saving(resumed(options), shape, place.path(), 2, {2}, small_gpt2(), last_file_fails), IoError);
  REQUIRE(too_early == 0);
  REQUIRE(folder.steps() == std::vector<std::int64_t>{1});
  REQUIRE(run(resumed(options), shape, place.path(), 3, 3).first_step == 2);
  REQUIRE(folder.steps() == std::vector<std::int64_t>{3});
}
