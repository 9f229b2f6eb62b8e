// tessera COMMAND [INPUT.ini] [--section.key=value ...]: reads the command, starts MPI where it is needed, maps errors
// to exit codes.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "tessera/app/bench_checkpoint.hpp"
#include "tessera/app/bench_comm.hpp"
#include "tessera/app/bench_kernels.hpp"
#include "tessera/app/bench_step.hpp"
#include "tessera/app/checkpoint_commands.hpp"
#include "tessera/app/plan.hpp"
#include "tessera/app/train.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/base/log.hpp"
#include "tessera/config/command.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/engine/device_choice.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace {

using namespace tessera;  // NOLINT(google-build-using-namespace): the program, which nobody includes

/// What was built in, and the GPUs that this process may use.
int print_version() {
  const auto print = [](const std::string& name, const std::string& value) {
    std::printf("%-14s %s\n", name.c_str(), value.c_str());
  };
  for (const auto& [name, value] : build_facts()) print(name, value);
  const int gpus = cuda_device_count();
  print("gpus", gpus > 0 ? fmt::format("{}", gpus) : fmt::format("0 ({})", why_no_cuda_device()));
  return 0;
}

/// run.device as this machine has it; what is of no use there is refused as if it had been given so.
void settle_device(Options& options, const Log& log) {
  const DeviceChoice asked = options.run.device;
  options.run.device = resolved_device(asked);
  if (asked == DeviceChoice::automatic) validate(options);
  if (const std::string why = unused_gpu(asked, options.run.device); !why.empty()) log.warn(why);
}

/// A plan for GPUs needs none here.
int run_plan_here(Options options) {
  if (options.run.device == DeviceChoice::automatic) settle_device(options, Log(0, 1));
  return run_plan(options);
}

/// Commands that need no other ranks.
int run_alone(const Command& command) {
  switch (command.kind) {
    case CommandKind::help:
      std::fputs(usage_text().c_str(), stdout);
      return 0;
    case CommandKind::version:
      return print_version();
    case CommandKind::plan:
      return run_plan_here(command.options);
    case CommandKind::import_:
      return run_import(command.paths.at(0), command.paths.at(1));
    case CommandKind::export_:
      return run_export(command.paths.at(0), command.paths.at(1), command.options.export_);
    case CommandKind::verify:
      return run_verify(command.paths.at(0));
    case CommandKind::inspect:
      return run_inspect(command.paths.at(0));
    default:
      throw InternalError("this command needs ranks");
  }
}

int run_bench(World& world, const Command& command) {
  switch (command.bench) {
    case BenchKind::step:
      return run_bench_step(world, command.options);
    case BenchKind::memory:
      return run_bench_memory(world, command.options);
    case BenchKind::comm:
      return run_bench_comm(world, command.options);
    case BenchKind::kernels:
      return run_bench_kernels(world, command.options);
    case BenchKind::checkpoint:
      return run_bench_checkpoint(world, command.options);
  }
  throw InternalError("no such bench");
}

int run_with_ranks(World& world, Command command, const Invocation& invocation) {
  settle_device(command.options, Log(static_cast<int>(world.rank()), static_cast<int>(world.size())));
  switch (command.kind) {
    case CommandKind::train:
      return run_train(world, command.options, invocation);
    case CommandKind::bench:
      return run_bench(world, command);
    default:
      throw InternalError("this command needs no ranks");
  }
}

bool needs_ranks(CommandKind kind) { return kind == CommandKind::train || kind == CommandKind::bench; }

/// The command word decides about MPI before options are read, so that a bad option is reported once by one rank.
bool words_need_ranks(const std::vector<std::string>& words) {
  return !words.empty() && (words[0] == name_of(CommandKind::train) || words[0] == name_of(CommandKind::bench));
}

/// Whether a launcher (Open MPI, MPICH and Intel MPI, Slurm) started others beside this process: then one speaks for
/// all.
bool has_peers() {
  const std::array<const char*, 3> names = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  return std::ranges::any_of(names, [](const char* name) {
    const char* ranks = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody changes the environment
    return ranks != nullptr && std::atoll(ranks) > 1;
  });
}

}  // namespace

int main(int argc, char** argv) {
  Invocation invocation;
  invocation.start = std::chrono::steady_clock::now();
  invocation.unix_start = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  invocation.words.assign(argv, argv + argc);
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (!words_need_ranks(words) && !has_peers()) return run_alone(read_command(words));
    World world(&argc, &argv);
    return world.run([&] {
      const Command command = read_command(words);
      return needs_ranks(command.kind) ? run_with_ranks(world, command, invocation)
                                       : (world.rank() == 0 ? run_alone(command) : 0);
    });
  } catch (const Error& error) {
    Log(0, 1).error(error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    Log(0, 1).error(error.what());
    return static_cast<int>(ExitCode::internal);
  }
}
