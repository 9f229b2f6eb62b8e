#include "tessera/kernels/attention_verdicts.hpp"

#include <algorithm>
#include <sstream>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera {

std::string AttentionVerdict::description() const {
  if (ordered == 0) return "the library offers no ordered one";
  const auto time = [](std::int64_t nanoseconds) { return format_seconds(static_cast<double>(nanoseconds) * 1e-9); };
  return fmt::format("{} by own kernels, {} in order, {}", time(own), time(ordered),
                     same == 0 ? "a wrong result" : fmt::format("{} of {} times the same bits", same, kRepetitions));
}

std::string text_of(const AttentionVerdicts& verdicts) {
  std::string text;
  for (const auto& [key, v] : verdicts) {
    text += "attention";
    for (const std::int64_t number : key) text += fmt::format(" {}", number);
    text += fmt::format(" : {} {} {} {}\n", v.takes_ordered() ? "ordered" : "own", v.own, v.ordered, v.same);
  }
  return text;
}

AttentionVerdicts take_verdicts(std::string& text) {
  AttentionVerdicts verdicts;
  std::size_t end = 0;
  while (text.compare(end, 10, "attention ") == 0) {
    std::istringstream words(text.substr(end + 10));
    std::vector<std::int64_t> key;
    AttentionVerdict verdict;
    for (std::int64_t number = 0; words >> number;) key.push_back(number);
    words.clear();
    std::string colon, choice;
    words >> colon >> choice >> verdict.own >> verdict.ordered >> verdict.same;
    verdicts[key] = verdict;
    end = std::min(text.size(), text.find('\n', end) + 1);
    if (end == 0 || !words) break;
  }
  // The text must come back as it was written, because a shortened number would be a number too.
  if (text_of(verdicts) != text.substr(0, end)) throw IoError("a row of attention's backward is damaged");
  text.erase(0, end);
  return verdicts;
}

}  // namespace tessera
