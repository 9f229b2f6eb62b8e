#pragma once
// The surroundings of this process: environment variables, and the host.

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// Returns the value; empty if the variable is not set.
inline std::string variable(const char* name) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): the environment never changes
  return text != nullptr ? text : "";
}

/// Returns "node1.cluster", as the kernel says.
inline std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// Returns all variables as NAME=VALUE.
inline std::vector<std::string> all_variables() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) out.emplace_back(*entry);
  return out;
}

/// Returns what a shell's command writes, and its status (-1: it cannot be started). popen does not copy the address
/// space as fork does, which not every MPI library allows.
inline std::pair<std::string, int> shell_output(const std::string& command) {
  std::FILE* const answer = ::popen(command.c_str(), "re");
  if (answer == nullptr) return {"", -1};
  std::string text;
  std::array<char, 4096> block{};
  while (std::fgets(block.data(), block.size(), answer) != nullptr) text += block.data();
  return {std::move(text), ::pclose(answer)};
}

}  // namespace tessera
