// "Did you mean": the option that an unknown name most likely stands for.

#include "tessera/base/closest.hpp"

#include <utility>
#include <vector>

#include "config/option_table.hpp"

namespace tessera {

namespace {

/// Names of options in other programs.
constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {
    {"lanes", "run.queues"},  // its name in earlier versions
    {"learning_rate", "optim.lr"},
    {"max_lr", "optim.lr"},
    {"lr_scheduler_type", "optim.schedule"},
    {"warmup_iters", "optim.warmup_steps"},
    {"grad_clip", "optim.clip"},
    {"max_grad_norm", "optim.clip"},
    {"max_steps", "train.steps"},
    {"max_iters", "train.steps"},
    {"num_train_epochs", "train.epochs"},
    {"total_tokens", "train.tokens"},
    {"batch_size", "train.micro_batch"},
    {"micro_batch_size", "train.micro_batch"},
    {"per_device_train_batch_size", "train.micro_batch"},
    {"global_batch_size", "train.global_batch"},
    {"total_batch_size", "train.global_batch"},
    {"gradient_accumulation_steps", "train.accumulation"},
    {"sequence_length", "train.seq_len"},
    {"max_seq_len", "train.seq_len"},
    {"block_size", "train.seq_len"},
    {"eval_interval", "train.eval_every"},
    {"eval_steps", "train.eval_every"},
    {"n_layer", "model.layers"},
    {"num_layers", "model.layers"},
    {"n_head", "model.heads"},
    {"n_embd", "model.width"},
    {"hidden_size", "model.width"},
    {"vocab_size", "model.vocab"},
    {"dataset", "data.source"},
    {"data", "data.source"},
    {"path", "data.source"},
    {"train_file", "data.source"},
    {"model", "model.from"},
    {"model_name_or_path", "model.from"},
    {"out_dir", "run.dir"},
    {"output_dir", "run.dir"},
    {"save_steps", "checkpoint.every"},
    {"logging_steps", "metrics.every"},
    {"dtype", "precision.compute"},
    {"bf16", "precision.compute"},
    {"fp16", "precision.compute"},
    {"precision", "precision.compute"},
    {"gradient_checkpointing", "memory.checkpoint"}};

}  // namespace

std::string closest_option(std::string_view unknown) {
  if (unknown.size() > 64 || unknown.empty()) return {};
  const auto dot = unknown.find('.');
  const auto key = dot == std::string_view::npos ? unknown : unknown.substr(dot + 1);
  for (const auto& row : option_table()) {  // the beginning of a name
    if (std::string_view(row.name).starts_with(unknown) && dot != std::string_view::npos && !key.empty())
      return row.name;
  }
  for (const auto& row : option_table()) {  // the right key in another section
    if (row.key() == key) return row.name;
  }
  for (const auto& [synonym, name] : kSynonyms) {
    if (synonym == key) return std::string(name);
  }
  std::vector<std::string_view> names;
  for (const auto& row : option_table()) names.push_back(row.name);
  return std::string(closest(unknown, names));
}

}  // namespace tessera
