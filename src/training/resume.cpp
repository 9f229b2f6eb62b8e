#include "tessera/training/resume.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <sstream>
#include <thread>

#include "tessera/base/format.hpp"
#include "tessera/base/math.hpp"
#include "tessera/checkpoint/folder.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/checkpoint/reader.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/files/path_exists.hpp"
#include "tessera/files/unreadable_error.hpp"

namespace tessera {

namespace {

std::filesystem::path checkpoints_of(const std::filesystem::path& run) { return run / "checkpoints"; }

std::vector<std::filesystem::path> newest_first(const std::filesystem::path& run) {
  return CheckpointFolder(checkpoints_of(run)).newest_first();
}

/// Sets newer checkpoints of a run aside: it continues from one of its own, so they are of a branch that is left now. A
/// run that starts from another folder's has none before its first checkpoint: publishing that sets them aside. Returns
/// a line, or nothing.
std::string leave_newer(const std::filesystem::path& run, const std::filesystem::path& from, std::int64_t step) {
  const CheckpointFolder mine(checkpoints_of(run));
  std::error_code error;
  if (!std::filesystem::equivalent(from, mine.of_step(step), error)) return {};
  return mine.set_aside_newer(step);
}

/// Compares a run with a checkpoint.
class Comparison {
 public:
  Comparison(const std::filesystem::path& checkpoint, const ResumeSettings& settings, const Manifest& manifest)
      : where_(checkpoint.string()), settings_(settings), manifest_(manifest) {}

  /// UsageError naming the settings that must not differ.
  void require_fit() const {
    Architecture mine = settings_.planned.schedule.model.architecture;
    mine.dropout = manifest_.architecture.dropout;
    const auto tensors = tensor_records(settings_.planned.schedule.model.tensors);
    if (!(mine == manifest_.architecture) || tensors != manifest_.tensors) {
      throw UsageError(
          "{} is of another model ({}): the options must describe the same one; without any of [model] it is the "
          "checkpoint's",
          where_, difference(tensors));
    }
    if (!manifest_.data.known) return;
    const auto allowed = allowed_changes(settings_.options.checkpoint);
    const StepSchedule& schedule = settings_.planned.schedule;
    const std::int64_t batch = schedule.grid.world() * schedule.accumulation * schedule.model.batch;
    const DataPosition& there = manifest_.data;
    const auto refuse = [&](const char* name, const std::string& what, const auto& then, const auto& now,
                            const std::string& same = "give the same") {
      if (then == now || std::find(allowed.begin(), allowed.end(), name) != allowed.end()) return;
      throw UsageError("{} was made with another {} ({} then, {} now): {}, or checkpoint.allow = {}", where_, what,
                       then, now, same, name);
    };
    refuse("data", "corpus or validation part (data.source, data.val_fraction)", there.fingerprint,
           fmt::format("{:016x}", settings_.data.fingerprint()), same_data());
    refuse("seq_len", "sequence length (train.seq_len)", there.sequence, schedule.model.sequence);
    refuse("global_batch", "global batch (ranks x train.accumulation x train.micro_batch)", there.global_batch, batch,
           same_batch(there.global_batch));
    refuse("seed", "data.seed", there.data_seed, settings_.options.data.seed);
    refuse("seed", "run.seed", there.run_seed, settings_.options.run.seed);
    refuse("order", "data.order", there.order, std::string(name_of(settings_.options.data.order)));
  }

  /// Returns "ranks 2 -> 4, shard.strategy zero3 -> ddp", or empty.
  std::string changes() const {
    std::string text;
    const auto add = [&](const std::string& name, const std::string& then, const std::string& now) {
      text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", name, then.empty() ? "(empty)" : then,
                          now.empty() ? "(empty)" : now);
    };
    const std::int64_t world = settings_.planned.schedule.grid.world();
    if (manifest_.grid.world != world) add("ranks", std::to_string(manifest_.grid.world), std::to_string(world));
    const std::map<std::string, std::string> then(manifest_.options.begin(), manifest_.options.end());
    for (const OptionValue& option : flat_options(settings_.options)) {
      const auto old = then.find(option.name);
      if (old == then.end() || old->second == option.value || option.name.starts_with("checkpoint.") ||
          option.name == "run.dir" || option.name == "run.name") {
        continue;
      }
      add(option.name, old->second, option.value);
    }
    return text;
  }

 private:
  /// Returns the options to type for the corpus of the checkpoint, as far as they differ.
  std::string same_data() const {
    const std::map<std::string, std::string> then(manifest_.options.begin(), manifest_.options.end());
    std::string text;
    for (const OptionValue& option : flat_options(settings_.options)) {
      const auto old = then.find(option.name);
      if (!option.name.starts_with("data.") || old == then.end() || old->second == option.value) continue;
      text += fmt::format("{}--{}={}", text.empty() ? "" : " ", option.name, old->second);
    }
    return text.empty() ? "give the same (the text itself has changed)" : text + " gives the same";
  }

