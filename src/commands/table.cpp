// The table of commands, from which help, dispatch, messages about unknown commands and docs/manual/commands.md come.
#include <algorithm>

#include "tessera/bench/commands.hpp"
#include "tessera/commands/command.hpp"
#include "tessera/commands/commands.hpp"
#include "tessera/sweep/sweep.hpp"

namespace tessera {

namespace {

using R = Readers;
constexpr R kTables = R::bench | R::bench_tables;
constexpr R kOfRuns = R::train;  ///< accepted without effect if a run is planned, measured or prepared

constexpr Command kCommands[] = {
    {"train", "", InputFile::optional, "train a model (start it with mpiexec for several ranks)",
     "mpiexec -n 2 tessera train inputs/quickstart.ini --data.source=FOLDER --run.dir=RUN", R::train, R::none, true,
     [](Call& call) { return run_train(*call.world, call.options, call.invocation); }},
    {"plan", "", InputFile::of_run, "memory and schedule of every strategy, without ranks or a GPU",
     "tessera plan inputs/gpt2_124m.ini --plan.ranks=4 --plan.memory=4GiB", R::plan, kOfRuns, false,
     [](Call& call) { return run_plan(call.options, call.input); }},
    {"sweep", "", InputFile::of_sweep, "several runs side by side, here or over Slurm, from one file",
     "tessera sweep inputs/sweeps/strategies.ini --sweep.action=run", R::sweep, R::none, false,
     [](Call& call) { return run_sweep(call.input, call.settings); }},
    {"doctor", "", InputFile::optional, "what of machines, launcher and run folder slows a run down, or prevents it",
     "mpiexec -n 2 tessera doctor inputs/quickstart.ini --run.dir=RUN", R::train, R::none, true,
     [](Call& call) {
       const auto is_of_model = [](const Setting& setting) { return setting.name.starts_with("model."); };
       return run_doctor(*call.world, call.options,
                         !call.input.empty() || std::ranges::any_of(call.settings, is_of_model));
     }},
    {"postmortem", "RUN", InputFile::none, "who waits for whom in a run that hangs or was killed, rank by rank",
     "tessera postmortem RUN", R::none, R::none, false, [](Call& call) { return run_postmortem(call.path()); }},
    {"generate", "CHECKPOINT_OR_FOLDER", InputFile::none,
     "text from a run, a checkpoint or a Hugging Face folder, on one rank or several",
     "tessera generate RUN --generate.prompt='Once upon a time' --generate.temperature=0", R::generate, R::none, true,
     [](Call& call) { return run_generate(*call.world, call.options, call.path()); }},
    {"eval", "CHECKPOINT_OR_FOLDER", InputFile::none,
     "loss of a run, a checkpoint or a Hugging Face folder on validation sets, or its answers to questions",
     "tessera eval RUN --data.val_source=wiki:wiki.txt,code:code_folder", R::eval, R::none, true,
     [](Call& call) { return run_eval(*call.world, call.options, call.path()); }},
    {"bench step", "", InputFile::optional, "measure training steps: their time, and where it goes",
     "mpiexec -n 2 tessera bench step --model.preset=nano --bench.steps=20", kTables, kOfRuns, true,
     [](Call& call) { return run_bench_step(*call.world, call.options, call.invocation); }},
    {"bench comm", "", InputFile::optional, "measure collectives, as nccl-tests do",
     "mpiexec -n 2 tessera bench comm --bench.sizes=1MB,10MB", kTables | R::bench_messages, kOfRuns, true,
     [](Call& call) { return run_bench_comm(*call.world, call.options, call.invocation); }},
    {"bench kernels", "", InputFile::optional, "measure every kernel of a step, against what this machine can do",
     "tessera bench kernels --model.preset=nano", kTables, kOfRuns, true,
     [](Call& call) { return run_bench_kernels(*call.world, call.options, call.invocation); }},
    {"bench calibrate", "", InputFile::optional, "measure the prices of this machine, for tessera plan",
     "mpiexec -n 2 tessera bench calibrate --bench.output=machine.ini", kTables, kOfRuns, true,
     [](Call& call) { return run_bench_calibrate(*call.world, call.options); }},
    {"bench checkpoint", "", InputFile::optional, "measure writing and reading of checkpoints, against the disk",
     "mpiexec -n 2 tessera bench checkpoint --model.preset=nano", R::bench, kOfRuns, true,
     [](Call& call) { return run_bench_checkpoint(*call.world, call.options); }},
    {"data prepare", "", InputFile::optional, "turn text into tokens, in the cache or a file",
     "tessera data prepare --data.source=my_texts --data.tokenizer=gpt2_folder --data.output=train.bin", R::data,
     kOfRuns, false, [](Call& call) { return run_data_prepare(call.options); }},
    {"data inspect", "WHAT", InputFile::none, "show what is in a token file, a cache's folder or text",
     "tessera data inspect train.bin --data.tokenizer=gpt2_folder", R::data, kOfRuns, false,
     [](Call& call) { return run_data_inspect(call.path(), call.options); }, "data.source"},
    {"import", "SOURCE CHECKPOINT", InputFile::none, "turn a Hugging Face folder into a checkpoint",
     "tessera import FOLDER START", R::none, R::none, false,
     [](Call& call) { return run_import(call.path(0), call.path(1)); }},
    {"export", "CHECKPOINT TARGET", InputFile::none, "turn a checkpoint into a Hugging Face folder",
     "tessera export RUN/checkpoints/step-00001000 FOLDER --export.dtype=bf16", R::export_, R::none, false,
     [](Call& call) { return run_export(call.path(0), call.path(1), call.options.export_); }},
    {"verify", "CHECKPOINT", InputFile::none, "check that a checkpoint is complete and undamaged (exit code 0 or 4)",
     "tessera verify RUN/checkpoints/step-00001000", R::none, R::none, false,
     [](Call& call) { return run_verify(call.path()); }},
    {"inspect", "CHECKPOINT", InputFile::none,
     "show a checkpoint's step, grid and options, and what each tensor looks like",
     "tessera inspect RUN/checkpoints/step-00001000", R::none, R::none, false,
     [](Call& call) { return run_inspect(call.path()); }},
    {"index", "CHECKPOINT", InputFile::none, "make a checkpoint's tensors.h5 where it is missing or damaged",
     "tessera index RUN/checkpoints/step-00001000", R::none, R::none, false,
     [](Call& call) { return run_index(call.path()); }},
    {"help", "", InputFile::none, "these lines, what COMMAND does and reads, or every option", "tessera help train",
     R::none, R::none, false, [](Call& call) { return run_help(call.words); }},
    {"version", "", InputFile::none, "what was built in, and the GPUs of this machine", "tessera version", R::none,
     R::none, false, [](Call&) { return run_version(); }}};

}  // namespace

std::span<const Command> all_commands() { return kCommands; }

const Command* find_command(const std::vector<std::string>& words) {
  if (words.empty()) return nullptr;
  const std::string two = words.size() > 1 ? words[0] + " " + words[1] : words[0];
  for (const Command& command : kCommands) {
    if (command.name == words[0] || command.name == two) return &command;
  }
  return nullptr;
}

}  // namespace tessera
