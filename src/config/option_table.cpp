#include "config/option_table.hpp"

#include <boost/program_options/option.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>

#include "config/option_makers.hpp"

namespace tessera {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using O = Options;
using Rows = std::vector<OptionEntry>;

void add_run(Rows& t) {
  using S = RunOptions;
  t.push_back(text_option("run.dir", Field{&O::run, &S::dir}, "folder", "where the run writes; empty: runs/NAME"));
  t.push_back(text_option("run.name", Field{&O::run, &S::name}, "text", "name of the run"));
  t.push_back(choice_option("run.device", Field{&O::run, &S::device},
                            "where the computation runs; auto: a GPU if there is one"));
  t.push_back(
      integer_option("run.seed", Field{&O::run, &S::seed}, 0, kAnyCount, "seed of the first weights and of dropout"));
  t.push_back(integer_option("run.threads", Field{&O::run, &S::threads}, 0, 4096,
                             "threads per rank; 0: allowed cores / ranks of the node"));
  t.push_back(choice_option("run.deterministic", Field{&O::run, &S::deterministic},
                            "every sum in one fixed order: the same bits under every strategy and world size where "
                            "precision.reduce = fp32; auto: true on CPUs, false on GPUs"));
  t.push_back(choice_option("run.lanes", Field{&O::run, &S::lanes},
                            "serial: one operation at a time; parallel: communication beside compute; chaos: random "
                            "delays (a test); auto: parallel where a core is free"));
  t.push_back(seconds_option("run.walltime", Field{&O::run, &S::walltime}, 0.0,
                             "stop with a checkpoint before so much time has passed since the start; 0: no limit but "
                             "that of a Slurm job"));
  t.push_back(seconds_option("run.timeout", Field{&O::run, &S::timeout}, 0.001,
                             "how long a rank waits for another before the run fails"));
  t.push_back(choice_option("run.graph", Field{&O::run, &S::graph},
                            "on GPUs: capture segments as CUDA graphs and replay them"));
  t.push_back(choice_option("run.share_gpu", Field{&O::run, &S::share_gpu}, "let several ranks compute on one GPU"));
  t.push_back(choice_option("run.attention", Field{&O::run, &S::attention},
                            "what computes attention on a GPU; auto: cuDNN where it is found and can, own kernels "
                            "elsewhere"));
  t.push_back(integer_option("run.dump", Field{&O::run, &S::dump}, 0, kAnyCount,
                             "step whose loss, gradients and updated weights go to a file, dump-STEP.h5; 0: none"));
  t.push_back(step_range_option("run.trace", Field{&O::run, &S::trace},
                                "steps a to b go to trace/steps-a-b.json, for Perfetto: when every operation ran on "
                                "every rank, beside the planned order"));
}

void add_model(Rows& t) {
  using S = ModelOptions;
  constexpr std::int64_t most = std::int64_t{1} << 31;
  t.push_back(text_option("model.preset", Field{&O::model, &S::preset},
                          "nano|gpt2-124m|gpt2-350m|gpt2-774m|gpt2-1558m|qwen2-0.5b|qwen2-1.5b|llama-1b|llama-8b",
                          "shape of the model; sizes given below replace the preset's"));
  t.push_back(text_option("model.from", Field{&O::model, &S::from}, "folder",
                          "Hugging Face folder, or a checkpoint or run, that gives shape and first weights"));
  t.push_back(text_option("model.family", Field{&O::model, &S::family}, "gpt2|qwen2|llama",
                          "instead of a preset: a family, its sizes given below"));
  t.push_back(integer_option("model.layers", Field{&O::model, &S::layers}, 0, 100000, "blocks; 0: the preset's"));
  t.push_back(integer_option("model.heads", Field{&O::model, &S::heads}, 0, 1 << 20, "query heads; 0: the preset's"));
  t.push_back(integer_option("model.kv_heads", Field{&O::model, &S::kv_heads}, 0, 1 << 20,
                             "key/value heads; 0: the preset's, or as many as heads"));
  t.push_back(integer_option("model.width", Field{&O::model, &S::width}, 0, 1 << 24,
                             "width of the residual stream; 0: the preset's"));
  t.push_back(integer_option("model.ffn_width", Field{&O::model, &S::ffn_width}, 0, 1 << 26,
                             "hidden width of the MLP; 0: the preset's, or 4 x width"));
  t.push_back(
      integer_option("model.vocab", Field{&O::model, &S::vocab}, 0, most, "size of the vocabulary; 0: the preset's"));
  t.push_back(integer_option("model.context", Field{&O::model, &S::context}, 0, most,
                             "longest sequence, in tokens; 0: the preset's"));
  t.push_back(number_option("model.dropout", Field{&O::model, &S::dropout}, {0.0, 1.0, false, true},
                            "probability with which an activation is dropped; 0: off"));
}

void add_data(Rows& t) {
  using S = DataOptions;
  t.push_back(text_option("data.source", Field{&O::data, &S::source},
                          "synthetic, or files, folders and globs of .txt, .json and .jsonl (also .gz and .zst), or "
                          "of .bin, with commas between",
                          "the corpus to train on: text, or tokens"));
  t.push_back(text_option("data.val_source", Field{&O::data, &S::val_source},
                          "files, folders and globs as for data.source, or NAME:PATH,NAME:PATH",
                          "what is evaluated instead of data.val_fraction: a corpus, or several with names; empty: "
                          "none"));
  t.push_back(text_option("data.tokenizer", Field{&O::data, &S::tokenizer},
                          "bytes, a folder or a file (tokenizer.json; vocab.json with merges.txt)",
                          "what turns text into tokens; empty: the tokenizer of model.from, bytes without one"));
  t.push_back(text_option("data.text_key", Field{&O::data, &S::text_key}, "text",
                          "key of a document's text in .json and .jsonl"));
  t.push_back(text_option("data.separator", Field{&O::data, &S::separator}, "auto|none|TOKEN",
                          "token after each document, by its content; auto: the tokenizer's end of text, none for "
                          "bytes"));
  t.push_back(choice_option("data.on_error", Field{&O::data, &S::on_error},
                            "text that cannot be read as it stands: stop, or skip: bad lines are left out, bytes "
                            "of .txt that are not UTF-8 become U+FFFD, both counted"));
  t.push_back(text_option("data.cache", Field{&O::data, &S::cache}, "folder",
                          "where prepared text is kept; empty: $TESSERA_CACHE, else cache beside the run folders"));
  t.push_back(text_option("data.output", Field{&O::data, &S::output}, "file",
                          "tessera data prepare: write the tokens there, and their documents to FILE.idx, instead of "
                          "the cache; empty: the cache"));
  t.push_back(integer_option("data.synthetic_tokens", Field{&O::data, &S::synthetic_tokens}, 2, kAnyCount,
                             "tokens in the synthetic corpus"));
  t.push_back(choice_option("data.document_mask", Field{&O::data, &S::document_mask},
                            "true: documents of one sample do not attend to each other and their positions begin at 0; "
                            "needs an index of documents (text, or .bin with .bin.idx)"));
  t.push_back(choice_option("data.order", Field{&O::data, &S::order}, "order of samples within an epoch"));
  t.push_back(number_option("data.val_fraction", Field{&O::data, &S::val_fraction}, {0.0, 1.0, false, true},
                            "last part of the corpus, kept for evaluation; 0: no evaluation"));
  t.push_back(integer_option("data.seed", Field{&O::data, &S::seed}, 0, kAnyCount,
                             "seed of the sample order and of synthetic text"));
}

void add_train(Rows& t) {
  using S = TrainOptions;
  t.push_back(integer_option("train.steps", Field{&O::train, &S::steps}, 1, kAnyCount, "optimizer steps"));
  t.push_back(number_option(
      "train.epochs", Field{&O::train, &S::epochs}, {0.0, 1e9},
      "passes over the corpus, instead of train.steps; 0: train.steps decides; with model.from 1 by default"));
  t.push_back(integer_option("train.micro_batch", Field{&O::train, &S::micro_batch}, 1, 1 << 20,
                             "samples (sequences of seq_len tokens) per rank in one forward and backward"));
  t.push_back(integer_option("train.global_batch", Field{&O::train, &S::global_batch}, 0, kAnyCount,
                             "samples per optimizer step over all ranks, instead of train.accumulation; 0: ranks x "
                             "accumulation x micro_batch"));
  t.push_back(integer_option("train.accumulation", Field{&O::train, &S::accumulation}, 1, 1 << 20,
                             "micro-batches per rank and optimizer step"));
  t.push_back(
      integer_option("train.seq_len", Field{&O::train, &S::seq_len}, 0, std::int64_t{1} << 31,
                     "tokens per sample; 0: the model's context; with model.from at most 1024 of it by default"));
  t.push_back(integer_option("train.eval_every", Field{&O::train, &S::eval_every}, 0, kAnyCount,
                             "steps between evaluations; 0: only at the end"));
  t.push_back(integer_option("train.eval_batches", Field{&O::train, &S::eval_batches}, 0, kAnyCount,
                             "micro-batches per evaluation, over all ranks; 0: all"));
  t.push_back(integer_option("train.sample_every", Field{&O::train, &S::sample_every}, 0, kAnyCount,
                             "steps between samples of what the model writes, from before step 1 on, by the options of "
                             "[generate]; 0: none"));
}

void add_optim(Rows& t) {
  using S = OptimOptions;
  t.push_back(number_option("optim.lr", Field{&O::optim, &S::lr}, {0.0, 1e6},
                            "learning rate after the warm-up, the highest; with model.from 2e-05 by default"));
  t.push_back(number_option("optim.min_lr", Field{&O::optim, &S::min_lr}, {0.0, 1e6},
                            "learning rate that the schedule falls to: it would be reached one step after the last"));
  t.push_back(integer_option(
      "optim.warmup_steps", Field{&O::optim, &S::warmup_steps}, 0, kAnyCount,
      "first steps, in which the learning rate rises linearly; with model.from 3% of the steps by default"));
  t.push_back(choice_option("optim.schedule", Field{&O::optim, &S::schedule},
                            "course of the learning rate after the warm-up (wsd: constant, then falling to the end)"));
  t.push_back(number_option("optim.decay_fraction", Field{&O::optim, &S::decay_fraction}, {0.0, 1.0},
                            "schedule = wsd: last part of the steps, in which the learning rate falls"));
  t.push_back(number_option("optim.beta1", Field{&O::optim, &S::beta1}, {0.0, 1.0, false, true},
                            "AdamW: decay of the running mean of gradients"));
  t.push_back(number_option("optim.beta2", Field{&O::optim, &S::beta2}, {0.0, 1.0, false, true},
                            "AdamW: decay of the running mean of squared gradients"));
  t.push_back(number_option("optim.eps", Field{&O::optim, &S::eps}, {0.0, 1.0, true, false},
                            "AdamW: added to the square root of the mean square"));
  t.push_back(number_option("optim.weight_decay", Field{&O::optim, &S::weight_decay}, {0.0, 1e6},
                            "AdamW: decoupled weight decay, of tensors with two or more dimensions"));
  t.push_back(number_option("optim.clip", Field{&O::optim, &S::clip}, {0.0, kInfinity},
                            "largest norm of the full gradient, which is scaled down to it; 0: no clipping"));
}

/// "ddp nothing, zero1 optimizer state, ...".
std::string what_strategies_split() {
  std::string text;
  for (const StrategyRules& rules : all_strategies()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", rules.name, rules.splits);
  }
  return text;
}

void add_shard(Rows& t) {
  using S = ShardOptions;
  t.push_back(choice_option("shard.strategy", Field{&O::shard, &S::strategy},
                            "what is split over ranks: " + what_strategies_split()));
  t.push_back(integer_option("shard.group_size", Field{&O::shard, &S::group_size}, 0, 1 << 24,
                             "ranks of a shard group (" + names_of_hybrids() + "); 0: the ranks of a node"));
  t.push_back(
      choice_option("shard.wrap", Field{&O::shard, &S::wrap},
                    "what is gathered together: a block, neighbouring parts up to min_params, or the whole model"));
  t.push_back(integer_option("shard.min_params", Field{&O::shard, &S::min_params}, 1, kAnyCount,
                             "wrap = size: neighbouring parts are joined until they have so many parameters"));
  t.push_back(integer_option("shard.persistence_threshold", Field{&O::shard, &S::persistence_threshold}, 0, kAnyCount,
                             "tensors of fewer elements stay full: gathered once a step, after their update; 0: none"));
  t.push_back(reshard_option("shard.reshard_after_forward", Field{&O::shard, &S::reshard_after_forward},
                             "drop gathered parameters after forward and gather them again for backward; N: but for "
                             "1/N, which stays on each of N ranks of a node, a gathered unit in the account"));
  t.push_back(integer_option("shard.prefetch_forward", Field{&O::shard, &S::prefetch_forward}, 0, 1 << 20,
                             "units gathered ahead of their use in forward; 0: off"));
  t.push_back(integer_option("shard.prefetch_backward", Field{&O::shard, &S::prefetch_backward}, 0, 1 << 20,
                             "units gathered ahead of their use in backward; 0: off"));
  t.push_back(integer_option("shard.limit_all_gathers", Field{&O::shard, &S::limit_all_gathers}, 0, 1 << 20,
                             "block units that may be gathered at a time; 0: no limit"));
  t.push_back(choice_option(
      "shard.reduce", Field{&O::shard, &S::reduce},
      "sum gradients over ranks after each micro-batch, or once a step; auto: micro_step where they are sharded"));
  t.push_back(
      choice_option("shard.tied_reduce", Field{&O::shard, &S::tied_reduce},
                    "a table used by embedding and head: its gradient is summed over the ranks once, or once per use"));
  t.push_back(choice_option("shard.offload", Field{&O::shard, &S::offload},
                            "what rests in the host's memory. optimizer: fp32 masters and moments, which the host's "
                            "AdamW updates. params: the parameters too, which are loaded before each gather"));
  t.push_back(fraction_option("shard.offload_fraction", Field{&O::shard, &S::offload_fraction},
                              "part of the parameters whose state is offloaded, unit by unit, the last ones first; "
                              "fit: the least that fits plan.memory"));
}

void add_resources(Rows& t) {
  t.push_back(choice_option("precision.compute", Field{&O::precision, &PrecisionOptions::compute},
                            "type of gathered parameters and activations"));
  t.push_back(choice_option("precision.reduce", Field{&O::precision, &PrecisionOptions::reduce},
                            "type in which gradients are computed and sent"));
  t.push_back(choice_option("precision.matmul", Field{&O::precision, &PrecisionOptions::matmul},
                            "on GPUs, precision.compute = fp32: full fp32, or TF32 on tensor cores"));
  t.push_back(choice_option("memory.checkpoint", Field{&O::memory, &MemoryOptions::checkpoint},
                            "activations that are dropped after forward and computed again in backward: of all blocks, "
                            "of some, or of the fewest with which the run fits plan.memory (train: or its device)"));
  t.push_back(text_option("memory.checkpoint_blocks", Field{&O::memory, &MemoryOptions::recomputed_blocks},
                          "all|M/N|LIST",
                          "memory.checkpoint = selective: all blocks, M of every N, or a list such as 0,2,5-8"));
  t.push_back(text_option("memory.checkpoint_parts", Field{&O::memory, &MemoryOptions::recomputed_halves},
                          "attention|mlp|attention,mlp", "memory.checkpoint = selective: halves of those blocks"));
  t.push_back(choice_option("memory.offload_activations", Field{&O::memory, &MemoryOptions::offload_activations},
                            "inputs of recomputed blocks go to the host's memory in forward, and come back ahead of "
                            "their use in backward"));
  t.push_back(choice_option("memory.keep_activated", Field{&O::memory, &MemoryOptions::keep_activated},
                            "outputs of GELU and SwiGLU are kept for backward instead of made again; auto: on GPUs, in "
                            "runs that are not deterministic only where they fit"));
  t.push_back(emulation_option("memory.emulate_copies", Field{&O::memory, &MemoryOptions::emulate_copies},
                               "on CPUs: slow every copy of what is offloaded between device and host down to "
                               "this latency and bandwidth (bandwidth 0: unlimited)"));
  t.push_back(integer_option("grid.ranks_per_node", Field{&O::grid, &GridOptions::ranks_per_node}, 0, 1 << 20,
                             "take so many ranks for a node; 0: as the machine is (plan: at most 8)"));
  using C = CommOptions;
  t.push_back(choice_option("comm.backend", Field{&O::comm, &C::backend},
                            "how ranks on GPUs talk: NCCL, or staged through host memory; auto: NCCL"));
  t.push_back(choice_option("comm.register_buffers", Field{&O::comm, &C::register_buffers},
                            "NCCL: register the buffers of collectives, which then copy less"));
  t.push_back(
      choice_option("comm.symmetric", Field{&O::comm, &C::symmetric},
                    "NCCL 2.28: buffers of collectives in symmetric windows (sums then round differently; known "
                    "faults before 2.31)"));
  t.push_back(
      choice_option("comm.copy_engine_gather", Field{&O::comm, &C::copy_engine_gather},
                    "NCCL 2.28, with comm.symmetric: gather by copy engines instead of kernels, within a node"));
  t.push_back(integer_option("comm.min_ctas", Field{&O::comm, &C::min_ctas}, 0, 64,
                             "NCCL: least thread blocks of a collective; 0: NCCL decides"));
  t.push_back(integer_option("comm.max_ctas", Field{&O::comm, &C::max_ctas}, 0, 64,
                             "NCCL: most thread blocks of a collective; 0: NCCL decides"));
  t.push_back(emulation_option("comm.emulate", Field{&O::comm, &C::emulate},
                               "slow every collective down to this latency and bandwidth (bandwidth 0: unlimited)"));
}

void add_files(Rows& t) {
  using C = CheckpointOptions;
  t.push_back(integer_option("checkpoint.every", Field{&O::checkpoint, &C::every}, 0, kAnyCount,
                             "steps between checkpoints, the last step has one too; 0: none but at an early stop"));
  t.push_back(
      number_option("checkpoint.every_minutes", Field{&O::checkpoint, &C::every_minutes}, {0.0, 1e9},
                    "minutes between checkpoints; 0: checkpoint.every decides alone; with model.from 30 by default"));
  t.push_back(integer_option("checkpoint.keep", Field{&O::checkpoint, &C::keep}, 0, kAnyCount,
                             "newest checkpoints that are kept; 0: all"));
  t.push_back(integer_option("checkpoint.keep_every", Field{&O::checkpoint, &C::keep_every}, 0, kAnyCount,
                             "checkpoints of steps that are multiples of this are kept as well; 0: none"));
  t.push_back(integer_option("checkpoint.keep_best", Field{&O::checkpoint, &C::keep_best}, 0, kAnyCount,
                             "checkpoints of the lowest validation loss are kept as well, so many: of the first set, "
                             "evaluated after the checkpoint's own step; 0: none"));
  t.push_back(integer_option("checkpoint.keep_every_weights", Field{&O::checkpoint, &C::keep_every_weights}, 0,
                             kAnyCount,
                             "of checkpoints of steps that are multiples of this, the weights alone are kept, as "
                             "step-N.weights; 0: none"));
  t.push_back(choice_option("checkpoint.async", Field{&O::checkpoint, &C::async},
                            "write while the next steps run, from a copy of the state in host memory"));
  t.push_back(text_option("checkpoint.resume", Field{&O::checkpoint, &C::resume}, "none|auto|PATH",
                          "go on from a checkpoint: auto: the newest complete one in the run's folder, if there is "
                          "one; PATH: a checkpoint or a run's folder"));
  t.push_back(text_option(
      "checkpoint.allow", Field{&O::checkpoint, &C::allow}, "list of data, seq_len, global_batch, seed, order",
      "what may differ from the checkpoint although samples then are not what they would have been"));
  t.push_back(integer_option("checkpoint.writers_per_node", Field{&O::checkpoint, &C::writers_per_node}, 0, 1 << 20,
                             "ranks of a node that write files, for the others too; 0: all"));
  t.push_back(choice_option("checkpoint.direct", Field{&O::checkpoint, &C::direct},
                            "write past the page cache (O_DIRECT); auto: where the file system can and the first "
                            "blocks are not slow"));
  t.push_back(choice_option("checkpoint.tensors", Field{&O::checkpoint, &C::tensors},
                            "write tensors.h5, which shows whole tensors to HDF5 readers, with each checkpoint; false: "
                            "tessera index makes it when it is wanted"));
  t.push_back(seconds_option("checkpoint.timeout", Field{&O::checkpoint, &C::timeout}, 0.0,
                             "how long a rank waits for another that reads or writes a checkpoint, before the run "
                             "fails; 0: for ever"));
  t.push_back(integer_option("metrics.every", Field{&O::metrics, &MetricsOptions::every}, 1, kAnyCount,
                             "steps between log lines and rows of every rank (/steps has every step)"));
  t.push_back(integer_option("metrics.time_every", Field{&O::metrics, &MetricsOptions::time_every}, 0, kAnyCount,
                             "steps between steps whose operations are timed one by one, at least 10 in a run; 0: "
                             "every step on CPUs, every 50th on GPUs, where others are replayed as graphs"));
  t.push_back(choice_option("metrics.swmr", Field{&O::metrics, &MetricsOptions::swmr},
                            "metrics.h5 is readable while the run goes on; turn off on NFS"));
  t.push_back(choice_option("metrics.tensorboard", Field{&O::metrics, &MetricsOptions::tensorboard},
                            "write the scalars of /steps and /eval to event files for TensorBoard as well"));
  t.push_back(choice_option("metrics.layer_norms", Field{&O::metrics, &MetricsOptions::layer_norms},
                            "record the gradient norm of every unit in each report, in /layers/grad_norm"));
}

void add_commands(Rows& t) {
  t.push_back(integer_option("plan.ranks", Field{&O::plan, &PlanOptions::ranks}, 1, 1 << 24, "world size to plan for"));
  t.push_back(bytes_option("plan.memory", Field{&O::plan, &PlanOptions::memory},
                           "memory of a rank's device: if the plan needs more, fail and say what would fit; "
                           "shard.offload_fraction = fit offloads until it fits; 0: not checked (train: what the "
                           "device has)"));
  t.push_back(
      choice_option("plan.view", Field{&O::plan, &PlanOptions::view},
                    "table: all strategies side by side; schedule: every operation; units: what is gathered together"));
  t.push_back(choice_option("plan.format", Field{&O::plan, &PlanOptions::format},
                            "json: one document with every view, numbers in bytes (postprocess/README.md)"));
  t.push_back(choice_option("export.optimizer", Field{&O::export_, &ExportOptions::optimizer},
                            "write state.h5 as well: full parameters, both moments and the optimizer's scalars"));
  t.push_back(choice_option("export.dtype", Field{&O::export_, &ExportOptions::dtype}, "type of exported weights"));
  t.push_back(bytes_option("export.largest_file", Field{&O::export_, &ExportOptions::largest_file},
                           "weights are divided into files of at most so many bytes; 0: one file"));
  t.push_back(integer_option("bench.steps", Field{&O::bench, &BenchOptions::steps}, 1, kAnyCount,
                             "steps or repetitions that are measured"));
  t.push_back(integer_option("bench.warmup", Field{&O::bench, &BenchOptions::warmup}, 0, kAnyCount,
                             "steps or repetitions before those, not measured"));
  t.push_back(bytes_option("bench.max_bytes", Field{&O::bench, &BenchOptions::max_bytes},
                           "bench comm: largest message, bytes of the full buffer as nccl-tests count"));
  t.push_back(byte_list_option("bench.sizes", Field{&O::bench, &BenchOptions::sizes},
                               "bench comm: its messages; empty: 1 KiB, 4 KiB, ... up to bench.max_bytes"));
  t.push_back(text_option("bench.output", Field{&O::bench, &BenchOptions::output}, "file",
                          "bench comm, step, kernels, memory: HDF5 file for the tables, which must not exist; empty: "
                          "none"));
}

void add_generate(Rows& t) {
  using S = GenerateOptions;
  t.push_back(text_option("generate.prompt", Field{&O::generate, &S::prompt}, "text", "the text to go on with"));
  t.push_back(text_option(
      "generate.prompts", Field{&O::generate, &S::prompts}, "file",
      "instead of generate.prompt: a file with a prompt in each line (.jsonl: a JSON text, or an object with prompt), "
      "train.micro_batch of them at a time on a rank"));
  t.push_back(integer_option("generate.max_tokens", Field{&O::generate, &S::max_tokens}, 1, std::int64_t{1} << 31,
                             "longest continuation, in tokens; with its prompt within the model's context"));
  t.push_back(number_option("generate.temperature", Field{&O::generate, &S::temperature}, {0.0, 1000.0},
                            "logits are divided by it; 0: always the most probable token"));
  t.push_back(integer_option("generate.top_k", Field{&O::generate, &S::top_k}, 0, std::int64_t{1} << 31,
                             "draw from the so many most probable tokens only; 0: from all"));
  t.push_back(number_option("generate.top_p", Field{&O::generate, &S::top_p}, {0.0, 1.0, true, false},
                            "draw from the most probable tokens only that reach this probability together"));
  t.push_back(integer_option("generate.seed", Field{&O::generate, &S::seed}, 0, kAnyCount,
                             "seed of the draws: a token depends on it, the prompt's number and its own position"));
  t.push_back(text_option("generate.stop", Field{&O::generate, &S::stop}, "text, or a JSON array of texts",
                          "a text that ends a continuation, and is not part of it; empty: none"));
  t.push_back(choice_option("generate.format", Field{&O::generate, &S::format},
                            "json: an object a line with prompt, text, tokens, finish_reason and seconds"));
}

void add_eval(Rows& t) {
  using S = EvalOptions;
  t.push_back(text_option("eval.choices", Field{&O::eval, &S::choices}, ".jsonl file",
                          "instead of a validation set: questions of multiple choice, an object with context, endings "
                          "and label a line; empty: none"));
  t.push_back(choice_option("eval.format", Field{&O::eval, &S::format}, "json: an object a line for each set"));
}

void add_sweep(Rows& t) {
  using S = SweepOptions;
  t.push_back(text_option("sweep.name", Field{&O::sweep, &S::name}, "text", "name of the sweep; empty: the file's"));
  t.push_back(text_option("sweep.base", Field{&O::sweep, &S::base}, "INI file",
                          "options that every row starts from; a path relative to the sweep's file"));
  t.push_back(text_option("sweep.baseline", Field{&O::sweep, &S::baseline}, "row",
                          "row that the others are compared with; empty: the first"));
  t.push_back(integer_option("sweep.repeat", Field{&O::sweep, &S::repeat}, 1, 1000,
                             "runs of each row, in turns; the report takes medians"));
  t.push_back(integer_option("sweep.requeues", Field{&O::sweep, &S::requeues}, 0, 1000,
                             "how often Slurm starts a row again that its limit stopped"));
  t.push_back(seconds_option("sweep.limit", Field{&O::sweep, &S::limit}, 0.0,
                             "longest time of an attempt at a row; 0: none (Slurm: the partition's)"));
  t.push_back(choice_option("sweep.action", Field{&O::sweep, &S::action},
                            "print: what would run; run: one row after the other, here; submit: over Slurm; status; "
                            "retry: rows that failed; row: within a job of submit"));
  t.push_back(text_option("sweep.dir", Field{&O::sweep, &S::dir}, "folder", "a folder per row; empty: runs/NAME"));
  t.push_back(text_option("sweep.launcher", Field{&O::sweep, &S::launcher}, "auto|mpiexec|srun, or words of a command",
                          "what starts a row's ranks, {ranks} their number; auto: srun in a Slurm job, else mpiexec"));
  t.push_back(text_option("sweep.only", Field{&O::sweep, &S::only}, "pattern, as of file names",
                          "only rows with such a name; empty: all"));
  t.push_back(count_list_option("sweep.ranks", Field{&O::sweep, &S::ranks},
                                "numbers of ranks for every row, instead of the file's; empty: the file's"));
  t.push_back(choice_option("sweep.exclusive", Field{&O::sweep, &S::exclusive},
                            "submit: rows run one after the other, each alone on its nodes"));
  t.push_back(integer_option("sweep.parallel", Field{&O::sweep, &S::parallel}, 0, 100000,
                             "submit: rows that run at a time, over all arrays; 0: as many as Slurm starts"));
  t.push_back(
      integer_option("sweep.node_ranks", Field{&O::sweep, &S::node_ranks}, 1, 1 << 20, "submit: most ranks on a node"));
  t.push_back(text_option("sweep.sbatch", Field{&O::sweep, &S::sbatch}, "words", "submit: more options for sbatch"));
}

Rows make_table() {
  Rows rows;
  for (const auto add : {add_run, add_model, add_data, add_train, add_optim, add_shard, add_resources, add_files,
                         add_commands, add_generate, add_eval, add_sweep}) {
    add(rows);
  }
  return rows;
}

}  // namespace

