#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "config/check.hpp"
#include "tessera/config/command.hpp"

using namespace tessera;
using Catch::Contains;

namespace {
std::string command_error(const std::vector<std::string>& words) {
  return usage_message([&] { read_command(words); });
}
}  // namespace

TEST_CASE("Commands, their input file and options in any order") {
  const auto file = std::filesystem::temp_directory_path() / ("tessera_command_test_" + std::to_string(::getpid()));
  std::ofstream(file) << "[train]\nsteps = 5\n";
  const auto train = read_command({"train", "--run.seed", "9", file.string(), "--optim.lr=0.5"});
  CHECK(train.kind == CommandKind::train);
  CHECK(train.input == file);
  CHECK(train.options.train.steps == 5);
  CHECK(train.options.run.seed == 9);
  CHECK(train.options.optim.lr == 0.5);
  const auto bench = read_command({"bench", "comm", file.string()});
  CHECK(bench.kind == CommandKind::bench);
  CHECK(bench.bench == BenchKind::comm);
  CHECK(bench.input == file);
  CHECK_THAT(command_error({"train", file.string(), "again.ini"}), Contains("again.ini"));
  std::filesystem::remove(file);
  CHECK(read_command({"plan"}).input.empty());
}

TEST_CASE("Help and version") {
  CHECK(read_command({}).kind == CommandKind::none);
  CHECK(read_command({"help"}).kind == CommandKind::help);
  CHECK(read_command({"-h"}).kind == CommandKind::help);
  CHECK(read_command({"train", "--no.such=1", "--help"}).kind == CommandKind::help);
  CHECK(read_command({"--version"}).kind == CommandKind::version);
  CHECK(read_command({"version"}).kind == CommandKind::version);
  CHECK_THAT(usage_text(), Contains("tessera help COMMAND") && Contains("train") && Contains("bench"));
  CHECK_THAT(help_on(CommandKind::help), Contains("--shard.strategy ") && Contains("--export.dtype "));
  CHECK(read_command({"help"}).topic == CommandKind::help);
  CHECK(read_command({"help", "plan"}).topic == CommandKind::plan);
  CHECK(read_command({"bench", "step", "--bench.steps=1", "--help"}).topic == CommandKind::bench);
  CHECK_THAT(command_error({"help", "frobnicate"}), Contains("unknown command"));
}

TEST_CASE("The help of train and sweep begins with what matters there") {
  const auto train = help_on(CommandKind::train), sweep = help_on(CommandKind::sweep);
  const auto first = train.substr(0, train.find("All of them:"));
  CHECK(std::count(first.begin(), first.end(), '\n') < 20);
  for (const char* name : {"data.source", "data.tokenizer", "model.preset", "model.from", "train.steps",
                           "train.micro_batch", "optim.lr", "shard.strategy", "run.dir", "checkpoint.resume"}) {
    CHECK_THAT(first, Contains(fmt::format("\n  --{}=", name)));
    CHECK_THAT(train, Contains(fmt::format("\n  --{} ", name)));
  }
  CHECK(sweep.find("\n[sweep]") < sweep.find("\n[run]"));
  CHECK(sweep.find("\n[sweep]") == sweep.rfind("\n[sweep]"));
}

TEST_CASE("A command's help lists what it reads, with an example") {
  const auto plan = help_on(CommandKind::plan), exported = help_on(CommandKind::export_);
  CHECK_THAT(plan, Contains("Example: tessera plan ") && Contains("--plan.ranks ") && Contains("--run.device ") &&
                       Contains("--shard.wrap ") && !Contains("--run.seed ") && !Contains("--optim.lr "));
  CHECK_THAT(help_on(CommandKind::train), Contains("mpiexec") && Contains("--optim.lr ") &&
                                              !Contains("--plan.ranks ") && !Contains("--bench.steps ") &&
                                              !Contains("--export.dtype "));
  CHECK_THAT(help_on(CommandKind::bench), Contains("--bench.steps ") && Contains("--model.preset "));
  CHECK_THAT(exported, Contains("--export.dtype ") && !Contains("--run.device "));
  CHECK_THAT(help_on(CommandKind::verify), Contains("Example: tessera verify ") && !Contains("--run.dir "));
}

