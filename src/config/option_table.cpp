#include "config/option_table.hpp"

#include "config/option_makers.hpp"
#include "tessera/base/format.hpp"
#include "tessera/config/removed_options.hpp"

namespace tessera {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using O = Options;
using Rows = std::vector<OptionEntry>;

/// Commands that train.
constexpr Readers kTraining = Readers::train | Readers::bench | Readers::sweep;
/// Commands that use a model without training it.
constexpr Readers kUsing = Readers::generate | Readers::eval;
constexpr Readers kPlan = Readers::plan, kEval = Readers::eval, kData = Readers::data;

void add_run(Rows& rows) {
  const Section run(rows, &O::run, kTraining);
  using S = RunOptions;
  run.text("run.dir", &S::dir, "folder", "where the run writes; empty: runs/NAME").also_by(kData);
  run.text("run.name", &S::name, "text", "name of the run").also_by(kData);
  run.choice("run.device", &S::device, "where the computation runs; auto: a GPU if there is one")
      .also_by(kPlan | kUsing);
  run.integer("run.seed", &S::seed, 0, kAnyCount, "seed of the first weights and of dropout");
  run.integer("run.threads", &S::threads, 0, 4096, "threads per rank; 0: allowed cores / ranks of the node")
      .also_by(kUsing | kData);
  run.choice("run.deterministic", &S::deterministic,
             "every sum in one fixed order: the same bits under every strategy and world size where precision.reduce = "
             "fp32; auto: true on CPUs, false on GPUs")
      .also_by(kPlan | kUsing);
  run.choice("run.queues", &S::queues,
             "serial: one operation at a time; parallel: communication during compute; chaos: random delays (a test); "
             "auto: parallel where a core is free")
      .also_by(kUsing);
  run.seconds(
      "run.walltime", &S::walltime, 0.0,
      "stop with a checkpoint before so much time has passed since the start; 0: no limit but that of a Slurm job");
  run.seconds("run.timeout", &S::timeout, 0.001, "how long a rank waits for another before the run fails")
      .also_by(kUsing);
  run.choice("run.graph", &S::graph, "on GPUs: capture segments as CUDA graphs and replay them").also_by(kUsing);
  run.choice("run.share_gpu", &S::share_gpu, "let several ranks compute on one GPU").also_by(kUsing);
  run.choice("run.attention", &S::attention,
             "what computes attention on a GPU; auto: cuDNN where it is found and can, own kernels elsewhere")
      .also_by(kEval);
  run.text("run.algorithms", &S::algorithms, "file or auto",
           "on GPUs: run matmuls with this file's algorithms, in every run, strategy and world the same; bench kernels "
           "times them and writes the file if it is not there; auto: the run does so at its first start, and keeps "
           "RUN/algorithms.txt");
  run.text("run.algorithms_hash", &S::algorithms_hash, "16 hexadecimal digits",
           "the hash that the file of run.algorithms must have; config.ini and checkpoints say it");
  run.integer("run.dump", &S::dump, 0, kAnyCount,
              "step whose loss, gradients and updated weights go to a file, dump-STEP.h5; 0: none");
  run.choice(
         "run.on_bad_step", &S::on_bad_step,
         "a step whose loss or gradient norm is infinite or not a number ends the run, or is skipped: weights stay, "
         "and the run goes on with the next samples")
      .only_by(Readers::train | Readers::sweep);
  run.choice("run.locate_nan", &S::locate_nan,
             "play such a step again, and name the rank, the samples and the part of the model where the first such "
             "number appears")
      .only_by(Readers::train | Readers::sweep);
  run.integer("run.check_every", &S::check_every, 0, kAnyCount,
              "updates keep checksums of weights and optimizer state, and every so many steps, and before checkpoints, "
              "memory and replicas are compared with them, to find bits that flipped; 0: none")
      .also_by(kPlan);
  run.integer("run.replay_every", &S::replay_every, 0, kAnyCount,
              "every so many steps two ranks play each micro-batch of the first micro-step, and their results are "
              "compared, to find a processor that computes wrongly; needs run.check_every and run.deterministic; 0: "
              "never")
      .also_by(kPlan);
  run.value<read_step_range>(
         "run.trace", &S::trace, "none, or a:b, steps from 1 such as 10:12", step_range_text,
         "steps a to b go to trace/steps-a-b.json, for Perfetto: when every operation ran on every rank, "
         "next to the planned order")
      .only_by(Readers::train | Readers::sweep);
}

void add_model(Rows& rows) {
  const Section model(rows, &O::model, kTraining | kPlan);
  using S = ModelOptions;
  model.text("model.preset", &S::preset,
             "nano|gpt2-124m|gpt2-350m|gpt2-774m|gpt2-1558m|qwen2-0.5b|qwen2-1.5b|llama-1b|llama-8b|"
             "qwen3-0.6b|qwen3-1.7b|qwen3-4b|qwen3-8b|mistral-7b|"
             "gemma3-270m|gemma3-1b",
             "shape of the model; sizes given below replace the preset's");
  model
      .text("model.from", &S::from, "folder",
            "Hugging Face folder, or a checkpoint or run, that gives shape and first weights")
      .also_by(kData);
  model.text("model.family", &S::family, "gpt2|qwen2|llama|qwen3|mistral|gemma3",
             "instead of a preset: a family, its sizes given below");
  for (const ModelSize& size : kModelSizes) {
    const std::string rule = size.rule == nullptr ? "" : fmt::format(", or {}", size.rule);
    model.integer(fmt::format("model.{}", size.option), size.field, 0, size.largest,
                  fmt::format("{}; 0: the preset's{}", size.help, rule));
  }
  model.number("model.dropout", &S::dropout, {0.0, 1.0, false, true},
               "probability with which an activation is dropped; 0: off");
}

void add_data(Rows& rows) {
  const Section data(rows, &O::data, kTraining);
  using S = DataOptions;
  data.text("data.source", &S::source,
            "synthetic, or files, folders and globs of .txt, .json, .jsonl (also .gz and .zst) and .parquet, or of "
            ".bin, with commas between, or NAME:WEIGHT:PATH,NAME:WEIGHT:PATH",
            "the corpus to train on: text, or tokens, or a mixture of sources that are drawn by weights")
      .also_by(kEval | kData);
  data.text("data.val_source", &S::val_source, "files, folders and globs as for data.source, or NAME:PATH,NAME:PATH",
            "what is evaluated instead of data.val_fraction: a corpus, or several with names; empty: none")
      .also_by(kPlan | kEval | kData);
  data.text("data.tokenizer", &S::tokenizer, "bytes, a folder or a file (tokenizer.json; vocab.json with merges.txt)",
            "what turns text into tokens; empty: the tokenizer of model.from, bytes without one")
      .also_by(kUsing | kData);
  data.text("data.text_key", &S::text_key, "text", "key of a document's text in .json and .jsonl")
      .also_by(kEval | kData);
  data.text("data.chat_template", &S::chat_template, "file",
            "Jinja that makes text of a conversation (messages in .json and .jsonl); empty: the one in the "
            "tokenizer's folder")
      .also_by(kEval | kData | Readers::generate);
  data.choice("data.chat_turns", &S::chat_turns,
              "turns of a conversation that count: all, or only the last, for templates that render earlier turns "
              "differently")
      .also_by(kEval | kData);
  data.choice("data.chat_counts", &S::chat_counts,
              "what the loss counts of a conversation: the assistant's turns, or all tokens")
      .also_by(kEval | kData);
  data.text("data.separator", &S::separator, "auto|none|TOKEN",
            "token after each document, by its content; auto: the tokenizer's end of text, none for bytes")
      .also_by(kEval | kData);
  data.text("data.begin", &S::begin, "auto|none|TOKEN",
            "token before each document and prompt, by its content; auto: what the tokenizer's template puts there")
      .also_by(kUsing | kData);
  data.choice("data.on_error", &S::on_error,
              "text that cannot be read as it stands: stop, or skip: bad lines are left out, bytes of .txt that are "
              "not UTF-8 become U+FFFD, both counted")
      .also_by(kEval | kData);
  data.text("data.cache", &S::cache, "folder",
            "where prepared text is kept; empty: $TESSERA_CACHE, else cache next to the run folders")
      .also_by(kEval | kData);
  data.text("data.output", &S::output, "file",
            "tessera data prepare: write the tokens there, and their documents to FILE.idx, instead of the cache; "
            "empty: the cache")
      .only_by(kData);
  data.choice("data.token_bytes", &S::token_bytes,
              "bytes of a number in .bin files without a header; auto: 2, but a file whose numbers seem to be wider is "
              "refused")
      .also_by(kEval | kData);
  data.integer("data.synthetic_tokens", &S::synthetic_tokens, 2, kAnyCount, "tokens in the synthetic corpus")
      .also_by(kEval);
  data.choice("data.document_mask", &S::document_mask,
              "true: documents of one sample do not attend to each other and their positions begin at 0; needs an "
              "index of documents (text, or .bin with .bin.idx); auto: true where the corpus has prompts or "
              "conversations")
      .also_by(kPlan | kEval);
  data.choice("data.packing", &S::packing,
              "stream: samples are stretches of the corpus; documents: they hold whole documents, which do not attend "
              "to each other, and padding; needs an index of documents")
      .also_by(kPlan | kEval);
  data.choice("data.too_long", &S::too_long,
              "data.packing = documents: what becomes of a document longer than a sample")
      .also_by(kEval);
  data.integer(
          "data.most_documents", &S::most_documents, 0, kAnyCount,
          "largest number of documents in one sample, for which cuDNN's attention reserves memory. Training raises it "
          "to what it counts in the data; tessera plan reads no data, and assumes one document per 128 tokens if it is "
          "0")
      .also_by(kPlan | kEval);
  data.choice("data.order", &S::order, "order of samples within an epoch");
  data.number("data.val_fraction", &S::val_fraction, {0.0, 1.0, false, true},
              "last part of the corpus, kept for evaluation; 0: no evaluation")
      .also_by(kPlan | kEval);
  data.integer("data.seed", &S::seed, 0, kAnyCount, "seed of the sample order and of synthetic text").also_by(kEval);
}

void add_train(Rows& rows) {
  const Section train(rows, &O::train, kTraining);
  using S = TrainOptions;
  train.integer("train.steps", &S::steps, 1, kAnyCount, "optimizer steps").also_by(kPlan);
  train
      .integer(
          "train.tokens", &S::tokens, 0, kAnyCount,
          "tokens to train on, instead of train.steps and train.epochs, rounded up to whole steps; 0: those decide")
      .also_by(kPlan);
  train.number("train.epochs", &S::epochs, {0.0, 1e9},
               "passes over the corpus, instead of train.steps; 0: train.steps decides; with model.from 1 by default");
  train
      .integer("train.micro_batch", &S::micro_batch, 1, 1 << 20,
               "samples (sequences of seq_len tokens) per rank in one forward and backward")
      .also_by(kPlan | kUsing);
  train
      .integer("train.global_batch", &S::global_batch, 0, kAnyCount,
               "samples per optimizer step over all ranks, instead of train.accumulation; 0: ranks x accumulation x "
               "micro_batch")
      .also_by(kPlan);
  train.integer("train.accumulation", &S::accumulation, 1, 1 << 20, "micro-batches per rank and optimizer step")
      .also_by(kPlan);
  train
      .value<read_length>("train.seq_len", &S::seq_len, "whole number, 0 to 2147483648, or fit", length_text,
                          "tokens per sample; 0: the model's context; with model.from at most 1024 of it by default; "
                          "fit: the longest that fits plan.memory (train: or its device)")
      .also_by(kPlan | kEval);
  train.integer("train.eval_every", &S::eval_every, 0, kAnyCount, "steps between evaluations; 0: only at the end");
  train
      .integer("train.eval_batches", &S::eval_batches, 0, kAnyCount,
               "micro-batches per evaluation, over all ranks; 0: all")
      .also_by(kEval);
  train
      .integer("train.sample_every", &S::sample_every, 0, kAnyCount,
               "steps between samples of what the model writes, from before step 1 on, by the options of [generate]; "
               "0: none")
      .also_by(kPlan);
}

void add_optim(Rows& rows) {
  const Section optim(rows, &O::optim, kTraining);
  using S = OptimOptions;
  optim.number("optim.lr", &S::lr, {0.0, 1e6},
               "learning rate after the warm-up, the highest; with model.from 2e-05 by default");
  optim.number("optim.min_lr", &S::min_lr, {0.0, 1e6},
               "learning rate at which the schedule ends, one step after the last");
  optim.choice("optim.name", &S::name,
               "what updates the parameters; muon: the matrices of blocks by Muon, all else by AdamW");
  optim.choice(
      "optim.moments", &S::moments,
      "type in which moments (Muon: the momentum) are kept; bf16: rounded at random, so that the mean is exact");
  optim.number("optim.muon_momentum", &S::muon_momentum, {0.0, 1.0, false, true},
               "Muon: decay of the running mean of gradients");
  optim.integer("optim.muon_steps", &S::muon_steps, 1, 100, "Muon: Newton-Schulz iterations of an update");
  optim.choice("optim.muon_scale", &S::muon_scale,
               "Muon: by what the learning rate is multiplied; match_rms_adamw: 0.2 x the root of a matrix's longer "
               "side, so that AdamW's rates serve; original: the root of outputs / inputs, at least 1");
  optim.integer("optim.warmup_steps", &S::warmup_steps, 0, kAnyCount,
                "first steps, in which the learning rate rises linearly; with model.from 3% of the steps by default");
  optim.choice("optim.schedule", &S::schedule,
               "course of the learning rate after the warm-up (wsd: constant, then falling to the end)");
  optim.number("optim.decay_fraction", &S::decay_fraction, {0.0, 1.0},
               "schedule = wsd: last part of the steps, in which the learning rate falls");
  optim.number("optim.beta1", &S::beta1, {0.0, 1.0, false, true}, "AdamW: decay of the running mean of gradients");
  optim.number("optim.beta2", &S::beta2, {0.0, 1.0, false, true},
               "AdamW: decay of the running mean of squared gradients");
  optim.number("optim.eps", &S::eps, {0.0, 1.0, true, false}, "AdamW: added to the square root of the mean square");
  optim.number("optim.weight_decay", &S::weight_decay, {0.0, 1e6},
               "decoupled weight decay, of tensors with two or more dimensions");
  optim.number("optim.clip", &S::clip, {0.0, kInfinity},
               "largest norm of the full gradient, which is scaled down to it; 0: no clipping");
}

/// "ddp nothing, zero1 optimizer state, ...".
std::string what_strategies_split() {
  return joined(all_strategies(),
                [](const StrategyRules& rules) { return fmt::format("{} {}", rules.name, rules.splits); });
}

void add_shard(Rows& rows) {
  const Section shard(rows, &O::shard, kTraining | kPlan);
  using S = ShardOptions;
  shard.choice("shard.strategy", &S::strategy, "what is split over ranks: " + what_strategies_split()).also_by(kUsing);
  shard
      .integer("shard.group_size", &S::group_size, 0, 1 << 24,
               "ranks of a shard group (" + names_of_hybrids() + "); 0: the ranks of a node")
      .also_by(kUsing);
  shard
      .choice("shard.wrap", &S::wrap,
              "what is gathered together. block: a block; size: neighbouring parts, joined until they have "
              "shard.min_params; model: the whole model")
      .also_by(kUsing);
  shard
      .integer("shard.min_params", &S::min_params, 1, kAnyCount,
               "wrap = size: neighbouring parts are joined until they have so many parameters")
      .also_by(kUsing);
  shard.value<read_reshard>(
      "shard.reshard_after_forward", &S::reshard_after_forward, "true|false|N ranks", reshard_text,
      "drop gathered parameters after forward and gather them again for backward; N: each of N neighbouring "
      "ranks of a node keeps 1/N, so that this second gather stays among them");
  shard
      .integer("shard.prefetch_forward", &S::prefetch_forward, 0, 1 << 20,
               "units gathered ahead of their use in forward; 0: off")
      .also_by(kUsing);
  shard.integer("shard.prefetch_backward", &S::prefetch_backward, 0, 1 << 20,
                "units gathered ahead of their use in backward; 0: off");
  shard
      .integer("shard.limit_all_gathers", &S::limit_all_gathers, 0, 1 << 20,
               "block units that may be gathered at a time; 0: no limit")
      .also_by(kUsing);
  shard.choice(
      "shard.reduce", &S::reduce,
      "sum gradients over ranks after each micro-batch, or once a step; auto: micro_step where they are sharded");
  shard.choice("shard.offload", &S::offload,
               "what is kept in host memory. optimizer: masters and moments, which the host's AdamW updates. "
               "params: the parameters too, which are loaded before each gather. Not with optim.name = muon");
  shard.value<read_fraction>(
      "shard.offload_fraction", &S::offload_fraction, "number, 0 to 1, or fit", fraction_text,
      "part of the parameters whose state is offloaded, unit by unit, the last ones first; fit: the least "
      "that fits plan.memory (train: or its device)");
}

void add_lora(Rows& rows) {
  const Section lora(rows, &O::lora, kTraining | kPlan);
  using S = LoraOptions;
  lora.integer("lora.rank", &S::rank, 0, 1 << 16,
               "rank of the adapters that train instead of the model's weights (LoRA, as PEFT computes it); 0: that of "
               "lora.from, or no adapters");
  lora.number("lora.alpha", &S::alpha, {0.0, kInfinity},
              "what an adapter adds is multiplied by alpha / rank; 0: as in lora.from, else twice the rank");
  lora.number("lora.dropout", &S::dropout, {0.0, 1.0, false, true}, "dropout of what each adapter reads");
  lora.text("lora.targets", &S::targets, "all, or list of modules",
            "linears of blocks that have adapters, as Hugging Face folders name them: q_proj,v_proj");
  lora.choice("lora.rank_stabilized", &S::rank_stabilized, "multiply by alpha / sqrt(rank) instead (rsLoRA)");
  lora.text(
          "lora.from", &S::from, "folder",
          "adapter to begin with, as PEFT saves it: adapter_config.json and adapter_model.safetensors; rank and alpha "
          "must be its own where they are given. eval and generate: the adapter of the model")
      .also_by(kUsing);
  lora.text("lora.base_hash", &S::base_hash, "16 hexadecimal digits",
            "the hash that the weights of model.from must have; config.ini and checkpoints say it");
}

void add_resources(Rows& rows) {
  const Section precision(rows, &O::precision, kTraining | kPlan);
  const Section memory(rows, &O::memory, kTraining | kPlan);
  const Section grid(rows, &O::grid, kTraining | kPlan | kUsing);
  const Section comm(rows, &O::comm, kTraining | kUsing);
  precision.choice("precision.compute", &PrecisionOptions::compute, "type of gathered parameters and activations")
      .also_by(kUsing);
  precision.choice("precision.reduce", &PrecisionOptions::reduce, "type in which gradients are computed and sent");
  precision.choice("precision.matmul", &PrecisionOptions::matmul,
                   "on GPUs, precision.compute = fp32: full fp32, or TF32 on tensor cores");
  precision
      .choice("precision.logits", &PrecisionOptions::logits,
              "type in which a loss stores its logits: precision.compute, or fp32")
      .also_by(kEval);
  precision
      .choice("precision.linear", &PrecisionOptions::linear,
              "what the linears of blocks multiply, in forward and backward: numbers of precision.compute, or these "
              "rounded to fp8. eval and generate: as the run did")
      .also_by(kUsing);
  precision.choice("precision.fp8_gradients", &PrecisionOptions::fp8_gradients,
                   "type of the gradients that linears multiply in fp8; inputs and weights are e4m3");
  precision
      .choice("precision.fp8_scale", &PrecisionOptions::fp8_scale,
              "what scales an operand to the range of fp8; current: its own largest magnitude in this micro-batch")
      .also_by(kUsing);
  precision
      .value<read_count_or_auto>("precision.fp8_smallest", &PrecisionOptions::fp8_smallest,
                                 "whole number, 0 or more, or auto", count_or_auto_text,
                                 "linears whose smaller side is below this keep precision.compute; auto: 1024")
      .also_by(kUsing);
  memory.choice("memory.checkpoint", &MemoryOptions::checkpoint,
                "which activations are dropped after forward and recomputed in backward. block: those of all blocks; "
                "selective: those of memory.checkpoint_blocks and memory.checkpoint_parts; fit: as few as make the run "
                "fit plan.memory (train: or its device)");
  memory.text("memory.checkpoint_blocks", &MemoryOptions::recomputed_blocks, "all|M/N|LIST",
              "memory.checkpoint = selective: all blocks, M of every N, or a list such as 0,2,5-8");
  memory.text("memory.checkpoint_parts", &MemoryOptions::recomputed_halves, "attention|mlp|attention,mlp",
              "memory.checkpoint = selective: halves of those blocks");
  memory.choice(
      "memory.offload_activations", &MemoryOptions::offload_activations,
      "inputs of recomputed blocks go to the host's memory in forward, and come back ahead of their use in backward");
  memory.integer(
      "memory.mlp_chunk", &MemoryOptions::mlp_chunk, 0, kAnyCount,
      "tokens that an MLP takes at a time in training; backward computes each chunk again before its gradients, "
      "so that memory holds one chunk's values; 0: all tokens of a micro-batch");
  memory
      .choice(
          "memory.keep_activated", &MemoryOptions::keep_activated,
          "outputs of the MLP's activation are kept for backward instead of made again; auto: false on CPUs. On GPUs "
          "true, except for gated MLPs if all of them are recomputed; with run.deterministic = false, only if they fit")
      .also_by(kEval);
  memory.value<read_emulation>(
      "memory.emulate_copies", &MemoryOptions::emulate_copies, "none, or latency,bandwidth such as 1ms,2GB/s",
      emulation_text,
      "on CPUs: slow every copy of what is offloaded between device and host down to this latency and "
      "bandwidth (bandwidth 0: unlimited)");
  grid.integer("grid.ranks_per_node", &GridOptions::ranks_per_node, 0, 1 << 20,
               "take so many ranks for a node; 0: as the machine is (plan: at most 8)");
  using C = CommOptions;
  comm.choice("comm.backend", &C::backend, "how ranks on GPUs talk: NCCL, or staged through host memory; auto: NCCL")
      .also_by(kPlan);
  comm.value<read_emulation>("comm.emulate", &C::emulate, "none, or latency,bandwidth such as 1ms,2GB/s",
                             emulation_text,
                             "slow every collective down to this latency and bandwidth (bandwidth 0: unlimited)");
}

void add_files(Rows& rows) {
  const Section checkpoint(rows, &O::checkpoint, kTraining);
  const Section metrics(rows, &O::metrics, kTraining);
  using C = CheckpointOptions;
  checkpoint.value<read_count_or_auto>(
      "checkpoint.every", &C::every, "whole number, 0 or more, or auto", count_or_auto_text,
      "steps between checkpoints, the last step has one too; 0: none but at an early stop; "
      "auto: so that checkpoints and failures cost least time (checkpoint.mtbf)");
  checkpoint.number("checkpoint.every_minutes", &C::every_minutes, {0.0, 1e9},
                    "minutes between checkpoints; 0: checkpoint.every decides alone; with model.from 30 by default");
  checkpoint.seconds(
      "checkpoint.mtbf", &C::mtbf, 0.0,
      "checkpoint.every = auto: mean time between failures of the run; 0: 30 days, divided by its nodes");
  checkpoint.integer("checkpoint.keep", &C::keep, 0, kAnyCount, "newest checkpoints that are kept; 0: all");
  checkpoint.integer("checkpoint.keep_every", &C::keep_every, 0, kAnyCount,
                     "checkpoints of steps that are multiples of this are kept as well; 0: none");
  checkpoint.integer("checkpoint.keep_best", &C::keep_best, 0, kAnyCount,
                     "checkpoints of the lowest validation loss are kept as well, so many: of the first set, evaluated "
                     "after the checkpoint's own step; 0: none");
  checkpoint
      .choice("checkpoint.async", &C::async, "write while the next steps run, from a copy of the state in host memory")
      .also_by(kPlan);
  checkpoint.text("checkpoint.resume", &C::resume, "none|auto|PATH",
                  "go on from a checkpoint: auto: the newest complete one in the run's folder, if there is one; PATH: "
                  "a checkpoint or a run's folder");
  checkpoint.text(
      "checkpoint.allow", &C::allow, "list of data, seq_len, global_batch, seed, order, moments",
      "differences from the checkpoint that are accepted, although the run then goes on with other samples or moments");
  checkpoint.integer("checkpoint.writers_per_node", &C::writers_per_node, 0, 1 << 20,
                     "ranks of a node that write files, for the others too; 0: all");
  checkpoint.choice(
      "checkpoint.direct", &C::direct,
      "write past the page cache (O_DIRECT); auto: where the file system can and the first blocks are not slow");
  checkpoint
      .text(
          "checkpoint.keep_near", &C::keep_near, "none|auto|FOLDER",
          "keep the newest checkpoint also on the nodes that wrote it, where a restart reads it first; auto: in memory "
          "(/dev/shm), if twice its bytes fit in addition to the plan; FOLDER: on a disk of each node")
      .also_by(kPlan);
  checkpoint.choice("checkpoint.tensors", &C::tensors,
                    "write tensors.h5, which shows whole tensors to HDF5 readers, with each checkpoint; false: tessera "
                    "index makes it when it is wanted");
  checkpoint
      .seconds(
          "checkpoint.timeout", &C::timeout, 0.0,
          "how long a rank waits for another that reads or writes a checkpoint, before the run fails; 0: without limit")
      .also_by(kUsing);
  metrics.integer("metrics.every", &MetricsOptions::every, 1, kAnyCount,
                  "steps between log lines and rows of every rank (/steps has every step)");
  metrics.integer("metrics.time_every", &MetricsOptions::time_every, 0, kAnyCount,
                  "steps between steps whose operations are timed one by one, at least 10 in a run; 0: every step on "
                  "CPUs, every 50th on GPUs, where others are replayed as graphs");
  metrics.choice("metrics.swmr", &MetricsOptions::swmr,
                 "metrics.h5 is readable while the run goes on; turn off on NFS");
  metrics.choice("metrics.layer_norms", &MetricsOptions::layer_norms,
                 "record the gradient norm of every unit in each report, in /layers/grad_norm");
}

void add_commands(Rows& rows) {
  const Section plan(rows, &O::plan, kPlan);
  const Section export_(rows, &O::export_, Readers::export_);
  const Section bench(rows, &O::bench, Readers::bench);
  plan.integer("plan.ranks", &PlanOptions::ranks, 1, 1 << 24, "world size to plan for");
  plan.bytes("plan.memory", &PlanOptions::memory,
             "memory of a rank's device; 0: not checked (train: what the device has). A plan that needs more fails and "
             "says what would fit; options that say fit make it fit")
      .also_by(kTraining);
  plan.text("plan.cluster", &PlanOptions::cluster, "file",
            "prices of a machine (inputs/clusters, or bench calibrate): predicts the step's time (train, bench step: "
            "before the run, and compares it at the end), and gives plan device and memory where they are left open")
      .also_by(kTraining);
  plan.choice("plan.view", &PlanOptions::view,
              "table: all strategies side by side; schedule: every operation; units: what is gathered together; "
              "timeline: a predicted step, drawn; fit: the fastest configurations that fit plan.memory; largest: the "
              "largest model of the family that does, by strategy");
  plan.choice("plan.format", &PlanOptions::format,
              "json: one document with the first three views and the chosen one, numbers in bytes "
              "(docs/manual/schedule_json.md)");
  export_.choice("export.optimizer", &ExportOptions::optimizer,
                 "write state.h5 as well: full parameters, the optimizer's state and its scalars");
  export_.choice(
      "export.merged", &ExportOptions::merged,
      "of a run with adapters: the whole model with these added to its weights, instead of a folder of PEFT");
  export_.choice("export.dtype", &ExportOptions::dtype,
                 "type of exported weights; source: that of the weights which the model began from, else fp32");
  export_.bytes("export.largest_file", &ExportOptions::largest_file,
                "weights are divided into files of at most so many bytes; 0: one file");
  bench.integer("bench.steps", &BenchOptions::steps, 1, kAnyCount, "steps or repetitions that are measured");
  bench.integer("bench.warmup", &BenchOptions::warmup, 0, kAnyCount, "steps or repetitions before those, not measured");
  bench.bytes("bench.max_bytes", &BenchOptions::max_bytes,
              "bench comm: largest message, bytes of the full buffer as nccl-tests count");
  bench
      .list<read_byte_list>("bench.sizes", &BenchOptions::sizes, "list of bytes above 0, for example 1MB,10MB",
                            byte_list_text, "bench comm: its messages; empty: 1 KiB, 4 KiB, ... up to bench.max_bytes")
      .only_by(Readers::bench_messages);
  bench
      .text("bench.output", &BenchOptions::output, "file",
            "bench comm, step, kernels: HDF5 file for the tables, which must not exist; empty: none. "
            "bench calibrate: cluster file for the prices")
      .only_by(Readers::bench_tables);
}

void add_generate(Rows& rows) {
  const Section generate(rows, &O::generate, Readers::generate);
  using S = GenerateOptions;
  generate.text("generate.prompt", &S::prompt, "text", "the text to go on with").also_by(kTraining);
  generate.text("generate.prompts", &S::prompts, "file",
                "instead of generate.prompt: a file with a prompt in each line (.jsonl: a JSON text, or an object with "
                "prompt), train.micro_batch of them at a time on a rank");
  generate.choice("generate.chat", &S::chat,
                  "prompts are turns of a user, or conversations (.json: messages; .jsonl: an object with messages a "
                  "line), and the chat template asks for the answer");
  generate
      .integer("generate.max_tokens", &S::max_tokens, 1, std::int64_t{1} << 31,
               "longest continuation, in tokens; with its prompt within the model's context")
      .also_by(kTraining | kPlan);
  generate
      .number("generate.temperature", &S::temperature, {0.0, 1000.0},
              "logits are divided by it; 0: always the most probable token")
      .also_by(kTraining);
  generate
      .integer("generate.top_k", &S::top_k, 0, std::int64_t{1} << 31,
               "draw from the so many most probable tokens only; 0: from all")
      .also_by(kTraining);
  generate
      .number("generate.top_p", &S::top_p, {0.0, 1.0, true, false},
              "draw from the most probable tokens only that reach this probability together")
      .also_by(kTraining);
  generate
      .integer("generate.seed", &S::seed, 0, kAnyCount,
               "seed of the draws: a token depends on it, the prompt's number and its own position")
      .also_by(kTraining);
  generate.text("generate.stop", &S::stop, "text, or a JSON array of texts",
                "a text that ends a continuation, and is not part of it; empty: none");
  generate.choice("generate.format", &S::format,
                  "json: an object a line with prompt, text, tokens, finish_reason and seconds");
}

void add_eval(Rows& rows) {
  const Section eval(rows, &O::eval, kEval);
  using S = EvalOptions;
  eval.text("eval.choices", &S::choices, ".jsonl file",
            "instead of a validation set: questions of multiple choice, an object with context, endings and label a "
            "line; empty: none");
  eval.choice("eval.format", &S::format, "json: an object a line for each set");
}

void add_sweep(Rows& rows) {
  const Section sweep(rows, &O::sweep, Readers::sweep);
  using S = SweepOptions;
  sweep.text("sweep.name", &S::name, "text", "name of the sweep; empty: the file's");
  sweep.text("sweep.base", &S::base, "INI file",
             "options that every row starts from; a path relative to the sweep's file");
  sweep.text("sweep.baseline", &S::baseline, "row", "row that the others are compared with; empty: the first");
  sweep.integer("sweep.repeat", &S::repeat, 1, 1000, "runs of each row, in turns; the report takes medians");
  sweep.integer("sweep.requeues", &S::requeues, 0, 1000, "how often Slurm starts a row again that its limit stopped");
  sweep.seconds("sweep.limit", &S::limit, 0.0, "longest time of an attempt at a row; 0: none (Slurm: the partition's)");
  sweep.choice("sweep.action", &S::action,
               "print: what would run; run: one row after the other, here; submit: over Slurm; status; retry: rows "
               "that failed; row: within a job of submit");
  sweep.text("sweep.dir", &S::dir, "folder", "a folder per row; empty: runs/NAME");
  sweep.text("sweep.launcher", &S::launcher, "auto|mpiexec|srun, or words of a command",
             "what starts a row's ranks, {ranks} their number; auto: srun in a Slurm job, else mpiexec");
  sweep.text("sweep.only", &S::only, "pattern, as of file names", "only rows with such a name; empty: all");
  sweep.text("sweep.cluster", &S::cluster, "file",
             "prices of the machine (inputs/clusters, or bench calibrate): predicts each row's time; empty: none");
  sweep.choice("sweep.order", &S::order,
               "rows as in the file, or those first that sweep.cluster predicts to end soonest");
  sweep.list<read_count_list>("sweep.ranks", &S::ranks, "list of whole numbers above 0, for example 1,2,4",
                              count_list_text,
                              "numbers of ranks for every row, instead of the file's; empty: the file's");
  sweep.choice("sweep.exclusive", &S::exclusive, "submit: rows run one after the other, each alone on its nodes");
  sweep.integer("sweep.parallel", &S::parallel, 0, 100000,
                "submit: rows that run at a time, over all arrays; 0: as many as Slurm starts");
  sweep.integer("sweep.node_ranks", &S::node_ranks, 1, 1 << 20, "submit: most ranks on a node");
  sweep.text("sweep.sbatch", &S::sbatch, "words", "submit: more options for sbatch");
}

Rows make_table() {
  Rows rows;
  for (const auto add : {add_run, add_model, add_data, add_train, add_optim, add_shard, add_lora, add_resources,
                         add_files, add_commands, add_generate, add_eval, add_sweep}) {
    add(rows);
  }
  return rows;
}

}  // namespace

const std::vector<OptionEntry>& option_table() {
  static const Rows table = make_table();
  return table;
}

const OptionEntry* find_option(std::string_view name) {
  for (const auto& row : option_table()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

bool read_option(Readers readers, std::string_view option) {
  const OptionEntry* row = find_option(option);
  return row == nullptr ? find_removed(option) != nullptr : overlap(row->readers, readers);
}

std::string_view section_title(std::string_view section) {
  static constexpr std::pair<std::string_view, std::string_view> titles[] = {
      {"run", "where, on what, and how long"},
      {"model", "what is trained"},
      {"data", "what it is trained on"},
      {"train", "steps and batches"},
      {"optim", "AdamW or Muon, and the learning rate"},
      {"shard", "what is split over the ranks, and when it is gathered"},
      {"lora", "adapters that train instead of the model's weights"},
      {"precision", "fp32, bf16 or fp16 (master weights are fp32)"},
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
