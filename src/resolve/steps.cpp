// The steps from a user's options to a run, in order.
#include "resolve/steps.hpp"

#include <cstdlib>
#include <filesystem>
#include <tuple>

#include "tessera/base/log.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/comm/launcher.hpp"
#include "tessera/config/fine_tuning.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/data/evaluation.hpp"
#include "tessera/engine/backend.hpp"
#include "tessera/engine/device_choice.hpp"
#include "tessera/engine/step_trace.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/resolve/adapters.hpp"
#include "tessera/resolve/architecture.hpp"
#include "tessera/resolve/evaluated_run.hpp"
#include "tessera/resolve/model_tokenizer.hpp"
#include "tessera/resolve/origin.hpp"

namespace tessera {

namespace {

/// Options that have no effect on the device are refused as if the device had been given.
void choose_device(ResolvedRun& run, const ResolveSite& site) {
  const DeviceChoice asked = run.options.run.device;
  if (asked && site.ranks == nullptr) return;  // a plan for GPUs needs none
  const DeviceKind used = resolved_device(asked);
  run.options.run.device = used;
  run.options.run.deterministic = is_deterministic(run.options.run) ? Tristate::yes : Tristate::no;
  if (!asked) validate(run.options);
  const bool speaks = site.ranks == nullptr || site.ranks->rank() == 0;
  if (const std::string why = unused_gpu(asked, used); speaks && !why.empty()) Log(0, 1).warn(why);
}

/// Returns whether rank 0 sees a file. Ranks that answered for themselves would go different ways, in which they wait
/// for each other.
bool is_there(const std::filesystem::path& file, const ResolveSite& site) {
  std::error_code unseen;
  auto there = static_cast<std::byte>(std::filesystem::exists(file, unseen));
  if (site.ranks != nullptr) site.ranks->control().broadcast(std::span(&there, 1));
  return there != std::byte{0};
}

/// Every rank reads the file, and the hashes are compared. A run's own file is made at its first start
/// (commands/train.cpp).
void take_algorithms(ResolvedRun& run, const ResolveSite& site) {
  RunOptions& options = run.options.run;
  if (options.algorithms.empty()) {
    if (options.algorithms_hash.empty()) return;
    throw refuse("run.algorithms_hash", options.algorithms_hash).because("run.algorithms names no file");
  }
  const bool is_own = options.algorithms == kOwnAlgorithms;
  if (is_own && (site.purpose == Purpose::bench || site.purpose == Purpose::machine))
    throw refuse("run.algorithms", kOwnAlgorithms).because("only a training makes a file of its own").use("a file");
  if (is_own && site.purpose != Purpose::train) return;
  const std::filesystem::path file =
      is_own ? own_algorithms_file(run.options) : std::filesystem::path(options.algorithms);
  if ((site.makes_algorithms || is_own) && !is_there(file, site)) {
    if (is_own && !options.algorithms_hash.empty()) {
      throw refusal("{} is not there, and run.algorithms_hash asks for {}", file.string(), options.algorithms_hash)
          .use("the file with which the run began, or a new run without run.algorithms_hash");
    }
    // Rank 0 knows what an earlier part of the run kept, and goes on with that.
    const bool goes_on = is_own && !site.ranks->control().broadcast(run.machine.algorithms).empty();
    if (!goes_on) run.machine.algorithm_source = AlgorithmSource::timed;
    return;
  }
  constexpr std::int64_t kMostBytes = 16 << 20;
  const std::string text = read_text_file(file, kMostBytes);
  const std::string hash = hash_of_algorithms(text);
  // What a run's own file lacks, such as matmuls of generation, is chosen, and kept in another one.
  if (!is_own) run.machine.algorithm_source = AlgorithmSource::given;
  if (!is_own || run.machine.algorithms.empty()) run.machine.algorithms = text;
  if (!options.algorithms_hash.empty() && options.algorithms_hash != hash) {
    throw refuse("run.algorithms", file.string())
        .because("the file's hash is {}, and run.algorithms_hash asks for {}", hash, options.algorithms_hash)
        .use("the file with which the run began");
  }
  options.algorithms_hash = hash;
  if (site.ranks != nullptr) require_equal_options(site.ranks->control(), run.options);
}

void find_nodes(ResolvedRun& run, const ResolveSite& site) {
  if (site.processes != nullptr) {
    const MachineShape found = resolve_grid(*site.processes, run.options);
    run.machine.machine_ranks = found.machine_ranks;
    run.machine.machine_cores = found.machine_cores;
    run.ranks_per_node = site.processes->ranks_per_node();
  } else if (site.ranks == nullptr) {
    run.ranks_per_node = planned_ranks_per_node(run.options, run.world);
    validate_for_world(run.options, run.world, run.ranks_per_node);
  }
}

void take_origin(ResolvedRun& run, const ResolveSite& site) {
  std::tie(run.options, run.position) = with_origin(*site.ranks, run.options);
}

void take_fine_tuning(ResolvedRun& run, const ResolveSite&) {
  run.asked = run.options;
  run.options = with_fine_tuning(run.options);
}

/// Adapters are trained next to weights that a checkpoint of them can find again. Random ones serve only to see how a
/// training goes.
void require_base(ResolvedRun& run) {
  if (!run.architecture.adapters.on()) return;
  if (run.options.model.from.empty() && run.options.data.source == "synthetic") return;
  if (run.options.model.from.empty()) {
    throw refusal("lora.rank = {} has no weights to adapt", run.architecture.adapters.rank)
        .because("the model would begin with random ones")
        .use("model.from = FOLDER, or data.source = synthetic for a trial");
  }
  if (const CheckpointReader* base = run.weights->checkpoint();
      base != nullptr && base->manifest().architecture.adapters.on()) {
    throw adapters_as_base(run.options);
  }
  run.options.model.from = run.weights->folder().string();
  std::string& begin = run.options.lora.from;
  std::error_code unseen;  // it was read before
  if (!begin.empty()) begin = std::filesystem::absolute(begin, unseen).lexically_normal().string();
}

void find_model(ResolvedRun& run, const ResolveSite& site) {
  if (site.ranks == nullptr) {
    run.architecture = resolve_architecture(run.options.model);
    if (run.architecture.adapters.on()) throw adapters_as_base(run.options);
    std::optional<PeftFolder> folder;
    if (!run.options.lora.from.empty()) folder.emplace(run.options.lora.from, run.architecture);
    run.architecture.adapters = adapters_of(run.options, run.architecture, folder ? &*folder : nullptr);
  } else {
    run.weights = std::make_unique<ModelWeights>(*site.ranks, run.options, run.position.step == 0);
    run.architecture = run.weights->architecture();
  }
  const bool trains = site.purpose != Purpose::eval && site.purpose != Purpose::generate;
  if (trains) write_adapters(run.architecture, run.options.lora);
  if (site.purpose == Purpose::train) require_base(run);
}

/// One rank decides, because only the first node of a job may see the variable.
void require_data(ResolvedRun& run, const ResolveSite& site) {
  if (site.ranks->rank() == 0) require_named_data(run.options, std::getenv(kJobVariable) != nullptr);
}

void write_sizes(ResolvedRun& run, const ResolveSite&) {
  if (run.options.model.from.empty())  // a folder gives its own sizes
    static_cast<ModelSizes&>(run.options.model) = run.architecture;
  run.options.train.seq_len = sequence_length(run.options, run.architecture);
}

void take_evaluated_run(ResolvedRun& run, const ResolveSite&) {
  const CheckpointReader* checkpoint = run.weights->checkpoint();
  const bool reads_text = run.options.eval.choices.empty();
  const std::string chat_template = reads_text ? chat_template_for(run.options, *run.weights) : "";
  run.options = evaluation_options(run.options, checkpoint != nullptr ? checkpoint->manifest().options : NamedTexts());
  run.options.data.chat_template = chat_template;
}

void take_linears(ResolvedRun& run, const ResolveSite&) {
  if (const CheckpointReader* checkpoint = run.weights->checkpoint(); checkpoint != nullptr)
    run.options = with_linears_of(run.options, checkpoint->manifest().options);
}

void decide_fp8(ResolvedRun& run, const ResolveSite&) {
  PrecisionOptions& precision = run.options.precision;
  if (precision.linear == LinearPrecision::fp8) precision.fp8_smallest = smallest_fp8_side(precision);
}

void count_steps(ResolvedRun& run, const ResolveSite& site) {
  run.length = length_of_run(run.options.train, *run.data, run.planned.schedule.samples_per_step(), run.position);
  const std::int64_t schedule_steps = run.length.schedule_steps();
  validate_for_steps(run.options, run.length.steps(), schedule_steps);
  if (site.purpose == Purpose::train) run.options.optim.warmup_steps = warmup_steps_of(run.options, schedule_steps);
  require_traceable(run.options.run.trace, run.planned.schedule);
}

/// Finds, before the run, errors that an evaluation or the reading of weights would find later.
void open_weights(ResolvedRun& run, const ResolveSite& site) {
  const ModelParts& model = run.planned.schedule.model;
  for (const ValidationSet& set : run.data->validation())
    evaluated_tokens(set, evaluated_windows(set, model.batch, run.options.train.eval_batches));
  run.weights->open(model.tensors);
  if (!model.architecture.adapters.on() || site.purpose != Purpose::train) return;
  std::string& noted = run.options.lora.base_hash;
  const std::string hash = run.weights->base_hash();
  if (!noted.empty() && noted != hash) {
    throw refuse("model.from", run.options.model.from)
        .because("its weights have the hash {}, and lora.base_hash asks for {}", hash, noted)
        .use("the weights with which the run began, or a new run without lora.base_hash");
  }
  noted = hash;
}

void write_strategy(ResolvedRun& run, const ResolveSite&) {
  ShardOptions& shard = run.options.shard;
  shard.reduce = resolved_reduce(shard.reduce, shard.strategy);
  if (rules_of(shard.strategy).is_hybrid()) shard.group_size = run.planned.schedule.grid.size(Group::shard);
}

/// Options are the same on all ranks. What ranks of unlike machines decide differently stays open in them.
void choose_threads(ResolvedRun& run, const ResolveSite& site) {
  ControlPlane& control = site.ranks->control();
  const auto agreed = [&](std::int64_t mine) { return control.maximum(mine) == -control.maximum(-mine); };
  const RunOptions mine = with_threads(run.options, run.machine).run;
  if (agreed(mine.threads)) run.options.run.threads = mine.threads;
  if (agreed(static_cast<std::int64_t>(mine.queues))) run.options.run.queues = mine.queues;
}

constexpr Purpose kTrain = Purpose::train;
constexpr Purpose kRanked = Purpose::train | Purpose::bench;            ///< trains here
constexpr Purpose kUsing = Purpose::eval | Purpose::generate;           ///< uses a model here
constexpr Purpose kPlanned = kRanked | Purpose::plan | Purpose::sweep;  ///< has the schedule of a training

constexpr ResolveStep kSteps[] = {
    {"device", "auto takes a GPU if there is one, and sums have a fixed order on CPUs", StepNeeds::device,
     kRanked | kUsing | Purpose::plan | Purpose::machine, choose_device},
    {"grid", "ranks form nodes, and the options must be possible on so many", StepNeeds::ranks,
     kPlanned | kUsing | Purpose::machine, find_nodes},
    {"algorithms", "a file of matmuls' algorithms is read, and named by its hash", StepNeeds::files,
     kRanked | Purpose::machine, take_algorithms},
    {"origin", "a run that goes on from a checkpoint has its model and batch", StepNeeds::files, kTrain, take_origin},
    {"fine-tuning", "a run that starts from weights has defaults of its own", StepNeeds::nothing, kTrain,
     take_fine_tuning},
    {"model", "a preset, a family or a folder gives the architecture", StepNeeds::files, kPlanned | kUsing, find_model},
    {"length", "memory decides a sequence length that says fit", StepNeeds::device, kPlanned, decide_length},
    {"named data", "weights, and jobs, are not trained on synthetic text by accident", StepNeeds::nothing, kTrain,
     require_data},
    {"sizes", "sizes that were left open are those of the architecture", StepNeeds::nothing, kRanked, write_sizes},
    {"evaluated run", "data, sizes and precision are those with which the run evaluated", StepNeeds::files,
     Purpose::eval, take_evaluated_run},
    {"linears", "linears multiply what they multiplied in the run", StepNeeds::files, kUsing, take_linears},
    {"fp8", "auto leaves small linears in precision.compute", StepNeeds::nothing, kPlanned | kUsing, decide_fp8},
    {"tokenizer", "text is read as the model's own run read it", StepNeeds::files, kRanked | Purpose::eval,
     find_reading},
    {"documents", "documents are kept apart where they have prompts or are conversations", StepNeeds::files,
     kRanked | Purpose::eval, decide_documents},
    {"data", "text becomes tokens, and tokens become samples", StepNeeds::files, kRanked, open_data},
    {"fit", "memory decides the options that say fit, or leave it to memory", StepNeeds::device, kPlanned,
     decide_by_memory},
    {"schedule", "the step is built, its memory planned, and both are proved", StepNeeds::nothing, kPlanned,
     plan_schedule},
    {"steps", "tokens or epochs make steps, and a share of these is the warm-up of fine-tuning", StepNeeds::nothing,
     kRanked, count_steps},
    {"memory", "the plan must fit the device, and the machine", StepNeeds::device, kRanked, require_memory},
    {"weights", "the files of the first weights must be there", StepNeeds::files, kRanked, open_weights},
    {"strategy", "the strategy decides when gradients are reduced, and over which ranks", StepNeeds::nothing, kRanked,
     write_strategy},
    {"threads", "cores are shared out, and queues overlap where a core is free", StepNeeds::ranks, kRanked,
     choose_threads}};

}  // namespace

std::span<const ResolveStep> resolve_steps() { return kSteps; }

}  // namespace tessera
