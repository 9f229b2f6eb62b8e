#pragma once
// File systems by the type that the kernel reports.

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace tessera {

/// Who can see what is written.
enum class FileSystemReach : std::uint8_t {
  machine,  ///< all who see it do so through one kernel
  network,  ///< other machines, too
  unknown
};

struct FileSystem {
  std::string_view name;
  FileSystemReach reach = FileSystemReach::unknown;
};

/// Returns the file system of an existing path; "unknown" where it is not one of the table's.
FileSystem file_system_of(const std::filesystem::path& path);

}  // namespace tessera
