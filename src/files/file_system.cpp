#include "tessera/files/file_system.hpp"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tessera {

namespace {

using Reach = FileSystemReach;

// linux/magic.h, and the parallel file systems' own sources
constexpr std::array<std::pair<std::uint32_t, FileSystem>, 13> kTypes{{{0xEF53, {"ext4", Reach::machine}},
                                                                       {0x58465342, {"XFS", Reach::machine}},
                                                                       {0x9123683E, {"Btrfs", Reach::machine}},
                                                                       {0x01021994, {"tmpfs", Reach::machine}},
                                                                       {0x794C7630, {"overlay", Reach::machine}},
                                                                       {0x2FC12FC1, {"ZFS", Reach::unknown}},
                                                                       {0x6969, {"NFS", Reach::network}},
                                                                       {0x0BD00BD0, {"Lustre", Reach::network}},
                                                                       {0x47504653, {"GPFS", Reach::network}},
                                                                       {0x19830326, {"BeeGFS", Reach::network}},
                                                                       {0x00C36400, {"Ceph", Reach::network}},
                                                                       {0xFF534D42, {"CIFS", Reach::network}},
                                                                       {0xFE534D42, {"SMB 2", Reach::network}}}};

}  // namespace

FileSystem file_system_of(const std::filesystem::path& path) {
  struct statfs about {};
  const FileSystem unknown{"unknown", Reach::unknown};
  if (::statfs(path.c_str(), &about) != 0) return unknown;
  const auto* const found =
      std::ranges::find(kTypes, static_cast<std::uint32_t>(about.f_type), [](const auto& type) { return type.first; });
  return found != kTypes.end() ? found->second : unknown;
}

}  // namespace tessera
