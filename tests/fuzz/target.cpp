#include "fuzz/target.hpp"

#include <unistd.h>

#include <fstream>

namespace tessera::fuzz {

namespace {

/// A folder in memory, for as long as the process runs.
class InputFolder {
 public:
  InputFolder() : path_(std::filesystem::path("/dev/shm") / fmt::format("tessera-fuzz-{}", ::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~InputFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

std::filesystem::path write_input(const std::string& name, std::string_view bytes) {
  static const InputFolder folder;
  std::ofstream file(folder.path() / name, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return folder.path() / name;
}

std::vector<std::string_view> parts_of(std::string_view input) {
  constexpr std::string_view line = "\n----\n";
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; (end = input.find(line)) != std::string_view::npos; input.remove_prefix(end + line.size()))
    parts.push_back(input.substr(0, end));
  parts.push_back(input);
  return parts;
}

}  // namespace tessera::fuzz
