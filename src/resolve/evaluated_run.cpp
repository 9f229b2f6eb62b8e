#include "tessera/resolve/evaluated_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "tessera/base/refuse.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/settings.hpp"
#include "tessera/text/corpus.hpp"

namespace tessera {

namespace {

/// What decides the bits of an evaluation, apart from its data; the run's folder is for the cache next to it.
constexpr std::array<std::string_view, 4> kCompute{"train.micro_batch", "precision.compute", "run.dir", "run.name"};
/// How text becomes tokens, apart from the tokenizer and its template.
constexpr std::array<std::string_view, 7> kReading{"data.text_key",   "data.separator", "data.begin",
                                                   "data.on_error",   "data.cache",     "data.chat_turns",
                                                   "data.chat_counts"};

/// Returns whether other data are evaluated than the run's own, or another part of them.
bool names_data(const Options& given) {
  return given.is_given("data.source") || given.is_given("data.val_source") || given.is_given("data.val_fraction");
}

/// Returns the options whose values the checkpoint's run has, unless they are given.
std::vector<std::string_view> wanted(const Options& given) {
  std::vector<std::string_view> names(kCompute.begin(), kCompute.end());
  const bool source = given.is_given("data.source"), sets = given.is_given("data.val_source"),
             fraction = given.is_given("data.val_fraction");
  if (!given.is_given("precision.compute")) names.emplace_back("precision.logits");  // fp32 has no other choice
  if (!given.eval.choices.empty()) return names;
  names.insert(names.end(), {"train.seq_len", "data.packing", "data.too_long"});
  if (!packs_documents(given.data)) names.emplace_back("data.document_mask");
  if (!source && !sets)
    names.insert(names.end(), {"data.source", "data.token_bytes", "data.synthetic_tokens", "data.seed"});
  if (!names_data(given)) names.insert(names.end(), {"data.val_source", "train.eval_batches"});
  if (!sets && !fraction) names.emplace_back("data.val_fraction");
  if (!source || given.data.source != "synthetic") names.insert(names.end(), kReading.begin(), kReading.end());
  return names;
}

}  // namespace

Options with_linears_of(Options given, const NamedTexts& run) {
  for (const char* const name : {"precision.linear", "precision.fp8_smallest"}) {
    const auto found = std::ranges::find(run, name, &NamedTexts::value_type::first);
    if (found != run.end() && !given.is_given(name)) take({name, found->second, "the checkpoint"}, given);
  }
  return given;
}

Options evaluation_options(const Options& given, const NamedTexts& run) {
  const Options defaults;
  std::map<std::string, std::string> of_run(run.begin(), run.end());
  if (!run.empty()) of_run.emplace("data.begin", "none");  // of a version without that option
  std::vector<std::string> arguments;
  for (const std::string_view name : wanted(given)) {
    const auto found = of_run.find(std::string(name));
    if (found == of_run.end() || given.is_given(name) || found->second == value_of(defaults, name)) continue;
    arguments.push_back(fmt::format("--{}={}", name, found->second));
  }
  if ((of_run.empty() || names_data(given)) && !given.is_given("train.eval_batches") && given.eval.choices.empty())
    arguments.emplace_back("--train.eval_batches=0");
  for (const OptionValue& option : flat_options(given)) {
    if (option.given) arguments.push_back(fmt::format("--{}={}", option.name, option.value));
  }
  Options options = parse_arguments(arguments);
  options.run.device = given.run.device;
  options.run.deterministic = given.run.deterministic;
  options.model = given.model;
  if (!options.eval.choices.empty()) return options;
  const bool has_text = options.is_given("data.source") || options.is_given("data.val_source") || !of_run.empty();
  if (!has_text || !options.data.has_validation()) {
    throw refusal("there is nothing to evaluate")
        .hint(
            "Give data.val_source (NAME:PATH,NAME:PATH for several), data.source with data.val_fraction, or "
            "eval.choices");
  }
  return options;
}

}  // namespace tessera
