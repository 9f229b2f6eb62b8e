#include "tessera/telemetry/provenance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/algorithm/string/replace.hpp>
#include <fstream>
#include <limits>
#include <string_view>

#include "tessera/base/environment.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/instruction_set.hpp"
#include "tessera_build.hpp"

namespace tessera {

namespace {

std::string compiler() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#elif defined(__GNUC__)
  return "GCC " __VERSION__;
#else
  return "unknown";
#endif
}

/// Returns "node1 x4, node2 x4": every host once, in the order of first appearance.
std::string counted(const std::vector<std::string>& hosts) {
  std::vector<std::pair<std::string, int>> counts;
  for (const std::string& host : hosts) {
    const auto place = std::ranges::find(counts, host, &std::pair<std::string, int>::first);
    if (place == counts.end()) {
      counts.emplace_back(host, 1);
    } else {
      ++place->second;
    }
  }
  return joined(counts,
                [](const auto& one) { return one.first + (one.second > 1 ? fmt::format(" x{}", one.second) : ""); });
}

void add_from_environment(Facts& facts, const char* name, const char* from) {
  if (const std::string value = variable(from); !value.empty()) facts.emplace_back(name, value);
}

}  // namespace

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const auto value = line.find_first_not_of(" \t", line.find(':') + 1);
    if (line.find(':') != std::string::npos && value != std::string::npos) return line.substr(value);
  }
  return "unknown";
}

double load_average() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : std::numeric_limits<double>::quiet_NaN();
}

std::string cpu_isa() {
  constexpr std::array<const char*, 3> names{"baseline", "avx2", "avx512"};  // in the order of InstructionSet
  return names[static_cast<std::size_t>(best_instruction_set())];
}

std::string shell_quoted(const std::string& argument) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./=:,+@%").find(c) != std::string_view::npos;
  };
  if (!argument.empty() && std::all_of(argument.begin(), argument.end(), plain)) return argument;
  return "'" + boost::replace_all_copy(argument, "'", "'\\''") + "'";
}

Facts build_facts() {
  return {{"version", kBuildVersion},
          {"git_revision", kBuildGitRevision},
          {"compiler", compiler()},
          {"build_type", kBuildType}};
}

Facts provenance(const RunFacts& run) {
  Facts facts = build_facts();
  std::string command;
  for (const std::string& argument : run.command_line) {
    if (!command.empty()) command += ' ';
    command += shell_quoted(argument);
  }
  facts.emplace_back("command_line", command);
  facts.emplace_back("start_time", format_utc(run.start_unix_time));
  facts.emplace_back("hosts", run.hosts.empty() ? host_name() : counted(run.hosts));
  facts.emplace_back("cpu", cpu_model());
  facts.emplace_back("isa", cpu_isa());
  if (!run.gpu_name.empty()) facts.emplace_back("gpu_name", run.gpu_name);
  if (!run.gpu_driver.empty()) facts.emplace_back("gpu_driver", run.gpu_driver);
  if (!run.kernels.empty()) facts.emplace_back("kernels", run.kernels);
  for (const auto& [name, version] : run.libraries) facts.emplace_back(name + "_version", version);
  add_from_environment(facts, "slurm_job_id", "SLURM_JOB_ID");
  add_from_environment(facts, "slurm_array_task_id", "SLURM_ARRAY_TASK_ID");
  add_from_environment(facts, "slurm_restart_count", "SLURM_RESTART_COUNT");
  return facts;
}

}  // namespace tessera
