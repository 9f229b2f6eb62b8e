#include "tessera/config/command.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ranges>

#include "config/value_text.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/choices.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/settings.hpp"

namespace tessera {

namespace {

struct CommandRow {
  CommandKind kind;
  std::string_view name, words, help, example;
};
constexpr std::string_view kOptions = "[INPUT.ini] [--section.key=value ...]";
constexpr std::array<CommandRow, 14> kCommands{
    {{CommandKind::train, "train", kOptions, "train a model (start it with mpiexec for several ranks)",
      "mpiexec -n 2 tessera train inputs/quickstart.ini --data.source=FOLDER --run.dir=RUN"},
     {CommandKind::plan, "plan", kOptions, "memory and schedule of every strategy, without ranks or a GPU",
      "tessera plan inputs/gpt2_124m.ini --plan.ranks=4 --plan.memory=4GiB"},
     {CommandKind::bench, "bench", "comm|step|kernels|memory|checkpoint [INPUT.ini] [--section.key=value ...]",
      "measure this machine: collectives as nccl-tests do, steps, kernels, memory of all strategies, or checkpoints",
      "mpiexec -n 2 tessera bench step --model.preset=nano --bench.steps=20"},
     {CommandKind::sweep, "sweep", "FILE.ini [--section.key=value ...]",
      "several runs side by side, here or over Slurm, from one file",
      "tessera sweep inputs/sweeps/strategies.ini --sweep.action=run"},
     {CommandKind::generate, "generate", "CHECKPOINT_OR_FOLDER [--section.key=value ...]",
      "text from a run, a checkpoint or a Hugging Face folder, on one rank or several",
      "tessera generate RUN --generate.prompt='Once upon a time' --generate.temperature=0"},
     {CommandKind::eval, "eval", "CHECKPOINT_OR_FOLDER [--section.key=value ...]",
      "loss of a run, a checkpoint or a Hugging Face folder on validation sets, or its answers to questions",
      "tessera eval RUN --data.val_source=wiki:wiki.txt,code:code_folder"},
     {CommandKind::data, "data",
      "prepare [INPUT.ini] [--section.key=value ...]; data inspect WHAT [--data.key=value ...]",
      "prepare: text to tokens, in the cache or a file; inspect: what is in a token file, a cache's folder or text",
      "tessera data prepare --data.source=my_texts --data.tokenizer=gpt2_folder --data.output=train.bin"},
     {CommandKind::import_, "import", "SOURCE CHECKPOINT", "a Hugging Face folder or llm.c's model.bin to a checkpoint",
      "tessera import FOLDER START"},
     {CommandKind::export_, "export", "CHECKPOINT TARGET [--export.key=value ...]",
      "to a Hugging Face folder, or to llm.c's file if TARGET ends with .bin",
      "tessera export RUN/checkpoints/step-00001000 FOLDER --export.dtype=bf16"},
     {CommandKind::verify, "verify", "CHECKPOINT", "is it complete and undamaged? exit code 0 or 4",
      "tessera verify RUN/checkpoints/step-00001000"},
     {CommandKind::inspect, "inspect", "CHECKPOINT", "step, grid, options, and what each tensor looks like",
      "tessera inspect RUN/checkpoints/step-00001000"},
     {CommandKind::index, "index", "CHECKPOINT", "make its tensors.h5 where it is missing or damaged",
      "tessera index RUN/checkpoints/step-00001000"},
     {CommandKind::help, "help", "[COMMAND]", "every option, or what COMMAND reads", "tessera help train"},
     {CommandKind::version, "version", "", "what was built in", "tessera version"}}};

/// What most trainings set, before the list of all.
constexpr std::string_view kFirstOptions = R"(
The ten that most runs need:
  --data.source=PATHS         text or tokens to train on
  --data.tokenizer=FOLDER     what turns text into tokens; bytes without one
  --model.preset=NAME         the size: nano, gpt2-124m, ..., qwen3-8b
  --model.from=FOLDER         or fine-tune these weights
  --train.steps=N             how long
  --train.micro_batch=N       sequences per rank at a time
  --optim.lr=X                the learning rate
  --shard.strategy=NAME       what is split over ranks: ddp nothing, zero3 everything
  --run.dir=FOLDER            where the run writes
  --checkpoint.resume=auto    go on where the run in that folder was

All of them:
)";

/// Returns "train, plan, bench, ..."
template <class Rows>
std::string names_of(const Rows& rows) {
  const auto name_of_row = [](const auto& row) { return row.name; };
  return fmt::format("{}", fmt::join(rows | std::views::transform(name_of_row), ", "));
}

const CommandRow& row_of(CommandKind kind) {
  for (const auto& row : kCommands) {
    if (row.kind == kind) return row;
  }
  throw InternalError("no command {}", static_cast<int>(kind));
}

CommandKind command_named(const std::string& name) {
  for (const auto& row : kCommands) {
    if (row.name == name) return row.kind;
  }
  throw UsageError("unknown command {}: {}", in_quotes(name), names_of(kCommands));
}

/// Returns the number of paths that a command takes instead of an input file.
std::size_t paths_of(const Command& command) {
  switch (command.kind) {
    case CommandKind::data:
      return command.data == DataTask::inspect ? 1 : 0;
    case CommandKind::import_:
    case CommandKind::export_:
      return 2;
    case CommandKind::eval:
    case CommandKind::generate:
    case CommandKind::verify:
    case CommandKind::inspect:
    case CommandKind::index:
      return 1;
    default:
      return 0;
  }
}

/// Returns whether a command takes an option, even one that it does not read. So a run's command line can be planned
/// and measured as it is.
bool accepts(CommandKind kind, std::string_view option) {
  const bool of_runs = kind == CommandKind::plan || kind == CommandKind::bench || kind == CommandKind::data;
  return reads(kind, option) || (of_runs && reads(CommandKind::train, option));
}

/// Refuses options of one bench that the others must not be given.
void require_read_by(BenchKind kind, std::string_view option) {
  const bool read = option == "bench.sizes"    ? kind == BenchKind::comm
                    : option == "bench.output" ? kind != BenchKind::checkpoint
                                               : true;
  if (read) return;
  throw UsageError("{} has no effect (tessera bench {} does not read it): leave it out", option, name_of(kind));
}

/// Returns the bench or the data task of this name. UsageError, which says `why`, for another one.
template <class E>
E chosen(std::string_view command, const std::string& name, std::string_view why) {
  if (const std::optional<E> found = read_choice<E>(name)) return *found;
  throw UsageError("{} {} ({}): {}", command, in_quotes(name), why, names_of(choices<E>()));
}

}  // namespace

