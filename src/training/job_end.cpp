#include "training/job_end.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

#include "tessera/base/environment.hpp"

namespace tessera {

namespace {

/// Reads the seconds since 1970 at the start of a text that goes on with a blank or ends; nothing if it has none.
std::optional<double> seconds_in(const char* text) {
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || (*end != '\0' && *end != ' ') || !(seconds > 0)) return std::nullopt;
  return seconds;
}

}  // namespace

double job_end_at_start() {
  return seconds_in(variable("SLURM_JOB_END_TIME").c_str()).value_or(std::numeric_limits<double>::infinity());
}

std::optional<double> job_end_now(double patience) {
  const std::string job = variable("SLURM_JOB_ID");
  if (job.empty() || job.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  // popen does not copy the address space as fork does, which not every MPI library allows. Of an array's tasks one has
  // the number of the whole array, so that scontrol tells of all of them.
  const std::string command = fmt::format(
      "SLURM_TIME_FORMAT=%s timeout -s KILL {} scontrol --oneliner show job {} 2>/dev/null | grep '^JobId={} '",
      patience, job, job);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> answer(::popen(command.c_str(), "re"), ::pclose);
  if (!answer) return std::nullopt;
  std::string text;
  std::array<char, 4096> block{};
  while (std::fgets(block.data(), block.size(), answer.get()) != nullptr) text += block.data();
  const std::string_view key = " EndTime=";
  const auto place = text.find(key);
  return place == std::string::npos ? std::nullopt : seconds_in(text.c_str() + place + key.size());
}

}  // namespace tessera