  /// Returns the options to type for the checkpoint's global batch on these ranks: another accumulation, else the
  /// largest smaller micro-batch that divides as well.
  std::string same_batch(std::int64_t then) const {
    const StepSchedule& schedule = settings_.planned.schedule;
    const std::int64_t world = schedule.grid.world();
    if (then % world != 0)
      return fmt::format("nothing gives {} on {} ranks (use a number of ranks that divides it)", then, world);
    std::int64_t micro_batch = schedule.model.batch;
    while (then / world % micro_batch != 0) --micro_batch;
    const bool by_batch = settings_.options.train.global_batch > 0;
    return fmt::format("{}{} gives the same",
                       micro_batch == schedule.model.batch ? "" : fmt::format("--train.micro_batch={} ", micro_batch),
                       by_batch ? fmt::format("--train.global_batch={}", then)
                                : fmt::format("--train.accumulation={}", then / world / micro_batch));
  }

  std::string difference(const std::vector<TensorRecord>& mine) const {
    const Architecture &a = manifest_.architecture, &b = settings_.planned.schedule.model.architecture;
    const std::tuple<const char*, std::int64_t, std::int64_t> sizes[] = {
        {"layers", a.layers, b.layers},          {"heads", a.heads, b.heads},
        {"kv_heads", a.kv_heads, b.kv_heads},    {"width", a.width, b.width},
        {"ffn_width", a.ffn_width, b.ffn_width}, {"vocab", a.vocab, b.vocab},
        {"context", a.context, b.context}};
    if (a.family != b.family) return fmt::format("{} there, {} here", name_of(a.family), name_of(b.family));
    for (const auto& [name, there, here] : sizes) {
      if (there != here) return fmt::format("model.{} = {} there, {} here", name, there, here);
    }
    for (std::size_t i = 0; i < std::min(mine.size(), manifest_.tensors.size()); ++i) {
      if (mine[i] != manifest_.tensors[i]) return fmt::format("tensor {} differs", mine[i].name);
    }
    return "its description differs";
  }

