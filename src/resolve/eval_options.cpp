#include "tessera/resolve/eval_options.hpp"

#include <array>
#include <map>

#include "tessera/base/refuse.hpp"
#include "tessera/config/describe.hpp"

namespace tessera {

namespace {

/// What decides the bits of an evaluation, apart from its data; the run's folder is for the cache next to it.
constexpr std::array<std::string_view, 4> kCompute{"train.micro_batch", "precision.compute", "run.dir", "run.name"};
/// How text becomes tokens, apart from the tokenizer.
constexpr std::array<std::string_view, 4> kReading{"data.text_key", "data.separator", "data.on_error", "data.cache"};

/// Returns the options whose values the checkpoint's run has, unless they are given.
std::vector<std::string_view> wanted(const Options& given) {
  std::vector<std::string_view> names(kCompute.begin(), kCompute.end());
  const bool source = given.is_given("data.source"), sets = given.is_given("data.val_source"),
             fraction = given.is_given("data.val_fraction");
  if (!given.is_given("precision.compute")) names.emplace_back("precision.logits");  // fp32 has no other choice
  if (!given.eval.choices.empty()) return names;
  names.insert(names.end(), {"train.seq_len", "train.eval_batches", "data.document_mask"});
  if (!source && !sets) names.insert(names.end(), {"data.source", "data.synthetic_tokens", "data.seed"});
  if (!source && !sets && !fraction) names.emplace_back("data.val_source");
  if (!sets && !fraction) names.emplace_back("data.val_fraction");
  if (!source || given.data.source != "synthetic") names.insert(names.end(), kReading.begin(), kReading.end());
  return names;
}

}  // namespace

Options evaluation_options(const Options& given, const NamedTexts& run) {
  const Options defaults;
  const std::map<std::string, std::string> of_run(run.begin(), run.end());
  std::map<std::string, std::string> by_default;
  for (const OptionValue& option : flat_options(defaults)) by_default[option.name] = option.value;
  std::vector<std::string> arguments;
  for (const std::string_view name : wanted(given)) {
    const auto found = of_run.find(std::string(name));
    if (found == of_run.end() || given.is_given(name) || found->second == by_default[found->first]) continue;
    arguments.push_back(fmt::format("--{}={}", name, found->second));
  }
  if (of_run.empty() && !given.is_given("train.eval_batches") && given.eval.choices.empty())
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