TEST_CASE("An option on the command line that the command does not read is refused, in a file it may stand") {
  CHECK_THAT(command_error({"train", "--plan.ranks=4"}),
             Contains("plan.ranks = '4' has no effect (tessera train does not read it)"));
  CHECK_THAT(command_error({"train", "--export.dtype=bf16"}), Contains("has no effect"));
  CHECK_THAT(command_error({"plan", "--bench.steps=4"}), Contains("tessera plan does not read it"));
  CHECK_THAT(command_error({"bench", "step", "--plan.ranks=4"}), Contains("tessera bench does not read it"));
  CHECK_THAT(command_error({"verify", "a", "--run.seed=4"}), Contains("tessera verify does not read it"));
  CHECK_THAT(command_error({"export", "a", "b", "--run.seed=4"}), Contains("tessera export does not read it"));
  CHECK(read_command({"plan", "--optim.lr=1", "--plan.ranks=3"}).options.plan.ranks == 3);
  CHECK(read_command({"export", "a", "b", "--export.dtype=bf16"}).options.export_.dtype == DType::bf16);
  const auto file = std::filesystem::temp_directory_path() / ("tessera_command_test_" + std::to_string(::getpid()));
  std::ofstream(file) << "[plan]\nranks = 5\n[bench]\nsteps = 2\n";
  CHECK(command_error({"train", file.string()}).empty());
  CHECK(read_command({"plan", file.string()}).options.plan.ranks == 5);
  std::filesystem::remove(file);
}

TEST_CASE("Unknown commands") {
  CHECK_THAT(command_error({"trian"}), Contains("unknown command 'trian'") && Contains("train, plan, bench"));
  CHECK_THAT(command_error({"tra"}), Contains("unknown command"));
  for (const std::string later : {"evaluate", "postmortem"}) {
    CHECK_THAT(command_error({later}), Contains("unknown command '" + later + "': train, plan, bench"));
  }
  CHECK_THAT(command_error({"import", "a"}), Contains("import needs two paths"));
  CHECK_THAT(command_error({"verify"}), Contains("verify needs a path"));
  CHECK_THAT(command_error({"generate"}), Contains("generate needs a path"));
  CHECK_THAT(command_error({"eval"}), Contains("eval needs a path"));
  CHECK(read_command({"eval", "a", "--eval.format=json"}).options.eval.format == ResultFormat::json);
  CHECK_THAT(command_error({"train", "--eval.format=json"}), Contains("tessera train does not read it"));
  CHECK_THAT(command_error({"verify", "a", "b"}), Contains("'b' after the path of verify"));
  CHECK_THAT(command_error({"bench"}), Contains("comm, step, kernels, memory"));
  CHECK_THAT(command_error({"bench", "calibrate"}), Contains("comm, step, kernels, memory"));
  CHECK_THAT(command_error({"bench", "all"}), Contains("comm, step, kernels, memory"));
  CHECK_THAT(command_error({"--run.seed=1", "train"}), Contains("where a command belongs"));
  CHECK_THAT(command_error({"train", "missing.ini"}), Contains("missing.ini"));
  CHECK_THAT(command_error({"train", "-n", "3"}), Contains("'-n' is not an option") && Contains("--section.key=value"));
  CHECK_THAT(command_error({"train", "/tmp"}), Contains("/tmp is a folder"));
}

TEST_CASE("data prepares what an input file and options name, and inspects what a word names") {
  const Command prepare = read_command({"data", "prepare", "--data.source=texts", "--run.threads=3"});
  CHECK(prepare.kind == CommandKind::data);
  CHECK(prepare.data == DataTask::prepare);
  CHECK(prepare.options.data.source == "texts");
  const Command inspect = read_command({"data", "inspect", "some.bin", "--data.tokenizer=bytes"});
  CHECK(inspect.data == DataTask::inspect);
  CHECK(inspect.paths.at(0) == "some.bin");
  CHECK(inspect.options.data.source == "some.bin");
  CHECK_THAT(command_error({"data"}), Contains("prepare, inspect"));
  CHECK_THAT(command_error({"data", "pack"}), Contains("data 'pack'"));
  CHECK_THAT(command_error({"data", "inspect"}), Contains("data needs a path"));
  CHECK_THAT(command_error({"data", "inspect", "a", "b"}), Contains("after the path"));
  CHECK(reads(CommandKind::data, "data.output"));
  CHECK_FALSE(reads(CommandKind::train, "data.output"));
  CHECK_THAT(command_error({"train", "--data.source=a", "--data.output=b"}), Contains("train does not read it"));
  CHECK(command_error({"data", "prepare", "--data.source=a", "--optim.lr=1e-4"}).empty());
}
