#pragma once
// The commands of `tessera`, one function each. All return the exit code; errors are exceptions. Those with a World are
// collective. A run's folder stands for its newest checkpoint.

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/record/run_facts.hpp"

namespace tessera {

/// `tessera train`: trains as the options say. A resumed run takes unset options from its checkpoint.
int run_train(World& world, const Options& given, const Invocation& invocation);

/// `tessera generate`: continues the prompts of the options with the model of a run, a checkpoint or a Hugging Face
/// folder. Text or JSON goes to the standard output of rank 0, and a summary to its standard error.
int run_generate(World& world, Options options, const std::filesystem::path& model);

/// `tessera doctor`: prints what of the machines, the launcher and the run folder would slow a run down, or prevent it;
/// with a model also whether its step can run here. Returns 2 where a training would be refused.
int run_doctor(World& world, const Options& options, bool has_model);

/// `tessera eval`: evaluates `model`, a run, a checkpoint or a Hugging Face folder, and prints the results on rank 0.
/// Options that are not given are as the checkpoint's run had them, so that its own evaluation is repeated.
int run_eval(World& world, Options options, const std::filesystem::path& model);

/// `tessera plan`: prints a headline and plan.view for plan.ranks ranks, for every model family, or a JSON document of
/// everything if plan.format says so. Needs no ranks and allocates no run. Throws UsageError for impossible options, as
/// train does, and with plan.memory DoesNotFit (after the text) if the run does not fit. If `input` is the config.ini
/// of a run, the run is planned for the ranks that it had, unless others are given.
int run_plan(Options options, const std::filesystem::path& input);

/// `tessera postmortem`: prints what the ranks of a run do or did last, and who holds the others up, from the files in
/// RUN/flight. IoError if none can be read.
int run_postmortem(const std::filesystem::path& run);

/// `tessera data prepare`: prepares data.source and data.val_source in the cache, or data.source as the file of
/// data.output.
int run_data_prepare(const Options& options);

/// `tessera data inspect`: prints the contents of a token file, a prepared corpus of the cache, or a source, which is
/// prepared if necessary.
int run_data_inspect(const std::filesystem::path& path, const Options& options);

/// `tessera verify`: reads everything in a checkpoint and prints every defect. Exit code 0 or 4.
int run_verify(const std::filesystem::path& path);

/// `tessera inspect`: prints step, grid, optimizer and options, and the shape, mean, standard deviation, minimum and
/// maximum of each parameter.
int run_inspect(const std::filesystem::path& path);

/// `tessera index`: writes the tensors.h5 of a checkpoint that was written without it (checkpoint.tensors = false).
int run_index(const std::filesystem::path& path);

/// `tessera import`: imports a Hugging Face folder as a checkpoint of step 0.
int run_import(const std::filesystem::path& source, const std::filesystem::path& checkpoint);

/// `tessera export`: exports a checkpoint to the folder `target`.
int run_export(const std::filesystem::path& path, const std::filesystem::path& target, const ExportOptions& options);

/// `tessera help`: prints help_on (commands/command.hpp).
int run_help(const std::vector<std::string>& topic);

/// `tessera version`: prints the facts of the build, and the GPUs that this process may use.
int run_version();

}  // namespace tessera
