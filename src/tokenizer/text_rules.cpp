#include "tokenizer/text_rules.hpp"

#include <algorithm>
#include <cctype>

#include "tessera/base/error.hpp"
#include "tokenizer/pattern.hpp"

namespace tessera {

namespace {

/// Returns {"String": "..."} as it is.
const std::string& plain_pattern(const JsonAt& pattern) {
  pattern.require_keys({"String"});
  const JsonAt text = pattern.key("String");
  if (text.text().empty()) text.refuse("it needs characters");
  return text.text();
}

/// Returns a pattern that matches just this text.
std::string quoted(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (std::ispunct(static_cast<unsigned char>(c)) != 0) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

SplitBehavior read_behavior(const JsonAt& behavior) {
  const std::string& name = behavior.text();
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  behavior.refuse_unsupported("this behavior is not known");
}

TextRule split_at(std::string pattern, SplitBehavior behavior = SplitBehavior::isolated, bool invert = false) {
  return {TextRule::Kind::split, std::move(pattern), {}, behavior, invert};
}

TextRule prefixed(std::string text, bool first_only = false) {
  return {TextRule::Kind::prefix, {}, std::move(text), SplitBehavior::isolated, false, first_only};
}

TextRule read_split(const JsonAt& part) {
  part.require_keys({"type", "pattern", "behavior", "invert"});
  const JsonAt pattern = part.key("pattern");
  pattern.require_object();
  const JsonAt regex = pattern.key("Regex");
  const bool invert = part.key("invert").truth_or(false);
  const SplitBehavior behavior = read_behavior(part.key("behavior"));
  if (regex.is_null()) return split_at(quoted(plain_pattern(pattern)), behavior, invert);
  try {
    const Pattern checked(regex.text());
  } catch (const UsageError& error) {
    throw UsageError("{}: {}: {} {}.", regex.file(), regex.path(), error.what(), JsonAt::kElsewhere);
  }
  return split_at(regex.text(), behavior, invert);
}

/// Real files have up to ten rules, of which one makes texts three times as long.
void require_bounded(const JsonAt& part, const BpeDescription& description) {
  constexpr std::size_t kMostRules = 32;
  constexpr double kMostGrowth = 64;
  double growth = 1;
  for (const auto* rules : {&description.normal, &description.words}) {
    for (const TextRule& rule : *rules) {
      if (rule.kind == TextRule::Kind::replace)
        growth *= std::max(1.0, static_cast<double>(rule.to.size()) / static_cast<double>(rule.from.size()));
    }
  }
  if (description.normal.size() + description.words.size() > kMostRules || growth > kMostGrowth)
    part.refuse_unsupported("there are more than 32 rules, or they make texts more than 64 times as long");
}

void read_byte_level(const JsonAt& part, BpeDescription& description) {
  part.require_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  description.byte_level = true;
  if (part.key("add_prefix_space").truth()) description.words.push_back(prefixed(" "));
  if (part.key("use_regex").truth_or(true)) description.words.push_back(split_at(kGpt2Pattern));
}

void read_metaspace(const JsonAt& part, BpeDescription& description) {
  part.require_keys({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  const JsonAt replacement = part.key("replacement"), scheme = part.key("prepend_scheme");
  const std::string& mark = replacement.text();
  if (mark.empty()) replacement.refuse("a character is needed");
  description.mark = mark;
  description.words.push_back({TextRule::Kind::replace, " ", mark});
  // (Older files have add_prefix_space instead.)
  const std::string when = !scheme.is_null()                             ? scheme.text()
                           : part.key("add_prefix_space").truth_or(true) ? "always"
                                                                         : "never";
  if (when != "always" && when != "first" && when != "never") scheme.refuse("always, first or never is needed");
  if (when != "never") description.words.push_back(prefixed(mark, when == "first"));
  require_bounded(part, description);
  if (part.key("split").truth_or(true))
    description.words.push_back(split_at(quoted(mark), SplitBehavior::merged_with_next));
}

}  // namespace

void read_normalizer(const JsonAt& normalizer, BpeDescription& description) {
  if (normalizer.is_null()) return;
  normalizer.require_object();
  const std::string& type = normalizer.key("type").text();
  TextRule rule;
  if (type == "Sequence") {
    normalizer.require_keys({"type", "normalizers"});
    const JsonAt list = normalizer.key("normalizers");
    list.require_list();
    for (std::size_t i = 0; i < list.value().size(); ++i) read_normalizer(list.at(i), description);
    return;
  }
  if (type == "NFC") {
    normalizer.require_keys({"type"});
  } else if (type == "Prepend") {
    normalizer.require_keys({"type", "prepend"});
    rule = {TextRule::Kind::prepend, "", normalizer.key("prepend").text()};
  } else if (type == "Replace") {
    normalizer.require_keys({"type", "pattern", "content"});
    const JsonAt pattern = normalizer.key("pattern");
    rule = {TextRule::Kind::replace, plain_pattern(pattern), normalizer.key("content").text()};
    if (rule.from == " ") description.mark = rule.to;
  } else {
    normalizer.key("type").refuse_unsupported("only NFC, Prepend, Replace and a Sequence of these are supported");
  }
  description.normal.push_back(rule);
  require_bounded(normalizer, description);
}

void read_pre_tokenizer(const JsonAt& part, BpeDescription& description) {
  if (part.is_null()) return;
  part.require_object();
  const std::string& type = part.key("type").text();
  if (type == "ByteLevel") return read_byte_level(part, description);
  require_bounded(part, description);
  if (type == "Metaspace") return read_metaspace(part, description);
  if (type == "Split") return description.words.push_back(read_split(part));
  if (type == "Digits") {
    part.require_keys({"type", "individual_digits"});
    return description.words.push_back(split_at(part.key("individual_digits").truth() ? R"(\p{N})" : R"(\p{N}+)"));
  }
  if (type != "Sequence")
    part.key("type").refuse_unsupported(
        "only ByteLevel, Metaspace, Split, Digits and a Sequence of these are supported");
  part.require_keys({"type", "pretokenizers"});
  const JsonAt list = part.key("pretokenizers");
  list.require_list();
  for (std::size_t i = 0; i < list.value().size(); ++i) {
    // The byte alphabet has no spaces, digits or letters of the text, so that rules after it would mean something else.
    if (description.byte_level) list.at(i).key("type").refuse_unsupported("nothing is supported after ByteLevel");
    read_pre_tokenizer(list.at(i), description);
  }
}

}  // namespace tessera
