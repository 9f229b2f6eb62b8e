#include "tessera/resolve/origin.hpp"

#include <algorithm>
#include <map>
#include <span>

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
  return old != then.end() && value_of(options, name) == old->second;
}

/// Returns whether the command names a model, or its file names a different one than the checkpoint's run had.
bool names_a_model(const Options& options, const Texts& then) {
  return std::ranges::any_of(flat_options(options), [&](const OptionValue& option) {
    return option.name.starts_with("model.") && option.name != "model.dropout" && !is_open(options, then, option.name);
  });
}

/// Returns options that describe a checkpoint's model in the way its run's did. If there were none, or the folder that
/// they name is gone, the checkpoint itself describes it.
NamedTexts model_options(const Manifest& manifest, const std::filesystem::path& checkpoint) {
  const Texts then(manifest.options.begin(), manifest.options.end());
  const auto from = then.find("model.from");
  std::error_code ignored;
  const bool gone = !manifest.architecture.adapters.on() && from != then.end() && !from->second.empty() &&
                    !std::filesystem::exists(from->second, ignored);
  if (from == then.end() || gone) return {{"model.from", checkpoint.string()}};
  NamedTexts taken;
  for (const OptionValue& option : flat_options({})) {
    const auto old = then.find(option.name);
    if (!option.name.starts_with("model.") || option.name == "model.dropout" || old == then.end()) continue;
    if (old->second != option.value) taken.emplace_back(option.name, old->second);
  }
  return taken;
}

std::int64_t number_in(const Texts& texts, const std::string& name, std::int64_t otherwise) {
  const auto found = texts.find(name);
  return found == texts.end() ? otherwise : std::stoll(found->second);
}

/// Returns the unset options.
NamedTexts options_from(const Options& options, const std::filesystem::path& checkpoint, const Manifest& manifest,
                        std::int64_t world) {
  Texts then(manifest.options.begin(), manifest.options.end());
  NamedTexts taken;
  if (!names_a_model(options, then)) taken = model_options(manifest, checkpoint);
  const std::string& begin = options.lora.from;
  std::error_code unseen;
  if (manifest.architecture.adapters.on() && !begin.empty() &&
      std::filesystem::absolute(begin, unseen).lexically_normal() != then["lora.from"]) {
    throw refuse("lora.from", begin)
        .because("{} has its own adapters, with which the run goes on", checkpoint.string())
        .hint("Leave it out, or begin another run with it");
  }
  for (const char* const name : {"lora.rank", "lora.alpha", "lora.dropout", "lora.targets", "lora.rank_stabilized"})
    if (manifest.architecture.adapters.on() && is_open(options, then, name)) taken.emplace_back(name, then[name]);
  if (is_open(options, then, "model.dropout") && manifest.architecture.dropout > 0)
    taken.emplace_back("model.dropout", fmt::format("{}", manifest.architecture.dropout));
  const auto allowed = allowed_changes(options.checkpoint);
  const auto may_differ = [&](const char* name) { return std::ranges::find(allowed, name) != allowed.end(); };
  if (!manifest.data.known) return taken;
  // Of versions without these options, or without the value auto.
  then.emplace("data.token_bytes", "2"), then.emplace("data.document_mask", "false"),
      then.emplace("data.begin", "none");
  then.emplace("data.packing", "stream"), then.emplace("data.too_long", "cut");
  for (const char* const name : {"data.packing", "data.too_long", "data.begin"})
    if (is_open(options, then, name)) taken.emplace_back(name, then[name]);
  if (is_open(options, then, "data.document_mask") && !packs_documents(options.data))
    taken.emplace_back("data.document_mask", then["data.document_mask"]);
  if (is_open(options, then, "data.token_bytes") && options.data.source == then["data.source"] &&
      options.data.val_source == then["data.val_source"] && reads_raw_tokens(options))
    taken.emplace_back("data.token_bytes", then["data.token_bytes"]);
  const std::int64_t sequence = number_in(then, "train.seq_len", manifest.data.sequence);
  // config.ini has the resolved value if the command gave a length of 0.
  then["train.seq_len"] = std::to_string(manifest.data.sequence);
  then.emplace("train.global_batch", "0");  // of a version without that option
  const bool is_undecided = is_open(options, then, "train.seq_len") || options.train.seq_len == kFittingLength;
  if (is_undecided && !may_differ("seq_len")) taken.emplace_back("train.seq_len", std::to_string(sequence));
  if (may_differ("global_batch")) return taken;
  std::int64_t micro_batch = options.train.micro_batch;
  if (is_open(options, then, "train.micro_batch")) {
    micro_batch = number_in(then, "train.micro_batch", micro_batch);
    taken.emplace_back("train.micro_batch", std::to_string(micro_batch));
  }
  if (!is_open(options, then, "train.accumulation") || !is_open(options, then, "train.global_batch")) return taken;
  if (number_in(then, "train.global_batch", 0) > 0) {
    taken.emplace_back("train.global_batch", std::to_string(manifest.data.global_batch));
    taken.emplace_back("train.accumulation", "1");
  } else if (manifest.data.global_batch % (world * micro_batch) == 0) {  // otherwise an error says so
    taken.emplace_back("train.accumulation", std::to_string(manifest.data.global_batch / (world * micro_batch)));
  }
  return taken;
}

/// Finds the newest checkpoint that can be read: returns its options and position.
std::pair<NamedTexts, RunPosition> find_origin(const Options& options, std::int64_t world) {
  for (const auto& path : resume_candidates(options.checkpoint.resume, run_folder(options))) {
    std::optional<Manifest> manifest;
    try {
      manifest = read_manifest(path);
      require_full_state(path, *manifest);
    } catch (const IoError&) {
      continue;  // the loader reports its defects
    }
    return {options_from(options, path, *manifest, world), manifest->position()};
  }
  return {};
}

}  // namespace

std::pair<Options, RunPosition> with_origin(RankContext& context, Options options) {
  if (options.checkpoint.resume == "none") return {options, {}};
  RunPosition position;
  std::vector<std::string> words;
  if (context.rank() == 0) {
    const auto [taken, there] = find_origin(options, context.size());
    for (const auto& [name, value] : taken) words.insert(words.end(), {name, value});
    position = there;
  }
  words = context.control().broadcast(words);
  context.control().broadcast(std::as_writable_bytes(std::span(&position, 1)));
  const auto names_model = [](const std::string& word) {
    return word.starts_with("model.") && word != "model.dropout";
  };
  const double dropout = options.model.dropout;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (names_model(words[i])) options.model = {};
  }
  options.model.dropout = dropout;
  for (std::size_t i = 0; i < words.size(); i += 2) take({words[i], words[i + 1], "the checkpoint"}, options);
  const auto of_adapters =
      std::ranges::find_if(options.given, [](const auto& name) { return name.starts_with("lora."); });
  if (!options.lora.on() && of_adapters != options.given.end()) {
    throw refusal("{} has no effect", *of_adapters)
        .because("neither lora.rank nor lora.from asks for adapters, and checkpoint.resume = {} finds none",
                 options.checkpoint.resume)
        .hint("Leave it out");
  }
  return {options, position};
}

}  // namespace tessera
