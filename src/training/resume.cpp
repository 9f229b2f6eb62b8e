#include "tessera/training/resume.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/format.hpp"
#include "tessera/checkpoint/folder.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/checkpoint/near.hpp"
#include "tessera/checkpoint/reader.hpp"
#include "tessera/files/byte_file.hpp"
#include "training/checkpoint_comparison.hpp"

namespace tessera {

namespace {

std::filesystem::path checkpoints_of(const std::filesystem::path& run) { return run / "checkpoints"; }

/// Sets newer checkpoints of a run aside: it continues from one of its own, so they belong to a branch that is now
/// abandoned. A run that starts from another folder's checkpoint has none before its first, whose publishing sets them
/// aside. Returns a line, or nothing.
std::string leave_newer(const std::filesystem::path& run, const std::filesystem::path& from, std::int64_t step) {
  const CheckpointFolder mine(checkpoints_of(run));
  std::error_code error;
  if (!std::filesystem::equivalent(from, mine.of_step(step), error)) return {};
  return mine.set_aside_newer(step);
}

/// Returns the runs that this rank needs, with their destinations; padding becomes zero.
std::vector<WantedRun> wanted_runs(const StepSchedule& schedule, Resources& resources) {
  const TensorId first = schedule.model.first_trained_tensor();
  std::vector<WantedRun> wanted;
  for (const UnitId unit : schedule.layout.trained()) {
    const StateSlice slice = state_slice(schedule, resources, unit);
    for (const StateVector& vector : slice.vectors) {
      each_run(slice, vector, [&](const TensorRun& run) {
        wanted.push_back({.kind = vector.kind,
                          .tensor = run.tensor - first,
                          .first = run.first,
                          .count = run.count,
                          .to = vector.at(run.offset),
                          .dtype = vector.dtype});
      });
    }
  }
  return wanted;
}

/// Zeros the padding between runs, which must stay zero whatever was in memory.
void clear_padding(const StepSchedule& schedule, Resources& resources) {
  const std::vector<std::byte> zeros(std::size_t{1} << 18);  // a table's padding may be many rows of zeros
  const auto clear = [&](std::byte* first, std::byte* last) {
    while (first < last) {
      const auto count = std::min<std::ptrdiff_t>(last - first, std::ssize(zeros));
      resources.device->copy(first, zeros.data(), count);
      first += count;
    }
  };
  for (const UnitId unit : schedule.layout.trained()) {
    const StateSlice slice = state_slice(schedule, resources, unit);
    for (const StateVector& vector : slice.vectors) {
      std::int64_t end = vector.first;
      each_run(slice, vector, [&](const TensorRun& run) {
        clear(vector.at(end), vector.at(run.offset));
        end = run.offset + run.count;
      });
      clear(vector.at(end), vector.at(vector.first + vector.count));
    }
  }
}

/// A rank's result with a checkpoint.
struct Verdict {
  enum Kind : char { good = 'g', damaged = 'd', unreadable = 'u' };
  Kind kind = good;
  std::string text;
};

/// Returns the worst of all ranks' verdicts, from the first rank that has it; the same on every rank.
Verdict agree(RankContext& context, const Verdict& mine) {
  Verdict worst;
  const std::string text = mine.kind == Verdict::good ? std::string() : static_cast<char>(mine.kind) + mine.text;
  for (const std::string& one : context.control().all_gather(text)) {
    if (one.empty() || (worst.kind != Verdict::good && one[0] != Verdict::unreadable)) continue;
    worst = {static_cast<Verdict::Kind>(one[0]), one.substr(1)};
    if (worst.kind == Verdict::unreadable) break;
  }
  return worst;
}

/// Calls load(), and calls it again after a while if the system refused a file, because a file server may fail over.
Verdict tried(RankContext& context, const std::function<void()>& load) {
  constexpr int tries = 3;
  const auto said = [&](const IoError& error) {
    return context.size() == 1 ? std::string(error.what())
                               : fmt::format("rank {} on {}: {}", context.rank(), context.host(), error.what());
  };
  for (int i = 1;; ++i) {
    try {
      load();
      return {};
    } catch (const UnreadableError& error) {
      if (i == tries) return {Verdict::unreadable, fmt::format("{}, {} times", said(error), tries)};
    } catch (const IoError& error) {
      return {Verdict::damaged, said(error)};
    }
    context.notice().check();
    std::this_thread::sleep_for(std::chrono::seconds(i));
  }
}

/// Returns rank 0's candidates on every rank.
std::vector<std::filesystem::path> common_candidates(RankContext& context, const ResumeSettings& settings) {
  std::vector<std::string> list;
  if (context.rank() == 0) {
    for (const auto& path : resume_candidates(settings.options.checkpoint.resume, settings.run))
      list.push_back(path.string());
  }
  list = context.control().broadcast(list);
  return {list.begin(), list.end()};
}

/// The point at which a run continues, the settings that changed, and what was read.
struct Loaded {
  StartPoint start;
  std::string changes, other_evaluation;
  ReadReport read;  ///< by this rank
  double seconds = 0;
};

/// Says on rank 0 what all ranks read, and where. Collective.
void say_what_was_read(RankContext& context, const Loaded& loaded, const std::filesystem::path& path,
                       const std::function<void(const std::string&)>& say) {
  ControlPlane& control = context.control();
  const std::int64_t bytes = control.sum(loaded.read.bytes), near = control.sum(loaded.read.near);
  say(fmt::format("resume     step {} from {} ({} in {}, of it {} near)", loaded.start.position.step, path.string(),
                  format_bytes(bytes), format_seconds(control.maximum(loaded.seconds)), format_bytes(near)));
  const std::string& damage = loaded.read.damaged_near;
  const Verdict first = agree(context, {damage.empty() ? Verdict::good : Verdict::damaged, damage});
  if (first.kind != Verdict::good) say(fmt::format("near       {}: the disk's file was read", first.text));
}

/// Returns a warning where checkpoint.keep_best compares losses over other text or sequences than before; empty if it
/// does not.
std::string other_evaluation(const ResumeSettings& settings, const Manifest& manifest) {
  const std::vector<ValidationSet>& sets = settings.data.validation();
  const std::string batch = manifest.option("train.micro_batch"), batches = manifest.option("train.eval_batches");
  if (settings.options.checkpoint.keep_best == 0 || sets.empty() || batch.empty() || batches.empty()) return {};
  if (manifest.data.known && manifest.data.fingerprint != fmt::format("{:016x}", settings.data.fingerprint()))
    return "warning: evaluations may be of other text than before: checkpoint.keep_best compares losses of both";
  const std::int64_t then = evaluated_windows(sets[0], std::stoll(batch), std::stoll(batches));
  const std::int64_t now =
      evaluated_windows(sets[0], settings.planned.schedule.model.batch, settings.options.train.eval_batches);
  if (now == then) return {};
  return fmt::format(
      "warning: evaluations are of {} now, and were of {}: checkpoint.keep_best compares losses of both. "
      "train.micro_batch = {} with train.eval_batches = {} has them alike",
      counted(now, "sequence"), then, batch, batches);
}

/// Loads a checkpoint into `resources`; the ranks agree on the result. Rank 0 reads the manifest for all, because
/// thousands of ranks would ask the file system for the same bytes.
Verdict load(RankContext& context, const ResumeSettings& settings, const std::filesystem::path& path,
             const StepSchedule& schedule, Resources& resources, Loaded& out) {
  std::string text;
  const auto read_text = [&] {
    if (context.rank() == 0) text = read_manifest_text(path);
  };
  if (Verdict verdict = agree(context, tried(context, read_text)); verdict.kind != Verdict::good) return verdict;
  text = context.control().broadcast(text);
  const std::filesystem::path near = near_folder(settings.options.checkpoint.keep_near, path / "..");
  const auto begun = std::chrono::steady_clock::now();
  const FileShare share{static_cast<std::size_t>(context.rank()), static_cast<std::size_t>(context.size())};
  return agree(context, tried(context, [&] {
                 const CheckpointReader reader(path, manifest_from(text, path), share, near);
                 require_fit(path, settings, reader.manifest());
                 out.read = reader.read(wanted_runs(schedule, resources), settings.threads,
                                        [&](void* to, const void* from, std::size_t bytes) {
                                          resources.device->copy(to, from, static_cast<std::int64_t>(bytes));
                                        });
                 out.changes = changes_since(path, settings, reader.manifest());
                 out.other_evaluation = other_evaluation(settings, reader.manifest());
                 out.start = {reader.manifest().position(), reader.manifest().optimizer};
                 out.seconds = seconds_since(begun);
               }));
}

std::optional<StartPoint> load_newest(RankContext& context, const ResumeSettings& settings,
                                      const StepSchedule& schedule, Resources& resources) {
  const auto say = [&](const std::string& line) {
    if (context.rank() == 0 && settings.say) settings.say(line);
  };
  const auto candidates = common_candidates(context, settings);
  if (context.rank() == 0 && settings.options.checkpoint.resume == "auto") {
    if (const std::string missing = describe_missing(settings.run); !missing.empty()) say(missing);
  }
  std::string failure;
  for (const auto& path : candidates) {
    Loaded loaded;
    const Verdict verdict = load(context, settings, path, schedule, resources, loaded);
    failure = verdict.text;
    if (verdict.kind == Verdict::good) {
      clear_padding(schedule, resources);
      say_what_was_read(context, loaded, path, say);
      if (!loaded.changes.empty()) say(fmt::format("changed    {}", loaded.changes));
      if (!loaded.other_evaluation.empty()) say(loaded.other_evaluation);
      if (context.rank() != 0) return loaded.start;
      const std::string left = leave_newer(settings.run, path, loaded.start.position.step);
      if (!left.empty()) say(fmt::format("set aside  {}", left));
      return loaded.start;
    }
    if (settings.options.checkpoint.resume != "auto") throw IoError("{}", failure);
    if (verdict.kind == Verdict::unreadable)
      throw IoError(
          "{}: {} may be whole, so auto does not pass it over. Make it readable, or give another one with "
          "checkpoint.resume = PATH",
          failure, path.string());
    say(fmt::format("resume     {} is passed over: {}", path.string(), failure));
  }
  if (candidates.empty()) {
    say(fmt::format("resume     no checkpoint in {}: a fresh start", checkpoints_of(settings.run).string()));
    return std::nullopt;
  }
  // A fresh start would soon replace and prune checkpoints that can perhaps be repaired, so the user must decide that.
  throw IoError(
      "none of the {} checkpoints in {} can be read. Nothing was changed. Repair them, give another run's with "
      "checkpoint.resume = PATH, or name a new run.dir to start afresh. The oldest: {}",
      candidates.size(), checkpoints_of(settings.run).string(), failure);
}

}  // namespace

void require_fitting(const ResumeSettings& settings) {
  if (settings.options.checkpoint.resume == "none") return;
  for (const auto& path : resume_candidates(settings.options.checkpoint.resume, settings.run)) {
    try {
      const Manifest manifest = read_manifest(path);
      return require_fit(path, settings, manifest);
    } catch (const IoError&) {
      continue;  // the loader reports its defects
    }
  }
}

StateLoader state_loader(RankContext& context, const ResumeSettings& settings) {
  if (settings.options.checkpoint.resume == "none") return {};
  return [&context, settings](const StepSchedule& schedule, Resources& resources) {
    return load_newest(context, settings, schedule, resources);
  };
}

bool leaves_branch(const CheckpointFolder& own, const std::string& resume, std::int64_t step) {
  const auto manifest_of = [](const std::filesystem::path& checkpoint) {
    return read_small_file(checkpoint / std::string(kManifestName));
  };
  const auto named = resume == "auto" ? std::nullopt : checkpoint_in(resume);
  const auto there = manifest_of(own.of_step(step));
  return named && there && there != manifest_of(*named);
}

}  // namespace tessera
