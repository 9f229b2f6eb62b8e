#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "config/check.hpp"
#include "tessera/commands/command.hpp"

using namespace tessera;
using Catch::Contains;

namespace {
std::string command_error(const std::vector<std::string>& words) {
  return usage_message([&] { read_call(words); });
}
}  // namespace

TEST_CASE("Commands, their input file and options in any order") {
  const auto file = std::filesystem::temp_directory_path() / ("tessera_command_test_" + std::to_string(::getpid()));
  std::ofstream(file) << "[train]\nsteps = 5\n";
  const auto train = read_call({"train", "--run.seed", "9", file.string(), "--optim.lr=0.5"});
  CHECK(train.command->name == "train");
  CHECK(train.input == file);
  CHECK(train.options.train.steps == 5);
  CHECK(train.options.run.seed == 9);
  CHECK(train.options.optim.lr == 0.5);
  const auto bench = read_call({"bench", "comm", file.string()});
  CHECK(bench.command->name == "bench comm");
  CHECK(bench.input == file);
  CHECK_THAT(command_error({"train", file.string(), "again.ini"}), Contains("again.ini"));
  std::filesystem::remove(file);
  CHECK(read_call({"plan"}).input.empty());
}

TEST_CASE("Help and version") {
  CHECK_THAT(command_error({}), Contains("where a command belongs"));
  CHECK(read_call({"help"}).command->name == "help");
  CHECK(read_call({"-h"}).command->name == "help");
  CHECK(read_call({"train", "--no.such=1", "--help"}).command->name == "help");
  CHECK(read_call({"--version"}).command->name == "version");
  CHECK(read_call({"version"}).command->name == "version");
  CHECK_THAT(usage_text(), Contains("tessera help COMMAND") && Contains("train") && Contains("bench"));
  CHECK(help_on({}) == usage_text());
  CHECK_THAT(help_on({"options"}), Contains("--shard.strategy ") && Contains("--export.dtype "));
  CHECK(help_on(read_call({"--help"}).words) == usage_text() + "\n" + help_on({"options"}));
  CHECK(read_call({"help", "options"}).words == std::vector<std::string>{"options"});
  CHECK(read_call({"help"}).words.empty());
  CHECK(read_call({"help", "help"}).words.empty());
  CHECK(read_call({"help", "plan"}).words == std::vector<std::string>{"plan"});
  CHECK(read_call({"bench", "step", "a.ini", "--bench.steps=1", "--help"}).words ==
        std::vector<std::string>{"bench", "step"});
  CHECK(read_call({"bench", "--help"}).words == std::vector<std::string>{"bench"});
  CHECK(read_call({"train", "a.ini", "--help"}).words == std::vector<std::string>{"train"});
  CHECK_THAT(command_error({"help", "frobnicate"}), Contains("unknown command"));
}

TEST_CASE("The help of train and sweep begins with what matters there") {
  const auto train = help_on({"train"}), sweep = help_on({"sweep"});
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
  const auto plan = help_on({"plan"}), exported = help_on({"export"});
  CHECK_THAT(plan, Contains("Example: tessera plan ") && Contains("--plan.ranks ") && Contains("--run.device ") &&
                       Contains("--shard.wrap ") && !Contains("--run.seed ") && !Contains("--optim.lr "));
  CHECK_THAT(help_on({"train"}), Contains("mpiexec") && Contains("--optim.lr ") && !Contains("--plan.ranks ") &&
                                     !Contains("--bench.steps ") && !Contains("--export.dtype "));
  CHECK_THAT(help_on({"bench"}), Contains("--bench.steps ") && Contains("--model.preset "));
  CHECK_THAT(exported, Contains("--export.dtype ") && !Contains("--run.device "));
  CHECK_THAT(help_on({"verify"}), Contains("Example: tessera verify ") && !Contains("--run.dir "));
}

TEST_CASE("An option on the command line that the command does not read is refused, in a file it may stand") {
  CHECK_THAT(command_error({"train", "--plan.ranks=4"}),
             Contains("plan.ranks = '4' has no effect, because tessera train does not read it"));
  CHECK_THAT(command_error({"train", "--export.dtype=bf16"}), Contains("has no effect"));
  CHECK_THAT(command_error({"plan", "--bench.steps=4"}), Contains("tessera plan does not read it"));
  CHECK_THAT(command_error({"bench", "step", "--plan.ranks=4"}), Contains("tessera bench step does not read it"));
  CHECK_THAT(command_error({"verify", "a", "--run.seed=4"}), Contains("tessera verify does not read it"));
  CHECK_THAT(command_error({"export", "a", "b", "--run.seed=4"}), Contains("tessera export does not read it"));
  CHECK(read_call({"plan", "--optim.lr=1", "--plan.ranks=3"}).options.plan.ranks == 3);
  CHECK(read_call({"export", "a", "b", "--export.dtype=bf16"}).options.export_.dtype == DType::bf16);
  const auto file = std::filesystem::temp_directory_path() / ("tessera_command_test_" + std::to_string(::getpid()));
  std::ofstream(file) << "[plan]\nranks = 5\n[bench]\nsteps = 2\n";
  CHECK(command_error({"train", file.string()}).empty());
  CHECK(read_call({"plan", file.string()}).options.plan.ranks == 5);
  std::filesystem::remove(file);
}