const std::vector<OptionEntry>& option_table() {
  static const Rows table = make_table();
  return table;
}

const boost::program_options::options_description& option_description() {
  static const auto description = [] {
    boost::program_options::options_description all;
    for (const auto& row : option_table()) all.add_options()(row.name.c_str(), row.reader(), row.help.c_str());
    return all;
  }();
  return description;
}

const OptionEntry* find_option(std::string_view name) {
  for (const auto& row : option_table()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

bool set_option(const OptionEntry& row, const std::string& text, Options& options) try {
  namespace po = boost::program_options;
  // Of this row alone: Boost looks at every row of a description for each value that it stores.
  po::options_description alone;
  alone.add_options()(row.name.c_str(), row.reader(), "");
  po::parsed_options one(&alone);
  one.options.emplace_back(row.name, std::vector{text});
  po::variables_map values;
  po::store(one, values);
  return row.take(options, values[row.name]);
} catch (const boost::program_options::validation_error&) {
  return false;
}

std::string_view section_title(std::string_view section) {
  static constexpr std::pair<std::string_view, std::string_view> titles[] = {
      {"run", "where, on what, and how long"},
      {"model", "what is trained"},
      {"data", "what it is trained on"},
      {"train", "steps and batches"},
      {"optim", "AdamW and the learning rate"},
      {"shard", "what is split over the ranks, and when it is gathered"},
      {"precision", "fp32, bf16 or fp16 (master weights and moments are fp32)"},
      {"memory", "memory against time"},
      {"grid", "nodes and ranks"},
      {"comm", "collectives"},
      {"checkpoint", "saving and resuming"},
      {"metrics", "what a run records"},
      {"plan", "tessera plan"},
      {"export", "tessera export"},
      {"bench", "tessera bench"},
      {"generate", "tessera generate"},
      {"eval", "tessera eval"},
      {"sweep", "tessera sweep: FILE.ini may also have [sweep.vary] and [sweep.row NAME]"}};
  for (const auto& [name, title] : titles) {
    if (name == section) return title;
  }
  return {};
}

}  // namespace tessera