std::string_view name_of(CommandKind kind) { return row_of(kind).name; }

Command read_command(const std::vector<std::string>& words) {
  Command command;
  if (words.empty()) return command.kind = CommandKind::none, command;
  // An option before the command would swallow the command as its value: the command comes first, or a flag stands
  // alone.
  auto arguments = read_arguments(words);
  if (arguments.help || words[0] == "help") {
    command.kind = CommandKind::help;
    const auto topic = std::ranges::find_if(words, [](const auto& word) { return word != "help" && word[0] != '-'; });
    if (topic != words.end()) command.topic = command_named(*topic);
    return command;
  }
  if (arguments.version) return command.kind = CommandKind::version, command;
  if (words[0].starts_with("-")) {
    throw UsageError("{} where a command belongs: tessera COMMAND [INPUT.ini] [--section.key=value ...], with {}",
                     in_quotes(words[0]), names_of(kCommands));
  }
  command.kind = command_named(words[0]);
  if (command.kind == CommandKind::version) return command;

  auto& positional = arguments.positional;
  std::size_t next = 1;
  if (command.kind == CommandKind::bench) {
    if (positional.size() <= next)
      throw UsageError("bench needs to know what to measure: {}", names_of(choices<BenchKind>()));
    command.bench = chosen<BenchKind>("bench", positional[next++], "nothing of that name to measure");
  }
  if (command.kind == CommandKind::data) {
    if (positional.size() <= next) throw UsageError("data needs to know what to do: {}", names_of(choices<DataTask>()));
    command.data = chosen<DataTask>("data", positional[next++], "no such task");
  }
  const std::size_t paths = paths_of(command);
  if (positional.size() < next + paths) {
    const auto& row = row_of(command.kind);
    throw UsageError("{} needs {}: tessera {} {}: {}", row.name, paths == 1 ? "a path" : "two paths", row.name,
                     row.words, row.help);
  }
  for (std::size_t i = 0; i < paths; ++i) command.paths.emplace_back(positional[next++]);
  if (next < positional.size() && paths == 0) command.input = positional[next++];
  if (next < positional.size()) {
    if (paths > 0) {
      throw UsageError("{} after the path{} of {} (no more is read): write options as --section.key=value",
                       in_quotes(positional[next]), paths == 1 ? "" : "s", words[0]);
    }
    throw UsageError("{} after the input file {} (one file is read): write options as --section.key=value",
                     in_quotes(positional[next]), in_quotes(command.input.string()));
  }
  for (const Setting& setting : arguments.settings) {
    if (command.kind == CommandKind::bench) require_read_by(command.bench, setting.name);
    if (accepts(command.kind, setting.name)) continue;
    throw UsageError("{} = {} has no effect (tessera {} does not read it): leave it out", setting.name,
                     in_quotes(setting.value), words[0]);
  }
  if (command.kind == CommandKind::sweep) {  // its rows have options of their own
    if (command.input.empty()) throw UsageError("sweep needs a file: tessera sweep {}", row_of(command.kind).words);
    command.settings = std::move(arguments.settings);
    return command;
  }
  if (command.kind == CommandKind::data && command.data == DataTask::inspect)  // what is inspected is the source
    arguments.settings.push_back({"data.source", command.paths.at(0).string(), "command line"});
  command.options = resolve(command.input, arguments.settings);
  return command;
}

std::string usage_text() {
  std::string out = fmt::format("tessera COMMAND {}\n\nCommands:\n", kOptions);
  for (const auto& row : kCommands) out += fmt::format("  {:<8} {}\n", row.name, row.help);
  return out + "\nOptions of a command, with an example: tessera help COMMAND\n";
}

std::string help_on(CommandKind topic) {
  constexpr std::string_view how = "in INPUT.ini as [section] and key = value, or on the command line, which wins";
  if (topic == CommandKind::help) {
    return fmt::format("{}\nEvery option, {}:\n{}", usage_text(), how, help_text());
  }
  const auto& row = row_of(topic);
  const bool is_sweep = topic == CommandKind::sweep;
  const auto is_of_sweep = [](std::string_view name) { return name.starts_with("sweep."); };
  auto options = is_sweep ? help_text(is_of_sweep) : std::string(topic == CommandKind::train ? kFirstOptions : "");
  options += help_text([&](std::string_view name) { return reads(topic, name) && !(is_sweep && is_of_sweep(name)); });
  auto out = fmt::format("tessera {} {}\n{}\n\nExample: {}\n", row.name, row.words, row.help, row.example);
  if (options.empty()) return out;
  const bool has_file = row.words.find("INPUT.ini") != std::string_view::npos;
  return fmt::format("{}\nOptions that it reads{}{}:\n{}", out, has_file ? ", " : "", has_file ? how : "", options);
}

}  // namespace tessera
