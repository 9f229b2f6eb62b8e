// tessera COMMAND [INPUT.ini] [--section.key=value ...]: reads the command, starts MPI if needed, maps errors to exit
// codes.
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "tessera/app/commands.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/base/counted.hpp"
#include "tessera/base/log.hpp"
#include "tessera/bench/commands.hpp"
#include "tessera/comm/launcher.hpp"
#include "tessera/config/command.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/engine/device_choice.hpp"
#include "tessera/sweep/sweep.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace {

using namespace tessera;  // NOLINT(google-build-using-namespace): the program, which is never included

/// Prints the facts of the build, and the GPUs that this process may use.
int print_version() {
  const auto print = [](const std::string& name, const std::string& value) {
    std::printf("%-14s %s\n", name.c_str(), value.c_str());
  };
  for (const auto& [name, value] : build_facts()) print(name, value);
  const int gpus = cuda_device_count();
  print("gpus", gpus > 0 ? fmt::format("{}", gpus) : fmt::format("0 ({})", why_no_cuda_device()));
  return 0;
}

/// Resolves run.device for this machine, and run.deterministic for the device. Options without effect there are refused
/// as if they had been given so.
void resolve_device(Options& options, const Log& log) {
  const DeviceChoice asked = options.run.device;
  const DeviceKind used = resolved_device(asked);
  options.run.device = used;
  options.run.deterministic = is_deterministic(options.run) ? Deterministic::yes : Deterministic::no;
  if (!asked) validate(options);
  if (const std::string why = unused_gpu(asked, used); !why.empty()) log.warn(why);
}

/// Replaces a run's folder by its config.ini, and a checkpoint by that of its run.
void name_config(std::vector<std::string>& words) {
  const auto is_input = [](const std::string& word) { return !word.starts_with("-"); };
  if (words.size() < 2 || words[0] != name_of(CommandKind::plan) || !is_input(words[1])) return;
  std::error_code ignored;
  const std::filesystem::path folder(words[1]);
  for (const auto& config : {folder / "config.ini", folder / "../../config.ini"}) {
    if (std::filesystem::is_directory(folder, ignored) && std::filesystem::is_regular_file(config, ignored)) {
      words[1] = config.lexically_normal().string();
      return;
    }
  }
}

/// Checks that the output was written. It is the command's result: a full disk must not look like success.
int with_output_written(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  throw IoError("cannot write to the standard output ({})", std::generic_category().message(errno));
}

/// Plans; a plan for GPUs needs none here. A run is planned for the ranks that it had, unless others are given.
int run_plan_here(const Command& command) {
  Options options = command.options;
  const auto ranks = options.is_given("plan.ranks") ? std::nullopt : ranks_of_run(command.input);
  if (ranks) {
    options.plan.ranks = *ranks;
    if (options.plan.format == PlanFormat::text) {
      Log(0, 1).info(fmt::format("planned for {}, as many as {} had (--plan.ranks=N plans for others)\n",
                                 counted(*ranks, "rank"), command.input.string()));
    }
  }
  if (!options.run.device) resolve_device(options, Log(0, 1));
  return run_plan(options);
}

/// Runs commands that need no other ranks.
int run_alone(const Command& command) {
  switch (command.kind) {
    case CommandKind::none:
      std::fputs(usage_text().c_str(), stderr);
      return static_cast<int>(ExitCode::usage);
    case CommandKind::help:
      std::fputs(help_on(command.topic).c_str(), stdout);
      return 0;
    case CommandKind::version:
      return print_version();
    case CommandKind::plan:
      return run_plan_here(command);
    case CommandKind::sweep:
      return run_sweep(command.input, command.settings);
    case CommandKind::data:
      return command.data == DataTask::prepare ? run_data_prepare(command.options)
                                               : run_data_inspect(command.paths.at(0), command.options);
    case CommandKind::import_:
      return run_import(command.paths.at(0), command.paths.at(1));
    case CommandKind::export_:
      return run_export(command.paths.at(0), command.paths.at(1), command.options.export_);
    case CommandKind::verify:
      return run_verify(command.paths.at(0));
    case CommandKind::inspect:
      return run_inspect(command.paths.at(0));
    case CommandKind::index:
      return run_index(command.paths.at(0));
    default:
      throw InternalError("this command needs ranks");
  }
}

