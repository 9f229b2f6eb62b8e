#include "golden/golden_file.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tessera/base/environment.hpp"

namespace tessera::testing {

namespace {

constexpr std::string_view kBetween = " | ";

std::filesystem::path path_of(const std::string& name) { return std::filesystem::path(TESSERA_GOLDEN_DIR) / name; }

bool updates() { return variable("TESSERA_UPDATE") == "1"; }

std::vector<GoldenEntry> read(const std::string& name) {
  std::vector<GoldenEntry> entries;
  std::ifstream file(path_of(name));
  for (std::string line; std::getline(file, line);) {
    const auto at = line.rfind(kBetween);
    if (line.starts_with("#") || at == std::string::npos) continue;
    entries.push_back({line.substr(0, at), line.substr(at + kBetween.size())});
  }
  return entries;
}

/// Comment lines of an existing file are kept.
void write(const std::string& name, const std::vector<GoldenEntry>& entries) {
  std::string text;
  std::ifstream old(path_of(name));
  for (std::string line; std::getline(old, line) && line.starts_with("#");) text += line + "\n";
  for (const GoldenEntry& entry : entries) text += fmt::format("{}{}{}\n", entry.key, kBetween, entry.value);
  std::ofstream(path_of(name)) << text;
  WARN(name << " is written anew");
}

}  // namespace

std::vector<std::size_t> check_golden(const std::string& name, const std::vector<GoldenEntry>& entries, bool some) {
  if (updates() && !some) write(name, entries);
  std::map<std::string, std::string> golden;
  for (auto& [key, value] : read(name)) golden.emplace(key, value);
  std::vector<std::size_t> wrong;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [key, value] = entries[i];
    REQUIRE(seen.insert(key).second);
    const auto found = golden.find(key);
    INFO(name << ": " << key);
    if (found == golden.end()) {
      FAIL_CHECK("is not in the golden file: " << value);
    } else if (found->second != value) {
      FAIL_CHECK("golden " << found->second << "\n   now " << value);
    } else {
      continue;
    }
    wrong.push_back(i);
  }
  for (const auto& [key, value] : golden) {
    if (!some && !seen.contains(key)) FAIL_CHECK(name << ": nothing makes this entry any more: " << key);
  }
  return wrong;
}

bool has_golden(const std::string& name) { return updates() || std::filesystem::exists(path_of(name)); }

std::string hash_of(const void* bytes, std::size_t count) { return fmt::format("{:016x}", XXH3_64bits(bytes, count)); }

std::string output_folder() {
  std::filesystem::create_directories(TESSERA_GOLDEN_OUTPUT);
  return TESSERA_GOLDEN_OUTPUT;
}

}  // namespace tessera::testing
