// The program: reads the command, starts MPI if it needs ranks, and maps errors to exit codes.
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "tessera/base/clock.hpp"
#include "tessera/base/log.hpp"
#include "tessera/comm/launcher.hpp"
#include "tessera/commands/command.hpp"
#include "tessera/config/removed_options.hpp"

namespace tessera {

namespace {

/// Checks that the output was written, because it is the command's result, and a full disk must not look like success.
int with_output_written(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  throw IoError("cannot write to the standard output ({})", std::generic_category().message(errno));
}

void say_what_is_dropped(const Log& log, const Options& options) {
  if (const std::string line = dropped_line(options); !line.empty()) log.warn(line);
}

/// Runs a command that needs no other ranks.
int run_alone(const std::vector<std::string>& words, const Invocation& invocation) {
  Call call = read_call(words.empty() ? std::vector<std::string>{"help"} : words);
  TESSERA_ASSERT(!call.command->needs_ranks, "{} is run without ranks", call.command->name);
  call.invocation = invocation;
  say_what_is_dropped(Log(0, 1), call.options);
  return with_output_written(call.command->run(call));
}

int run_with_ranks(World& world, const std::vector<std::string>& words, const Invocation& invocation) {
  Call call = read_call(words);
  TESSERA_ASSERT(call.command->needs_ranks, "{} is run with ranks", call.command->name);
  call.invocation = invocation;
  call.world = &world;
  say_what_is_dropped(Log(world.control().rank(), world.control().size()), call.options);
  const WaitPhase phase(world.control().waits(), "the ranks worked", call.options.checkpoint.timeout,
                        "checkpoint.timeout");
  const int code = call.command->run(call);
  world.control().barrier();  // rank 0 may have had more to do
  return code;
}

/// How a call starts.
struct Start {
  bool needs_ranks = false;
  double limit_of_mpi = World::kLimitSeconds;  ///< how long MPI may take to start and to end
};

/// Reads how the words start: run.timeout may be longer than MPI's limit. Errors in the words of a command that needs
/// ranks are reported by one of them once MPI runs.
Start start_of(const std::vector<std::string>& words) try {
  const Call call = read_call(words);
  return {call.command->needs_ranks, std::max(World::kLimitSeconds, call.options.run.timeout)};
} catch (const Error&) {
  return {!words.empty() && std::ranges::any_of(all_commands(), [&](const Command& command) {
    return command.needs_ranks && command.name.substr(0, command.name.find(' ')) == words[0];
  })};
}

/// Raises the limit of open files, because a checkpoint may have thousands, but only up to this number, because some
/// programs try every number that is allowed.
void allow_open_files() {
  constexpr rlim_t wanted = 65536;
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= std::min(limit.rlim_max, wanted)) return;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int run_program(int argc, char** argv) try {
  allow_open_files();
  Invocation invocation;
  invocation.start = std::chrono::steady_clock::now();
  invocation.unix_start = unix_time();
  invocation.words.assign(argv, argv + argc);
  const std::vector<std::string> words(argv + 1, argv + argc);
  std::signal(SIGXFSZ, SIG_IGN);  // writing to a file that grows too large gives an error
  const Start start = start_of(words);
  if (!start.needs_ranks) {
    // Of several processes under a process manager the first speaks for all. MPI is not started, because the others may
    // not be there: a shell in a step of Slurm has the variables of a rank.
    const Launch launch = find_launch();
    return launch.has_pmi && launch.rank > 0 ? 0 : run_alone(words, invocation);
  }
  std::signal(SIGPIPE, SIG_IGN);  // if a reader goes away, a run only loses its output
  World world(&argc, &argv, start.limit_of_mpi);
  return world.run([&] { return run_with_ranks(world, words, invocation); });
} catch (...) {
  const Caught error = caught_error();
  Log(0, 1).error(error.what);
  return static_cast<int>(error.code);
}

}  // namespace tessera
