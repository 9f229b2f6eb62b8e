#pragma once
// The table of faults: what goes wrong, where it may strike, and how it must show.

#include <cerrno>
#include <stdexcept>

#include "checkpoint/file_spy.hpp"
#include "faults/faulty_run.hpp"
#include "sanitized.hpp"
#include "training/flip_case.hpp"

namespace tessera::testing {

/// run.timeout where a rank falls silent; longer than a pause by load.
inline constexpr double kTimeout = kSanitized ? 8 : 3;

/// How a fault must show.
enum class Shows : char {
  nowhere,      ///< the run ends as if nothing had happened
  on_its_rank,  ///< that rank has the error, and the others say which rank had it
  to_peers,     ///< ranks that wait for it give up, and the flight recorders or the message name it
  on_a_writer,  ///< a rank that writes a file has the error, which names the folder
  on_all,       ///< all ranks have the error, or hear of it from one that left before: it names the rank
};

/// A drawn case: the run, what goes wrong in it, and where.
struct Case {
  Drawn drawn;
  Strike strike;
  Flip flip;
  std::string where;
  std::function<void()> begin = [] {};  ///< before the start that is hit
  FaultyOutcome undisturbed;
  std::vector<std::string> calls;  ///< of the undisturbed run, on files of its checkpoints
};

/// A kind of fault.
struct FaultKind {
  const char* name;
  Shows shows;
  ExitCode code;
  std::int64_t least_ranks;
  void (*prepare)(Drawn&);
  void (*plant)(Case&, Draw&);  ///< draws what and where, for a run of which everything is known
};

inline void nothing(Drawn&) {}
inline void soon_given_up(Drawn& drawn) { drawn.options.run.timeout = drawn.options.checkpoint.timeout = kTimeout; }
inline void over_messages(Drawn& drawn) {
  soon_given_up(drawn);
  drawn.machine.force_pairwise = true;
}
inline void checked_always(Drawn& drawn) { drawn.options.run.check_every = 1; }
/// Because a file that cannot be deleted ends no run.
inline void keeping_all(Drawn& drawn) { drawn.options.checkpoint.keep = 0; }

/// Draws a rank and one of its operations, after which `act` is called.
inline void at_an_operation(Case& c, Draw& d, std::function<void(RankContext&)> act) {
  c.strike.rank = d.below(c.drawn.world);
  const std::int64_t at = d.below(c.undisturbed.operations[static_cast<std::size_t>(c.strike.rank)]);
  c.strike.after_operation = [at, act = std::move(act)](RankContext& context, std::int64_t number) {
    if (number == at) act(context);
  };
  c.where += fmt::format(", rank {} after its operation {}", c.strike.rank, at);
}

inline void sleep_ms(std::int64_t milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

inline void plant_error(Case& c, Draw& d) {
  at_an_operation(c, d, [kind = d.below(2)](RankContext&) {
    if (kind == 0) throw std::length_error("planted");  // none of our errors
    throw InternalError("planted");
  });
}

inline void plant_delay(Case& c, Draw& d) {
  at_an_operation(c, d, [ms = 10 + d.below(90)](RankContext&) { sleep_ms(ms); });
}

inline void plant_slowness(Case& c, Draw& d) {
  c.strike.rank = d.below(c.drawn.world);
  const auto pause = std::chrono::microseconds(50 + d.below(300));
  c.strike.after_operation = [pause](RankContext&, std::int64_t) { std::this_thread::sleep_for(pause); };
  c.where += fmt::format(", rank {} after each operation", c.strike.rank);
}

inline void plant_silence(Case& c, Draw& d) {
  at_an_operation(c, d, [](RankContext& context) {
    while (!context.notice().raised()) sleep_ms(1);
    context.notice().check();
  });
}

inline void plant_cut(Case& c, Draw& d) {
  c.strike.rank = d.below(c.drawn.world);
  c.strike.cut_at = d.below(c.undisturbed.messages[static_cast<std::size_t>(c.strike.rank)]);
  c.where += fmt::format(", rank {} from its message {} on", c.strike.rank, c.strike.cut_at);
}

inline void plant_flip(Case& c, Draw& d) {
  const std::int64_t after = d.below(c.drawn.options.train.steps);
  const auto seed = static_cast<std::uint64_t>(1 + d.below(1 << 30));
  c.strike.rank = c.flip.rank = d.below(c.drawn.world);
  c.flip.after_step = after;
  c.strike.before_step = [&c, after, seed](RankContext& context, TrainingSession& session) {
    if (session.step() == after && context.rank() == c.flip.rank) flip(session, seed, c.flip);
  };
  c.where += fmt::format(", rank {} after step {}, flip {}", c.flip.rank, after, seed);
}

/// Draws one of the undisturbed run's calls on files of its checkpoints, which fails, and perhaps all like it after it.
inline void plant_full_disk(Case& c, Draw& d) {
  const std::string call = d.of(std::array<const char*, 4>{"write", "pwrite", "fsync", "rename"});
  const auto is_meant = [&](const std::string& line) { return line.starts_with(call + " "); };
  const auto at = static_cast<int>(d.below(std::ranges::count_if(c.calls, is_meant)));
  const int error = d.of(std::array{ENOSPC, EDQUOT, EIO});
  const bool once = d.below(2) == 0 && call != "pwrite";  // a write past the page cache is tried again through it
  const int to = once ? at : file_spy::kNoEnd;
  c.begin = [=] { file_spy::rule(call, "/checkpoints", error, at, to); };
  c.where += fmt::format(", {} number {}{}: errno {}", call, at, to > at ? " and all after it" : "", error);
}

/// From its first, second or third file on, nothing can be opened in the folder of a drawn checkpoint.
inline void plant_unwritable_folder(Case& c, Draw& d) {
  const std::int64_t every = c.drawn.options.checkpoint.every;
  const std::string folder =
      fmt::format("/checkpoints/step-{:08}.tmp", every * (1 + d.below(c.undisturbed.saved / every)));
  const int error = d.of(std::array{EACCES, EROFS}), from = static_cast<int>(d.below(3));
  c.begin = [=] { file_spy::rule("open", folder, error, from); };
  c.where += fmt::format(", {} after {} files: errno {}", folder, from, error);
}

inline const std::array kKinds{
    FaultKind{"throw", Shows::on_its_rank, ExitCode::internal, 1, nothing, plant_error},
    FaultKind{"delay", Shows::nowhere, ExitCode::finished, 1, nothing, plant_delay},
    FaultKind{"slow rank", Shows::nowhere, ExitCode::finished, 1, nothing, plant_slowness},
    FaultKind{"stop", Shows::to_peers, ExitCode::communication, 2, soon_given_up, plant_silence},
    FaultKind{"cut connection", Shows::to_peers, ExitCode::communication, 2, over_messages, plant_cut},
    FaultKind{"flipped bit", Shows::on_all, ExitCode::corrupted, 1, checked_always, plant_flip},
    FaultKind{"disk full", Shows::on_a_writer, ExitCode::input_output, 1, keeping_all, plant_full_disk},
    FaultKind{"unwritable folder", Shows::on_a_writer, ExitCode::input_output, 1, keeping_all, plant_unwritable_folder},
};

inline Drawn draw_run(std::uint64_t seed, const FaultKind& kind) {
  Draw d(seed + 7777);
  Options options = base_options();
  options.train.steps = 5;
  options.checkpoint.async = d.below(2) == 0;
  options.checkpoint.every = 1 + d.below(2);
  options.checkpoint.keep = d.below(3);
  options.checkpoint.writers_per_node = d.below(3);
  options.run.check_every = d.below(3) == 0 ? 2 : 0;
  const std::int64_t world = kind.least_ranks + d.below(5 - kind.least_ranks);
  Drawn drawn = draw(seed, options, world * (1 + d.below(3)), world);
  drawn.options.precision.compute = d.of(std::array{DType::fp32, DType::bf16, DType::fp16});
  kind.prepare(drawn);
  drawn.text +=
      fmt::format(" compute {} accumulation {} checkpoints every {}, async {}, keep {}, writers {}",
                  name_of(drawn.options.precision.compute), drawn.options.train.accumulation, options.checkpoint.every,
                  options.checkpoint.async, drawn.options.checkpoint.keep, options.checkpoint.writers_per_node);
  return drawn;
}

}  // namespace tessera::testing