TEST_CASE("Unknown commands") {
  CHECK_THAT(command_error({"trian"}),
             Contains("unknown command 'trian': did you mean train?") && Contains("train, plan, sweep"));
  CHECK_THAT(command_error({"tra"}), Contains("unknown command"));
  CHECK_THAT(command_error({"frobnicate"}),
             Contains("unknown command 'frobnicate'. The commands are: train, plan, sweep"));
  for (const auto& [word, hint] :
       std::vector<std::pair<std::string, std::string>>{{"report", "tessera-report RUN"},
                                                        {"finetune", "--model.from=FOLDER"},
                                                        {"sample", "tessera generate RUN"},
                                                        {"chat", "tessera generate RUN"},
                                                        {"resume", "--checkpoint.resume=auto"},
                                                        {"status", "status.json"}})
    CHECK_THAT(command_error({word}), Contains("unknown command '" + word + "'. ") && Contains(hint));
  CHECK_THAT(command_error({"generate", "run", "Hello"}), Contains("--generate.prompt='Hello'"));
  CHECK_THAT(command_error({"plan", "org/Model-8B"}), Contains("hf download org/Model-8B"));
  CHECK_THAT(command_error({"plan", "Model-8B"}), Contains("--model.preset=nano|gpt2-124m"));
  CHECK_THAT(command_error({"plan", "llama-8b"}), Contains("the model of this name is --model.preset=llama-8b."));
  CHECK_THAT(command_error({"import", "a"}), Contains("import needs two paths"));
  CHECK_THAT(command_error({"verify"}), Contains("verify needs a path"));
  CHECK_THAT(command_error({"generate"}), Contains("generate needs a path"));
  CHECK_THAT(command_error({"eval"}), Contains("eval needs a path"));
  CHECK(read_call({"eval", "a", "--eval.format=json"}).options.eval.format == ResultFormat::json);
  CHECK_THAT(command_error({"train", "--eval.format=json"}), Contains("tessera train does not read it"));
  CHECK_THAT(command_error({"verify", "a", "b"}), Contains("'b' stands after all that verify takes"));
  CHECK_THAT(command_error({"bench"}), Contains("step, comm, kernels, calibrate"));
  CHECK_THAT(command_error({"bench", "all"}), Contains("step, comm, kernels, calibrate"));
  CHECK_THAT(command_error({"bench", "memory", "--model.preset=nano"}),
             Contains("unknown command 'bench memory'. ") && Contains("tessera plan shows"));
  CHECK_THAT(command_error({"--run.seed=1", "train"}), Contains("where a command belongs"));
  CHECK_THAT(command_error({"train", "missing.ini"}), Contains("missing.ini"));
  CHECK_THAT(command_error({"train", "-n", "3"}), Contains("'-n' is not an option") && Contains("--section.key=value"));
  CHECK_THAT(command_error({"train", "/tmp"}), Contains("/tmp is a folder"));
}

TEST_CASE("data prepares what an input file and options name, and inspects what a word names") {
  const Call prepare = read_call({"data", "prepare", "--data.source=texts", "--run.threads=3"});
  CHECK(prepare.command->name == "data prepare");
  CHECK(prepare.options.data.source == "texts");
  const Call inspect = read_call({"data", "inspect", "some.bin", "--data.tokenizer=bytes"});
  CHECK(inspect.command->name == "data inspect");
  CHECK(inspect.path() == "some.bin");
  CHECK(inspect.options.data.source == "some.bin");
  CHECK_THAT(command_error({"data"}), Contains("prepare, inspect"));
  CHECK_THAT(command_error({"data", "pack"}),
             Contains("tessera data does not know 'pack'. Use one of prepare, inspect."));
  CHECK_THAT(command_error({"data", "inspect"}), Contains("data inspect needs a path"));
  CHECK_THAT(command_error({"data", "inspect", "a", "b"}), Contains("after all that data inspect takes"));
  CHECK(read_option(Readers::data, "data.output"));
  CHECK_FALSE(read_option(Readers::train, "data.output"));
  CHECK_THAT(command_error({"train", "--data.source=a", "--data.output=b"}), Contains("train does not read it"));
  CHECK(command_error({"data", "prepare", "--data.source=a", "--optim.lr=1e-4"}).empty());
}

TEST_CASE("Every row of the table can be called as its example says, and is found by its name") {
  for (const Command& command : all_commands()) {
    CAPTURE(command.name);
    CHECK(command.run != nullptr);
    CHECK(command.example.find("tessera " + std::string(command.name)) != std::string::npos);
    std::vector<std::string> words;
    std::string name(command.name);
    if (const auto space = name.find(' '); space != std::string::npos)
      words.push_back(name.substr(0, space)), name.erase(0, space + 1);
    words.push_back(name);
    CHECK(find_command(words) == &command);
    CHECK_THAT(usage_text(), Contains("\n  " + words[0] + " ") && Contains(words.back()));
    CHECK_THAT(help_on(words), Contains("tessera " + std::string(command.name)) || Contains("Every option"));
    words.emplace_back("--help");
    CHECK(read_call(words).command->name == "help");
  }
}

TEST_CASE("A sweep's options are left to its rows, and a run's folder stands for its config.ini") {
  CHECK_THAT(command_error({"sweep"}), Contains("sweep needs a file. Write tessera sweep FILE.ini"));
  const Call sweep = read_call({"sweep", "a.ini", "--sweep.action=run"});
  CHECK(sweep.input == "a.ini");
  REQUIRE(sweep.settings.size() == 1);
  CHECK(sweep.settings[0].name == "sweep.action");
  const auto run = std::filesystem::temp_directory_path() / ("tessera_call_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(run / "checkpoints" / "step-1");
  std::ofstream(run / "config.ini") << "[train]\nsteps = 5\n";
  CHECK(read_call({"plan", run.string()}).options.train.steps == 5);
  CHECK(read_call({"plan", (run / "checkpoints" / "step-1").string()}).options.train.steps == 5);
  CHECK_THAT(command_error({"train", run.string()}), Contains("is a folder"));
  std::filesystem::remove_all(run);
}
