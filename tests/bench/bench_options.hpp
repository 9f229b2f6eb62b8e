#pragma once
// Common parts of the benches' tests: a small run, and the numbers in a table.

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/config/options.hpp"

namespace tessera::test {

/// A decoder that trains in milliseconds.
inline Options small_run() {
  return parse_arguments({"--model.family=gpt2", "--model.layers=3", "--model.heads=2", "--model.width=32",
                          "--model.vocab=97", "--model.context=16", "--train.micro_batch=2", "--train.accumulation=2",
                          "--run.threads=1", "--bench.steps=2", "--bench.warmup=1"});
}

/// Returns the lines of `text` that begin with `start`, apart from blanks.
inline std::vector<std::string> lines_of(const std::string& text, const std::string& start) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.substr(std::min(line.find_first_not_of(' '), line.size())).starts_with(start)) found.push_back(line);
  }
  return found;
}

/// Returns the last `count` words of a line as numbers; a word that is none becomes NaN.
inline std::vector<double> last_numbers(const std::string& line, std::size_t count) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  std::vector<double> numbers;
  for (std::size_t i = words.size() - std::min(count, words.size()); i < words.size(); ++i) {
    std::size_t end = 0;
    try {
      numbers.push_back(std::stod(words[i], &end));
    } catch (const std::exception&) {
      end = 0;
    }
    if (end == 0) numbers.push_back(std::nan(""));
  }
  return numbers;
}

}  // namespace tessera::test
