#include "tessera/resolve/origin.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/settings.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/resolve/run_checkpoints.hpp"
#include "tessera/text/corpus.hpp"

namespace tessera {

namespace {

using Texts = std::map<std::string, std::string>;

/// Returns whether `name` is unset: it is not given, and a run's config.ini has the checkpoint's value, so it was not
/// edited.
bool is_open(const Options& options, const Texts& then, const std::string& name) {
  if (options.is_given(name)) return false;
  if (!options.repeated.contains(name)) return true;
  const auto old = then.find(name);
  const auto all = flat_options(options);
  const auto mine = std::ranges::find(all, name, &OptionValue::name);
  return old != then.end() && mine != all.end() && mine->value == old->second;
}

/// Returns whether the command names a model, or its file names a different one than the checkpoint's run had.
bool names_a_model(const Options& options, const Texts& then) {
  return std::ranges::any_of(flat_options(options), [&](const OptionValue& option) {
    return option.name.starts_with("model.") && option.name != "model.dropout" && !is_open(options, then, option.name);
  });
}

/// Returns arguments that describe a checkpoint's model in the way its run's options did. If there were none, or the
/// folder that they name is gone, the checkpoint itself describes it.
std::vector<std::string> model_arguments(const Manifest& manifest, const std::filesystem::path& checkpoint) {
  const Texts then(manifest.options.begin(), manifest.options.end());
  const auto from = then.find("model.from");
  std::error_code ignored;
  const bool gone = !manifest.architecture.adapters.on() && from != then.end() && !from->second.empty() &&
                    !std::filesystem::exists(from->second, ignored);
  if (from == then.end() || gone) return {"--model.from=" + checkpoint.string()};
  std::vector<std::string> arguments;
  for (const OptionValue& option : flat_options({})) {
    const auto old = then.find(option.name);
    if (!option.name.starts_with("model.") || option.name == "model.dropout" || old == then.end()) continue;
    if (old->second != option.value) arguments.push_back(fmt::format("--{}={}", option.name, old->second));
  }
  return arguments;
}

std::int64_t number_in(const Texts& texts, const std::string& name, std::int64_t otherwise) {
  const auto found = texts.find(name);
  return found == texts.end() ? otherwise : std::stoll(found->second);
}

/// Returns the unset options, as arguments.
std::vector<std::string> arguments_from(const Options& options, const std::filesystem::path& checkpoint,
                                        const Manifest& manifest, std::int64_t world) {
  Texts then(manifest.options.begin(), manifest.options.end());
  std::vector<std::string> arguments;
  if (!names_a_model(options, then)) arguments = model_arguments(manifest, checkpoint);
  const std::string& begin = options.lora.from;
  std::error_code unseen;
  if (manifest.architecture.adapters.on() && !begin.empty() &&
      std::filesystem::absolute(begin, unseen).lexically_normal() != then["lora.from"]) {
    throw refuse("lora.from", begin)
        .because("{} has its own adapters, with which the run goes on", checkpoint.string())
        .hint("Leave it out, or begin another run with it");
  }
  for (const char* const name : {"lora.rank", "lora.alpha", "lora.dropout", "lora.targets", "lora.rank_stabilized"})
    if (manifest.architecture.adapters.on() && is_open(options, then, name))
      arguments.push_back(fmt::format("--{}={}", name, then[name]));
  if (is_open(options, then, "model.dropout") && manifest.architecture.dropout > 0)
    arguments.push_back(fmt::format("--model.dropout={}", manifest.architecture.dropout));
  const auto allowed = allowed_changes(options.checkpoint);
  const auto may_differ = [&](const char* name) { return std::ranges::find(allowed, name) != allowed.end(); };
  if (!manifest.data.known) return arguments;
  // Of versions without these options, or without the value auto.
  then.emplace("data.token_bytes", "2"), then.emplace("data.document_mask", "false"),
      then.emplace("data.begin", "none");
  then.emplace("data.packing", "stream"), then.emplace("data.too_long", "cut");
  for (const char* const name : {"data.packing", "data.too_long"})
    if (is_open(options, then, name)) arguments.push_back(fmt::format("--{}={}", name, then[name]));
  if (is_open(options, then, "data.document_mask") && !packs_documents(options.data))
    arguments.push_back("--data.document_mask=" + then["data.document_mask"]);
  const auto same = [&](const char* name) {
    const auto all = flat_options(options);
    return std::ranges::find(all, name, &OptionValue::name)->value == then[name];
  };
  if (is_open(options, then, "data.token_bytes") && same("data.source") && same("data.val_source") &&
      reads_raw_tokens(options))
    arguments.push_back("--data.token_bytes=" + then["data.token_bytes"]);
  if (is_open(options, then, "data.begin")) arguments.push_back("--data.begin=" + then["data.begin"]);
  const std::int64_t sequence = number_in(then, "train.seq_len", manifest.data.sequence);
  // config.ini has the resolved value if the command gave a length of 0.
  then["train.seq_len"] = std::to_string(manifest.data.sequence);
  then.emplace("train.global_batch", "0");  // of a version without that option
  const bool is_undecided = is_open(options, then, "train.seq_len") || options.train.seq_len == kFittingLength;
  if (is_undecided && !may_differ("seq_len")) arguments.push_back(fmt::format("--train.seq_len={}", sequence));
  if (may_differ("global_batch")) return arguments;
  std::int64_t micro_batch = options.train.micro_batch;
  if (is_open(options, then, "train.micro_batch")) {
    micro_batch = number_in(then, "train.micro_batch", micro_batch);
    arguments.push_back(fmt::format("--train.micro_batch={}", micro_batch));
  }
  if (!is_open(options, then, "train.accumulation") || !is_open(options, then, "train.global_batch")) return arguments;
  if (number_in(then, "train.global_batch", 0) > 0) {
    arguments.push_back(fmt::format("--train.global_batch={}", manifest.data.global_batch));
  } else if (manifest.data.global_batch % (world * micro_batch) == 0) {  // otherwise an error says so
    arguments.push_back(fmt::format("--train.accumulation={}", manifest.data.global_batch / (world * micro_batch)));
  }
  return arguments;
}

/// Finds the newest checkpoint that can be read, on rank 0: returns its position and its arguments as words.
std::vector<std::string> find_origin(const Options& options, std::int64_t world) {
  for (const auto& path : resume_candidates(options.checkpoint.resume, run_folder(options))) {
    std::optional<Manifest> manifest;
    try {
      manifest = read_manifest(path);
      require_full_state(path, *manifest);
    } catch (const IoError&) {
      continue;  // the loader reports its defects
    }
    std::vector<std::string> words = arguments_from(options, path, *manifest, world);
    const RunPosition position = manifest->position();
    words.push_back(fmt::format("{} {} {}", position.step, position.next_sample, position.first_batch));
    return words;
  }
  return {};
}

}  // namespace

std::pair<Options, RunPosition> with_origin(RankContext& context, Options options) {
  if (options.checkpoint.resume == "none") return {options, {}};
  std::string list;
  if (context.rank() == 0) list = fmt::format("{}", fmt::join(find_origin(options, context.size()), "\n"));
  std::istringstream lines(context.control().broadcast(list));
  std::vector<std::string> arguments;
  for (std::string line; std::getline(lines, line);) arguments.push_back(line);
  RunPosition position;
  if (!arguments.empty()) {
    std::istringstream(arguments.back()) >> position.step >> position.next_sample >> position.first_batch;
    arguments.pop_back();
  }
  const Options taken = with_settings({}, read_arguments(arguments).settings);  // they were checked when the run began
  const double dropout = taken.is_given("model.dropout") ? taken.model.dropout : options.model.dropout;
  const bool takes_model = std::ranges::any_of(
      taken.given, [](const std::string& name) { return name.starts_with("model.") && name != "model.dropout"; });
  if (takes_model) options.model = taken.model;
  options.model.dropout = dropout;
  const std::pair<const char*, std::int64_t TrainOptions::*> sizes[] = {
      {"train.seq_len", &TrainOptions::seq_len},
      {"train.micro_batch", &TrainOptions::micro_batch},
      {"train.global_batch", &TrainOptions::global_batch},
      {"train.accumulation", &TrainOptions::accumulation}};
  for (const auto& [name, size] : sizes) {
    if (taken.is_given(name)) options.train.*size = taken.train.*size;
  }
  for (const OptionValue& option : flat_options(taken)) {
    if (!option.given || !option.name.starts_with("lora.")) continue;
    apply({option.name, option.value, "the checkpoint"}, options);
    options.given.erase(option.name);
  }
  const auto of_adapters =
      std::ranges::find_if(options.given, [](const auto& name) { return name.starts_with("lora."); });
  if (!options.lora.on() && of_adapters != options.given.end()) {
    throw refusal("{} has no effect", *of_adapters)
        .because("neither lora.rank nor lora.from asks for adapters, and checkpoint.resume = {} finds none",
                 options.checkpoint.resume)
        .hint("Leave it out");
  }
  if (taken.is_given("train.global_batch")) options.train.accumulation = 1;
  if (taken.is_given("data.begin")) options.data.begin = taken.data.begin;
  if (taken.is_given("data.document_mask")) options.data.document_mask = taken.data.document_mask;
  if (taken.is_given("data.packing")) options.data.packing = taken.data.packing;
  if (taken.is_given("data.too_long")) options.data.too_long = taken.data.too_long;
  if (taken.is_given("data.token_bytes")) options.data.token_bytes = taken.data.token_bytes;
  return {options, position};
}

}  // namespace tessera
