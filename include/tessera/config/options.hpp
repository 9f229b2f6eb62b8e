#pragma once
// Every option of Tessera, by section, with its default. src/config/option_table.cpp gives each its name, bounds and
// help. INI files and the command line are read through that table.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/enums.hpp"
#include "tessera/config/model_sizes.hpp"
#include "tessera/config/step_range.hpp"

namespace tessera {

/// A count that the user leaves to Tessera (spelled "auto").
inline constexpr std::int64_t kAutomaticCount = -1;

/// [run]: folder, device, duration.
struct RunOptions {
  std::string dir;  ///< empty: runs/NAME (see run_folder)
  std::string name = "run";
  DeviceChoice device;
  std::int64_t seed = 1;                         ///< of weights and dropout
  std::int64_t threads = 0;                      ///< per rank; 0 = allowed cores / ranks on the node
  Tristate deterministic = Tristate::automatic;  ///< docs/numerics.md, contract 2; see is_deterministic
  QueueMode queues = QueueMode::automatic;
  double walltime = 0.0;   ///< seconds; 0 = no limit
  double timeout = 300.0;  ///< seconds that a rank waits for a peer
  bool graph = true;
  bool share_gpu = false;
  AttentionChoice attention = AttentionChoice::automatic;
  std::string algorithms;               ///< a file with the algorithms of matmuls; empty: they are chosen
  std::string algorithms_hash;          ///< of that file: XXH3 in 16 hexadecimal digits
  std::int64_t dump = 0;                ///< the step (from 1) whose loss, gradients and weights are written; 0 = none
  OnError on_bad_step = OnError::stop;  ///< whose loss or gradient norm is not finite
  bool locate_nan = false;
  std::int64_t check_every = 0;   ///< steps between checks of the state's checksums; 0 = none are kept
  std::int64_t replay_every = 0;  ///< steps between replays of a micro-step by another rank; 0 = none
  StepRange trace;                ///< the steps whose operations are written with their times
  bool operator==(const RunOptions&) const = default;
};

/// Returns the kind of device that run.device names. One that is still open counts as a CPU.
constexpr DeviceKind device_of(const RunOptions& run) { return run.device.value_or(DeviceKind::cpu); }

/// Resolves run.deterministic: auto means true on CPUs and false on GPUs.
constexpr bool is_deterministic(const RunOptions& run) {
  if (run.deterministic != Tristate::automatic) return run.deterministic == Tristate::yes;
  return traits_of(device_of(run)).is_deterministic;
}

/// [model]: a preset (with sizes that replace its own), or a Hugging Face folder, or a family with all its sizes.
struct ModelOptions : ModelSizes {
  std::string preset = "nano";  ///< not used when `from` or `family` is set
  std::string from;             ///< folder with config.json and model.safetensors
  std::string family;           ///< instead of a preset: every size is then explicit
  double dropout = 0.0;
  bool operator==(const ModelOptions&) const = default;
};

/// [data]
struct DataOptions {
  std::string source = "synthetic";  ///< synthetic, or a list of files, folders and globs: text, or tokens
  std::string val_source;            ///< evaluated instead of val_fraction; see validation_sources
  std::int64_t synthetic_tokens = 1'000'000;
  SampleOrder order = SampleOrder::shuffled;
  double val_fraction = 0.1;  ///< the last part of the corpus; 0 = no evaluation. Not used with val_source
  std::int64_t seed = 1;      ///< of the sample order and of synthetic text
  std::string tokenizer;      ///< bytes, or a folder or file; empty: the one of model.from, else bytes
  std::string text_key = "text";
  std::string separator = "auto";  ///< auto, none, or a token's content
  std::string cache;               ///< folder; empty: see cache_folder (text/corpus.hpp)
  std::string output;              ///< of `tessera data prepare`: a file instead of the cache
  OnError on_error = OnError::stop;
  /// Documents in one sample do not attend to each other, and positions restart; see has_document_mask.
  Tristate document_mask = Tristate::automatic;
  std::string begin = "auto";  ///< what stands before each document: auto, none, or a token's content
  Packing packing = Packing::stream;
  TooLong too_long = TooLong::cut;  ///< packing = documents: documents longer than a sample
  std::int64_t most_documents = 0;  ///< of a sample, for which attention keeps memory; 0: counted
  TokenBytes token_bytes = TokenBytes::automatic;
  std::string chat_template;  ///< file; empty: the template of the tokenizer's folder
  ChatTurns chat_turns = ChatTurns::all;
  ChatCounts chat_counts = ChatCounts::assistant;
  bool has_validation() const { return !val_source.empty() || val_fraction > 0.0; }
  bool operator==(const DataOptions&) const = default;
};

/// Returns whether samples hold whole documents.
constexpr bool packs_documents(const DataOptions& data) { return data.packing == Packing::documents; }
/// Returns data.document_mask once it is resolved: auto means false until the corpus is known. Packed documents are
/// always kept apart.
constexpr bool has_document_mask(const DataOptions& data) {
  return data.document_mask == Tristate::yes || packs_documents(data);
}

/// train.seq_len = fit, until memory has decided the length.
inline constexpr std::int64_t kFittingLength = -1;

/// [train]
struct TrainOptions {
  std::int64_t steps = 1000;       ///< not used when epochs or tokens > 0
  std::int64_t tokens = 0;         ///< tokens to train on, instead of steps and epochs; 0 = those decide
  double epochs = 0.0;             ///< 0 = steps decide
  std::int64_t micro_batch = 4;    ///< samples per forward and rank
  std::int64_t global_batch = 0;   ///< samples per step, over all ranks; 0 = ranks x accumulation x micro_batch
  std::int64_t accumulation = 1;   ///< not used when global_batch > 0; see accumulation_of
  std::int64_t seq_len = 0;        ///< 0 = the model's context; or kFittingLength
  std::int64_t eval_every = 100;   ///< steps; 0 = only at the end
  std::int64_t sample_every = 0;   ///< steps; 0 = no samples
  std::int64_t eval_batches = 16;  ///< validation micro-batches per evaluation, over all ranks; 0 = all
  bool operator==(const TrainOptions&) const = default;
};

/// [optim]: AdamW or Muon, and the learning rate.
struct OptimOptions {
  OptimizerName name = OptimizerName::adamw;
  StateType moments = StateType::fp32;  ///< of what the optimizer keeps besides masters
  double lr = 6e-4;
  double min_lr = 0.0;
  std::int64_t warmup_steps = 0;
  LearningRateSchedule schedule = LearningRateSchedule::cosine;
  double decay_fraction = 0.2;  ///< wsd: the last part of the steps, in which lr falls to min_lr
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double clip = 1.0;  ///< global gradient norm; 0 = off
  // Muon, of the matrices of blocks:
  double muon_momentum = 0.95;
  std::int64_t muon_steps = 5;  ///< Newton-Schulz iterations
  MuonScale muon_scale = MuonScale::match_rms_adamw;
  bool operator==(const OptimOptions&) const = default;
};

/// Whether a gathered unit stays between forward and backward, or is dropped except for a slice.
struct ReshardAfterForward {
  bool drops = true;
  std::int64_t ranks = 0;  ///< ranks over which a slice of it stays; 0: none
  bool operator==(const ReshardAfterForward&) const = default;
};

/// A part of the elements, or the least that fits (`fits`).
struct OffloadFraction {
  double value = 1.0;
  bool fits = false;
  bool operator==(const OffloadFraction&) const = default;
};

/// [shard]: src/README.md, the strategies.
struct ShardOptions {
  Strategy strategy = Strategy::zero3;
  std::int64_t group_size = 0;  ///< ranks of a shard group (hybrid strategies); 0 = the ranks of a node
  Wrap wrap = Wrap::block;
  std::int64_t min_params = 1'000'000;  ///< wrap = size
  ReshardAfterForward reshard_after_forward;
  std::int64_t prefetch_forward = 1, prefetch_backward = 1;  ///< units ahead; 0 = off
  std::int64_t limit_all_gathers = 2;                        ///< gathered units alive; 0 = no limit
  ReduceWhen reduce = ReduceWhen::by_strategy;               ///< see resolved_reduce
  Offload offload = Offload::none;
  OffloadFraction offload_fraction;
  bool operator==(const ShardOptions&) const = default;
};

/// [precision]: fp32, bf16 or fp16; master weights are always fp32.
struct PrecisionOptions {
  DType compute = DType::fp32, reduce = DType::fp32;
  MatmulPrecision matmul = MatmulPrecision::fp32;  ///< of fp32 matmuls on GPUs
  LogitsPrecision logits = LogitsPrecision::compute;
  LinearPrecision linear = LinearPrecision::compute;
  Fp8 fp8_gradients = Fp8::e5m2;
  Fp8Scale fp8_scale = Fp8Scale::current;
  std::int64_t fp8_smallest = kAutomaticCount;  ///< side of a linear that multiplies in fp8; see smallest_fp8_side
  bool operator==(const PrecisionOptions&) const = default;
};

/// Returns the smallest side of a linear that multiplies in fp8. Below 1024 rounding costs more than it saves.
constexpr std::int64_t smallest_fp8_side(const PrecisionOptions& precision) {
  return precision.fp8_smallest == kAutomaticCount ? 1024 : precision.fp8_smallest;
}

/// [lora]: low-rank adapters of a model's linears, which train instead of its weights.
struct LoraOptions {
  std::int64_t rank = 0;         ///< 0: as in `from`; without that there are no adapters
  double alpha = 0.0;            ///< 0: as in `from`, else twice the rank
  double dropout = 0.0;          ///< of what adapters read
  std::string targets = "all";   ///< modules of blocks, separated by commas, or all linears
  bool rank_stabilized = false;  ///< the factor is alpha / sqrt(rank) instead of alpha / rank
  std::string from;              ///< folder of PEFT with an adapter to begin with
  std::string base_hash;         ///< of model.from's weights: XXH3 in 16 hexadecimal digits
  bool on() const { return rank > 0 || !from.empty(); }
  bool operator==(const LoraOptions&) const = default;
};

/// [grid]
struct GridOptions {
  std::int64_t ranks_per_node = 0;  ///< 0 = as the machine says
  bool operator==(const GridOptions&) const = default;
};

/// Collectives or copies slowed on purpose; off when both are 0.
struct Emulation {
  double latency = 0.0;    ///< seconds each
  double bandwidth = 0.0;  ///< bytes per second and rank; 0 = unlimited
  bool on() const { return latency > 0.0 || bandwidth > 0.0; }
  /// Returns the least seconds of one that moves `bytes`.
  double seconds(std::int64_t bytes) const {
    return latency + (bandwidth > 0 ? static_cast<double>(bytes) / bandwidth : 0);
  }
  bool operator==(const Emulation&) const = default;
};

/// [memory]: config/recomputation.hpp reads the first three.
struct MemoryOptions {
  ActivationCheckpointing checkpoint = ActivationCheckpointing::none;
  std::string recomputed_blocks = "all";            ///< selective: "all", "1/2" or "0,2,5-8"
  std::string recomputed_halves = "attention,mlp";  ///< selective: halves of those blocks
  bool offload_activations = false;                 ///< inputs of recomputed blocks wait for backward on the host
  std::int64_t mlp_chunk = 0;                       ///< tokens; 0: an MLP takes all of a micro-batch at once
  Tristate keep_activated = Tristate::automatic;    ///< see keeps_activated
  Emulation emulate_copies;                         ///< between device and host
  bool operator==(const MemoryOptions&) const = default;
};

/// [comm]; `backend` is for ranks on GPUs.
struct CommOptions {
  CommBackend backend = CommBackend::automatic;
  Emulation emulate;
  bool operator==(const CommOptions&) const = default;
};

/// [checkpoint]
struct CheckpointOptions {
  std::int64_t every = 0;  ///< steps; 0 = none; kAutomaticCount: CheckpointClock decides
  double every_minutes = 0.0;
  double mtbf = 0.0;            ///< seconds between failures; 0 = 30 days divided by nodes
  std::int64_t keep = 3;        ///< newest ones; 0 = all
  std::int64_t keep_every = 0;  ///< steps whose multiples are always kept; 0 = none
  std::int64_t keep_best = 0;   ///< those of lowest validation loss are kept too; 0 = none
  bool async = false;
  std::string resume = "none";  ///< none, auto or a path
  std::string allow;
  std::int64_t writers_per_node = 0;
  Tristate direct = Tristate::automatic;  ///< writes past the page cache (O_DIRECT); automatic: while that is fast
  std::string keep_near = "none";         ///< none, auto or a folder
  bool tensors = true;                    ///< tensors.h5 with each checkpoint
  double timeout = 1800.0;  ///< seconds that a rank waits for a peer that reads or writes a checkpoint; 0 = no limit
  bool operator==(const CheckpointOptions&) const = default;
};

/// [metrics]
struct MetricsOptions {
  std::int64_t every = 10;      ///< steps between reports: log lines, rows of /ranks
  std::int64_t time_every = 0;  ///< steps between steps that are timed; 0 = as suits the device
  bool swmr = true;
  bool layer_norms = false;  ///< gradient norms of every layer in each report
  bool operator==(const MetricsOptions&) const = default;
};

/// [plan]
struct PlanOptions {
  std::int64_t ranks = 8;
  std::int64_t memory = 0;  ///< bytes per rank that must suffice; 0 = not checked
  std::string cluster;      ///< file with a machine's prices; empty: times are not predicted
  PlanView view = PlanView::table;
  ResultFormat format = ResultFormat::text;
  bool operator==(const PlanOptions&) const = default;
};

/// [export]
struct ExportOptions {
  bool optimizer = false;
  bool merged = false;         ///< adapters are added to the weights that they adapt
  std::optional<DType> dtype;  ///< nothing ("source"): the type of the weights that the model began from, else fp32
  std::int64_t largest_file = 5'000'000'000;
  bool operator==(const ExportOptions&) const = default;
};

/// [bench]
struct BenchOptions {
  std::int64_t steps = 10;              ///< measured repetitions
  std::int64_t warmup = 3;              ///< repetitions before them
  std::int64_t max_bytes = 64LL << 20;  ///< largest message of `bench comm`
  std::vector<std::int64_t> sizes;      ///< messages of `bench comm`, bytes; empty: powers of 4 up to max_bytes
  std::string output;                   ///< HDF5 file for the tables; empty: none
  bool operator==(const BenchOptions&) const = default;
};

/// [generate]: text that goes on with prompts.
struct GenerateOptions {
  std::string prompt;             ///< a single prompt, or
  std::string prompts;            ///< a file with a prompt in each line
  std::int64_t max_tokens = 100;  ///< of each continuation
  double temperature = 0.8;       ///< 0: always the most probable token
  std::int64_t top_k = 0;         ///< 0: off
  double top_p = 1.0;             ///< 1: off
  std::int64_t seed = 1;
  std::string stop;  ///< a string, or a JSON array of strings; empty: none
  ResultFormat format = ResultFormat::text;
  bool chat = false;  ///< a prompt is a user's turn, or a conversation
  bool operator==(const GenerateOptions&) const = default;
};

/// [eval]: `tessera eval`.
struct EvalOptions {
  std::string choices;  ///< a file of multiple choice instead of validation sets; empty: none
  ResultFormat format = ResultFormat::text;
  bool operator==(const EvalOptions&) const = default;
};

/// [sweep]: several runs from one file, which also holds their options (sweep/sweep_file.hpp).
struct SweepOptions {
  std::string name;      ///< empty: the file's name
  std::string base;      ///< INI file that every row starts from, relative to the sweep's; empty: none
  std::string baseline;  ///< the row that others are compared with; empty: the first
  std::int64_t repeat = 1;
  std::int64_t requeues = 3;
  double limit = 0.0;  ///< seconds of an attempt; 0 = none
  SweepAction action = SweepAction::print;
  std::string dir;                ///< empty: runs/NAME
  std::string launcher = "auto";  ///< auto, mpiexec, srun, or the words of a command
  std::string only;               ///< pattern of row names; empty: all
  std::string cluster;            ///< file with a machine's prices; empty: times are not predicted
  SweepOrder order = SweepOrder::file;
  std::vector<std::int64_t> ranks;  ///< replaces the rows' ranks; empty: as the file says
  bool exclusive = false;           ///< submit: one row after the other, each alone on its nodes
  std::int64_t parallel = 0;        ///< rows at a time, over all arrays; 0 = all
  std::int64_t node_ranks = 8;      ///< most ranks on a node of a Slurm job
  std::string sbatch;               ///< more options for sbatch
  bool operator==(const SweepOptions&) const = default;
};

/// Names of options ("shard.wrap"). Any two compare equal, because Options are compared by value, not by origin.
struct OptionNames : std::set<std::string, std::less<>> {
  bool operator==(const OptionNames&) const { return true; }
};

struct Options {
  RunOptions run;
  ModelOptions model;
  DataOptions data;
  TrainOptions train;
  OptimOptions optim;
  ShardOptions shard;
  PrecisionOptions precision;
  LoraOptions lora;
  MemoryOptions memory;
  GridOptions grid;
  CommOptions comm;
  CheckpointOptions checkpoint;
  MetricsOptions metrics;
  PlanOptions plan;
  ExportOptions export_;
  BenchOptions bench;
  GenerateOptions generate;
  EvalOptions eval;
  SweepOptions sweep;