  std::string where_;
  const ResumeSettings& settings_;
  const Manifest& manifest_;
};

/// Returns the runs that this rank needs, with their destinations; padding becomes zero.
std::vector<WantedRun> wanted_runs(const StepSchedule& schedule, Resources& resources) {
  std::vector<WantedRun> wanted;
  for (const UnitId unit : schedule.layout.units.ids()) {
    const StateSlice slice = state_slice(schedule, resources, unit);
    const std::pair<StateKind, float*> kinds[] = {{StateKind::parameter, slice.master},
                                                  {StateKind::first_moment, slice.first_moment},
                                                  {StateKind::second_moment, slice.second_moment}};
    for (const auto& [kind, memory] : kinds) {
      for (const TensorRun& run : slice.runs)
        wanted.push_back({kind, run.tensor.number(), run.first, run.count, memory + run.offset});
    }
  }
  return wanted;
}

/// Zeros the padding between runs, which must stay zero, whatever was in memory.
void clear_padding(const StepSchedule& schedule, Resources& resources) {
  const std::vector<float> zeros(static_cast<std::size_t>(kTensorAlignment));
  const auto clear = [&](float* first, float* last) {
    for (; first < last; first += std::min<std::ptrdiff_t>(last - first, kTensorAlignment)) {
      const auto count = static_cast<std::size_t>(std::min<std::ptrdiff_t>(last - first, kTensorAlignment));
      resources.device->copy(first, zeros.data(), static_cast<std::int64_t>(count * sizeof(float)));
    }
  };
  for (const UnitId unit : schedule.layout.units.ids()) {
    const StateSlice slice = state_slice(schedule, resources, unit);
    for (float* memory : {slice.master, slice.first_moment, slice.second_moment}) {
      std::int64_t end = 0;
      for (const TensorRun& run : slice.runs) {
        clear(memory + end, memory + run.offset);
        end = run.offset + run.count;
      }
      clear(memory + end, memory + slice.count);
    }
  }
}

/// A rank's result with a checkpoint.
struct Verdict {
  enum Kind : char { good = 'g', damaged = 'd', unreadable = 'u' };
  Kind kind = good;
  std::string text;
};

/// Returns the worst of all ranks' verdicts, the first rank's of those: the same on every rank.
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

/// Calls load(), again after a while if the system refused a file: a server that fails over comes back.
Verdict tried(RankContext& context, const std::function<void()>& load) {
  constexpr int tries = 3;
  const auto said = [&](const IoError& error) {
    return fmt::format("rank {} on {}: {}", context.rank(), context.host(), error.what());
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
  std::string list;
  if (context.rank() == 0) {
    for (const auto& path : resume_candidates(settings.options.checkpoint.resume, settings.run))
      list += path.string() + "\n";
  }
  std::istringstream lines(context.control().broadcast(list));
  std::vector<std::filesystem::path> paths;
  for (std::string line; std::getline(lines, line);) paths.emplace_back(line);
  return paths;
}

/// The point at which a run continues, and the settings that changed.
struct Loaded {
  StartPoint start;
  std::string changes;
};

/// Loads a checkpoint into `resources`; the ranks agree on the result. Rank 0 reads the manifest for all: thousands of
/// ranks would ask the file system for the same bytes.
Verdict load(RankContext& context, const ResumeSettings& settings, const std::filesystem::path& path,
             const StepSchedule& schedule, Resources& resources, Loaded& out) {
  std::string text;
  const auto read_text = [&] {
    if (context.rank() == 0) text = read_manifest_text(path);
  };
  if (Verdict verdict = agree(context, tried(context, read_text)); verdict.kind != Verdict::good) return verdict;
  text = context.control().broadcast(text);
  const FileShare share{static_cast<std::size_t>(context.rank()), static_cast<std::size_t>(context.size())};
  return agree(context, tried(context, [&] {
                 const CheckpointReader reader(path, manifest_from(text, path), share);
                 const Comparison comparison(path, settings, reader.manifest());
                 comparison.require_fit();
                 reader.read(wanted_runs(schedule, resources), settings.threads,
                             [&](void* to, const void* from, std::size_t bytes) {
                               resources.device->copy(to, from, static_cast<std::int64_t>(bytes));
                             });
                 out.changes = comparison.changes();
                 out.start = {reader.manifest().step, reader.manifest().data.next_sample, reader.manifest().optimizer};
               }));
}

std::optional<StartPoint> load_newest(RankContext& context, const ResumeSettings& settings,
                                      const StepSchedule& schedule, Resources& resources) {
  const auto say = [&](const std::string& line) {
    if (context.rank() == 0 && settings.say) settings.say(line);
  };
  const auto candidates = common_candidates(context, settings);
  std::string failure;
  for (const auto& path : candidates) {
    Loaded loaded;
    const Verdict verdict = load(context, settings, path, schedule, resources, loaded);
    failure = verdict.text;
    if (verdict.kind == Verdict::good) {
      clear_padding(schedule, resources);
      say(fmt::format("resume     step {} from {}", loaded.start.step, path.string()));
      if (!loaded.changes.empty()) say(fmt::format("changed    {}", loaded.changes));
      if (context.rank() != 0) return loaded.start;
      const std::string left = leave_newer(settings.run, path, loaded.start.step);
      if (!left.empty()) say(fmt::format("set aside  {}", left));
      return loaded.start;
    }
    if (settings.options.checkpoint.resume != "auto") throw IoError("{}", failure);
    if (verdict.kind == Verdict::unreadable)
      throw IoError("{}: {} may be whole, so auto does not pass it over", failure, path.string());
    say(fmt::format("resume     {} is passed over: {}", path.string(), failure));
  }
  if (candidates.empty()) {
    say(fmt::format("resume     no checkpoint in {}: a fresh start", checkpoints_of(settings.run).string()));
    return std::nullopt;
  }
  // A fresh start would soon replace and prune checkpoints that can perhaps be repaired: the user must decide that.
  throw IoError(
      "none of the {} checkpoints in {} can be read (the oldest: {}): nothing was changed; repair them, give another "
      "run's with checkpoint.resume = PATH, or move the folder away to start afresh",
      candidates.size(), checkpoints_of(settings.run).string(), failure);
}

}  // namespace

std::vector<std::filesystem::path> resume_candidates(const std::string& resume, const std::filesystem::path& run) {
  if (resume == "auto") return newest_first(run);
  const std::filesystem::path path(resume);
  if (path_exists(path / std::string(kManifestName))) return {path};
  const auto of_run = newest_first(path);
  if (!of_run.empty()) return {of_run.front()};
  std::error_code unseen;
  if (std::filesystem::is_directory(path, unseen) && path.filename().string().starts_with("step-")) return {path};
  throw UsageError(
      "checkpoint.resume = {} is no checkpoint (it has no {}) and no run with checkpoints: none, auto, or the folder "
      "of "
      "one",
      resume, kManifestName);
}

void require_fitting(const ResumeSettings& settings) {
  if (settings.options.checkpoint.resume == "none") return;
  for (const auto& path : resume_candidates(settings.options.checkpoint.resume, settings.run)) {
    try {
      const Manifest manifest = read_manifest(path);
      return Comparison(path, settings, manifest).require_fit();
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

}  // namespace tessera
