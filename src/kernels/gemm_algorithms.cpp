#include "tessera/kernels/gemm_algorithms.hpp"

#include <fmt/format.h>

#include <sstream>

#include "tessera/base/error.hpp"

namespace tessera {

const GemmAlgorithm* GemmAlgorithms::find(const Key& key) const {
  const auto found = all_.find(key);
  return found == all_.end() ? nullptr : &found->second;
}

std::string GemmAlgorithms::text() const {
  std::string text;
  for (const auto& [key, choice] : all_) {
    for (const std::int64_t number : key) text += fmt::format("{} ", number);
    text += fmt::format(": {} {}", choice.possible, choice.workspace_bytes);
    for (const std::uint64_t word : choice.algorithm) text += fmt::format(" {:016x}", word);
    text += '\n';
  }
  return text;
}

namespace {

/// Reads one line; false if it is not one.
bool read_line(const std::string& line, GemmAlgorithms::Key& key, GemmAlgorithm& choice) {
  const std::size_t colon = line.find(" : ");
  if (colon == std::string::npos) return false;
  std::istringstream numbers(line.substr(0, colon)), rest(line.substr(colon + 3));
  for (std::int64_t number = 0; numbers >> number;) key.push_back(number);
  rest >> choice.possible >> choice.workspace_bytes >> std::hex;
  for (std::uint64_t& word : choice.algorithm) rest >> word;
  std::string more;
  return numbers.eof() && !rest.fail() && !(rest >> more) && choice.workspace_bytes >= 0 &&
         (choice.possible == 0 || choice.possible == 1);
}

}  // namespace

GemmAlgorithms GemmAlgorithms::parse(const std::string& text) {
  GemmAlgorithms choices;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    Key key;
    GemmAlgorithm choice;
    if (!read_line(line, key, choice)) throw IoError("line {} of the GEMM algorithms is damaged", number);
    choices.set(key, choice);
  }
  // The text must come back as it was written, because a shortened number would be a number too.
  if (choices.text() != text) throw IoError("the end of the GEMM algorithms is damaged");
  return choices;
}

}  // namespace tessera
