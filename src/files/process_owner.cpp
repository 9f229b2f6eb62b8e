#include "tessera/files/process_owner.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tessera/base/environment.hpp"

namespace tessera {

namespace {

/// Reads a text; empty if there is no such file.
std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string this_system() {
  std::error_code unseen;
  std::string boot = text_of("/proc/sys/kernel/random/boot_id");
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  return fmt::format("{} {}", boot, std::filesystem::read_symlink("/proc/self/ns/pid", unseen).string());
}

/// Reads a field of /proc/PID/stat, 3 or a later one; empty if there is no such process.
std::string stat_field(std::int64_t pid, int number) {
  const std::string text = text_of(fmt::format("/proc/{}/stat", pid));
  const auto name_end = text.rfind(')');  // the name may hold any characters
  if (name_end == std::string::npos) return "";
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= number; ++i) fields >> field;
  return fields ? field : "";
}

/// Returns when a process started, in clock ticks since boot; -1 if there is none.
std::int64_t start_of(std::int64_t pid) {
  const std::string ticks = stat_field(pid, 22);
  return ticks.empty() ? -1 : std::strtoll(ticks.c_str(), nullptr, 10);
}

/// A process that ends gives its memory back first, and its locks after that.
bool has_memory(std::int64_t pid) {
  const std::string status = text_of(fmt::format("/proc/{}/status", pid));
  return status.find("\nVmRSS:") != std::string::npos && status.find("\nCoreDumping:\t1") == std::string::npos;
}

std::string random_word() {
  std::random_device draw;
  return fmt::format("{:08x}{:08x}", draw(), draw());
}

}  // namespace

ProcessOwner ProcessOwner::me() {
  ProcessOwner owner;
  owner.nonce = random_word();
  owner.host = host_name();
  owner.job = variable("SLURM_JOB_ID");
  owner.restarts = std::strtoll(variable("SLURM_RESTART_COUNT").c_str(), nullptr, 10);
  owner.system = this_system();
  owner.pid = ::getpid();
  owner.started = start_of(owner.pid);
  return owner;
}

std::string ProcessOwner::text() const {
  const nlohmann::ordered_json json = {{"nonce", nonce},       {"host", host},     {"pid", pid},        {"job", job},
                                       {"restarts", restarts}, {"system", system}, {"started", started}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string ProcessOwner::words() const {
  return fmt::format("process {} on {}{}", pid, host, job.empty() ? "" : fmt::format(" (Slurm job {})", job));
}

std::optional<ProcessOwner> read_owner(const std::filesystem::path& path) {
  const auto json = nlohmann::json::parse(text_of(path), nullptr, false);
  try {
    ProcessOwner owner;
    owner.nonce = json.at("nonce").get<std::string>();
    owner.host = json.at("host").get<std::string>();
    owner.pid = json.at("pid").get<std::int64_t>();
    owner.job = json.at("job").get<std::string>();
    owner.restarts = json.at("restarts").get<std::int64_t>();
    owner.system = json.at("system").get<std::string>();
    owner.started = json.at("started").get<std::int64_t>();
    return owner;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void remove_owner(const std::filesystem::path& path, const std::string& nonce, const std::filesystem::path& aside) {
  if (::rename(path.c_str(), aside.c_str()) != 0) return;
  const auto moved = read_owner(aside);
  if ((moved ? moved->nonce : "") != nonce) static_cast<void>(::link(aside.c_str(), path.c_str()));
  ::unlink(aside.c_str());
}

OwnerLife life_of(const ProcessOwner& owner) {
  if (owner.system != this_system()) return OwnerLife::unknown;
  if (start_of(owner.pid) != owner.started) return OwnerLife::gone;
  return has_memory(owner.pid) ? OwnerLife::running : OwnerLife::unknown;
}

char state_of(const ProcessOwner& owner) {
  if (owner.system != this_system()) return '?';
  const std::string state = stat_field(owner.pid, 3);
  return state.empty() || start_of(owner.pid) != owner.started ? 'X' : state[0];
}

bool has_ended(const ProcessOwner& owner) {
  const char state = state_of(owner);
  return state == 'Z' || state == 'X';
}

}  // namespace tessera
