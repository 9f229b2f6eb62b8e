#pragma once
// Programs and variables of a test's own.

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "temporary_folder.hpp"

namespace tessera::test {

/// An environment variable has this value during its lifetime.
class FakeVariable {
 public:
  FakeVariable(std::string name, const std::string& value) : name_(std::move(name)) {
    const char* const before = std::getenv(name_.c_str());
    was_set_ = before != nullptr;
    before_ = was_set_ ? before : "";
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~FakeVariable() {
    if (was_set_) ::setenv(name_.c_str(), before_.c_str(), 1);
    if (!was_set_) ::unsetenv(name_.c_str());
  }
  FakeVariable(const FakeVariable&) = delete;
  FakeVariable& operator=(const FakeVariable&) = delete;

 private:
  std::string name_, before_;
  bool was_set_ = false;
};

/// Names and texts of shell scripts.
using Scripts = std::vector<std::pair<std::string, std::string>>;

/// PATH with shell scripts in front, by name, during its lifetime.
class FakePrograms {
 public:
  explicit FakePrograms(const Scripts& scripts) : path_("PATH", folder_.path().string() + ":" + std::getenv("PATH")) {
    for (const auto& [name, script] : scripts) {
      const std::filesystem::path file = folder_.write(name, "#!/bin/sh\n" + script);
      std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    }
  }
  const testing::TemporaryFolder& folder() const { return folder_; }

 private:
  testing::TemporaryFolder folder_;
  FakeVariable path_;
};

}  // namespace tessera::test
