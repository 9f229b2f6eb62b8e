// "Did you mean": the option that an unknown name most likely stands for.

#include <algorithm>
#include <utility>
#include <vector>

#include "config/option_table.hpp"

namespace tessera {

namespace {

/// Counts the letters to insert, delete, replace or swap with a neighbour (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<std::size_t> d((a.size() + 1) * columns);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return d[i * columns + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

/// Names of options in other programs.
constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {
    {"learning_rate", "optim.lr"},
    {"max_lr", "optim.lr"},
    {"lr_scheduler_type", "optim.schedule"},
    {"warmup_iters", "optim.warmup_steps"},
    {"grad_clip", "optim.clip"},
    {"max_grad_norm", "optim.clip"},
    {"max_steps", "train.steps"},
    {"max_iters", "train.steps"},
    {"num_train_epochs", "train.epochs"},
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
    {"out_dir", "run.dir"},
    {"output_dir", "run.dir"},
    {"save_steps", "checkpoint.every"},
    {"logging_steps", "metrics.every"},
    {"dtype", "precision.compute"},
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
  std::string best;
  std::size_t least = std::max<std::size_t>(2, unknown.size() / 3) + 1;
  for (const auto& row : option_table()) {
    const auto distance = edit_distance(unknown, row.name);
    if (distance < least) least = distance, best = row.name;
  }
  return best;
}

}  // namespace tessera