  /// Names ("shard.wrap") of the options that the file or the command line set.
  OptionNames given;
  bool is_given(std::string_view name) const { return given.contains(name); }
  /// Names that only a config.ini of a run set. It names every option, so the user did not ask for these.
  OptionNames repeated;
  /// Returns whether nobody set the option: neither the user nor a run's config.ini.
  bool is_open(std::string_view name) const { return !given.contains(name) && !repeated.contains(name); }
  /// What was given of options that only earlier versions have ("shard.wrap = block"), at their defaults.
  OptionNames dropped;

  bool operator==(const Options& other) const = default;
};

/// Resolves memory.keep_activated: auto means true on GPUs and false on CPUs. (Where memory decides, with_fit_decided
/// has set it to no.)
constexpr bool keeps_activated(const Options& options) {
  const Tristate keep = options.memory.keep_activated;
  return keep == Tristate::automatic ? traits_of(device_of(options.run)).has_own_memory : keep == Tristate::yes;
}

/// Parses options from INI text (`file_name` is for messages), then from `arguments` ("--section.key=value" or two
/// words), which win. A config.ini that a run wrote names every option, so one without effect may be there at its
/// default. Checks everything that can be checked without knowing the world (validate.hpp). UsageError for unknown,
/// malformed, repeated or impossible options; it names the option, its place, the given value and the allowed ones.
Options parse_text(std::string_view ini, const std::string& file_name, const std::vector<std::string>& arguments = {});

/// The same from arguments only: parse_arguments({"--shard.strategy=zero1"}).
Options parse_arguments(const std::vector<std::string>& arguments);

/// Returns the run's folder: run.dir, or runs/NAME.
std::filesystem::path run_folder(const Options& options);

/// Writes the INI file that gives `options` again: parse_text(write_ini(x)) == x for every x that passes validation.
/// Options that the others make meaningless (group_size under ddp) become comments, because setting them would be an
/// error.
std::string write_ini(const Options& options);

/// Writes the config.ini of a run on `ranks` ranks: how to repeat it, and the options that `tessera train` reads.
std::string run_config(const Options& options, std::int64_t ranks);

}  // namespace tessera
