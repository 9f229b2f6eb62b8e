#include <sys/resource.h>

#include <algorithm>
#include <csignal>

#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/run/event_file.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

std::string unhexed(std::string_view hexadecimal) {
  std::string bytes;
  for (std::size_t i = 0; i < hexadecimal.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hexadecimal.substr(i, 2)), nullptr, 16));
  return bytes;
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

// The bytes that tensorboard 2.21's own RecordWriter makes of the same events.
constexpr const char* kVersion = "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c";
constexpr const char* kStart = "0f000000000000006d532b0909000000000000f83f10083a0208019571c7d1";
constexpr const char* kSummary =
    "3200000000000000241956ec09000000000000044010ac022a240a110a0a747261696e2f6c6f7373150000a03f0a0f0a08747261696e2f6c72"
    "150000003fe2af1039";

}  // namespace

TEST_CASE("the checksum of event files is CRC-32C") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xe3069283);
  // RFC 3720, B.4
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising += static_cast<char>(i);
  CHECK(crc32c(rising) == 0x46dd794e);
}

TEST_CASE("an event file has the bytes that TensorBoard's own writer makes") {
  const TemporaryFolder folder;
  EventFile events(folder / "tensorboard", 1.5, 8);
  REQUIRE(files_in(folder / "tensorboard").size() == 1);
  const std::filesystem::path path = files_in(folder / "tensorboard").front();
  CHECK(path.filename() == "events.out.tfevents.0000000001.tessera");
  CHECK(read_file(path) == unhexed(kVersion) + unhexed(kStart));
  events.append(2.5, 300, {{"train/loss", 1.25}, {"train/lr", 0.5}});
  CHECK(read_file(path) == unhexed(kVersion) + unhexed(kStart) + unhexed(kSummary));
}

TEST_CASE("a later start's event file comes behind the others by name, whatever its clock says") {
  const TemporaryFolder folder;
  for (const double now : {2e9, 2e9, 1e9}) const EventFile events(folder.path(), now, 1);
  const auto files = files_in(folder.path());
  REQUIRE(files.size() == 3);
  CHECK(files[0].filename() == "events.out.tfevents.2000000000.tessera");
  CHECK(files[2].filename() == "events.out.tfevents.2000000002.tessera");
}

TEST_CASE("an event file that cannot be made or written is an error that names it") {
  const TemporaryFolder folder;
  write_file(folder / "file", "in the way");
  CHECK_THAT(message_of<IoError>([&] { EventFile(folder / "file", 1, 1); }),
             Catch::Contains((folder / "file").string()));
  EventFile events(folder / "full", 1, 1);
  // A disk without space, as a limit of this process.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string message = message_of<IoError>([&] { events.append(1, 1, {{"train/loss", 1}}); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK_THAT(message, Catch::Contains("events.out.tfevents.0000000001.tessera"));
}