int run_bench(World& world, const Command& command, const Invocation& invocation) {
  switch (command.bench) {
    case BenchKind::step:
      return run_bench_step(world, command.options, invocation);
    case BenchKind::memory:
      return run_bench_memory(world, command.options, invocation);
    case BenchKind::comm:
      return run_bench_comm(world, command.options, invocation);
    case BenchKind::kernels:
      return run_bench_kernels(world, command.options, invocation);
    case BenchKind::checkpoint:
      return run_bench_checkpoint(world, command.options);
  }
  throw InternalError("no such bench");
}

/// Runs on rank 0. The other ranks wait without limit: several processes were started for a command that needs one.
int run_on_rank_0(World& world, const Command& command) {
  const WaitPhase phase(world.control().waits(), "rank 0 worked", 0, "");
  const int code = world.rank() == 0 ? with_output_written(run_alone(command)) : 0;
  world.control().barrier();
  return code;
}

int run_with_ranks(World& world, Command command, const Invocation& invocation) {
  const WaitPhase phase(world.control().waits(), "the ranks worked", command.options.checkpoint.timeout,
                        "checkpoint.timeout");
  resolve_device(command.options, Log(static_cast<int>(world.rank()), static_cast<int>(world.size())));
  switch (command.kind) {
    case CommandKind::train:
      return run_train(world, command.options, invocation);
    case CommandKind::generate:
      return run_generate(world, command.options, command.paths.at(0));
    case CommandKind::eval:
      return run_eval(world, command.options, command.paths.at(0));
    case CommandKind::bench: {
      const int code = run_bench(world, command, invocation);
      world.control().barrier();  // rank 0 may have had more to do
      return code;
    }
    default:
      throw InternalError("this command needs no ranks");
  }
}

bool needs_ranks(CommandKind kind) {
  return kind == CommandKind::train || kind == CommandKind::bench || kind == CommandKind::generate ||
         kind == CommandKind::eval;
}

/// Decides about MPI by the command word, before options are read, so that a bad option is reported once by one rank.
bool words_need_ranks(const std::vector<std::string>& words) {
  constexpr CommandKind kinds[] = {CommandKind::train, CommandKind::bench, CommandKind::generate, CommandKind::eval};
  return !words.empty() && std::ranges::any_of(kinds, [&](CommandKind kind) { return words[0] == name_of(kind); });
}

/// Returns how long MPI may take to start and to end: run.timeout, which may be longer than usual. Errors in the
/// options are reported by one rank once MPI runs.
double limit_of_mpi(const std::vector<std::string>& words) try {
  return std::max(World::kLimitSeconds, read_command(words).options.run.timeout);
} catch (const Error&) {
  return World::kLimitSeconds;
}

/// Raises the limit of open files: a checkpoint may have thousands. Not beyond this many: some programs try every
/// number that is allowed.
void allow_open_files() {
  constexpr rlim_t wanted = 65536;
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= std::min(limit.rlim_max, wanted)) return;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  allow_open_files();
  Invocation invocation;
  invocation.start = std::chrono::steady_clock::now();
  invocation.unix_start = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  invocation.words.assign(argv, argv + argc);
  std::vector<std::string> words(argv + 1, argv + argc);
  name_config(words);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error of its write
  try {
    // Of several processes of a launcher one reports for all.
    if (!words_need_ranks(words) && find_launch().size == 1) return with_output_written(run_alone(read_command(words)));
    std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away costs a run its output only
    World world(&argc, &argv, limit_of_mpi(words));
    return world.run([&] {
      const Command command = read_command(words);
      return needs_ranks(command.kind) ? run_with_ranks(world, command, invocation) : run_on_rank_0(world, command);
    });
  } catch (const Error& error) {
    Log(0, 1).error(error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    Log(0, 1).error(error.what());
    return static_cast<int>(ExitCode::internal);
  }
}
