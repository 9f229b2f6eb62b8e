#include "tessera/run/event_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <bit>
#include <boost/crc.hpp>
#include <charconv>

#include "tessera/base/error.hpp"
#include "tessera/files/byte_file.hpp"

namespace tessera {

namespace {

constexpr std::string_view kEventPrefix = "events.out.tfevents.";

// Keys of protobuf fields: the field's number, and how its value is coded (0 varint, 1 and 5 fixed, 2 with a length).
constexpr char kWallTime = 1 << 3 | 1, kStep = 2 << 3, kFileVersion = 3 << 3 | 2, kSummary = 5 << 3 | 2,
               kSessionLog = 7 << 3 | 2;                                           // of Event
constexpr char kValue = 1 << 3 | 2, kTag = 1 << 3 | 2, kSimpleValue = 2 << 3 | 5;  // of Summary and its values
constexpr std::string_view kStart = "\x08\x01";                                    // SessionLog: status is START

template <class T>
std::string fixed(T value) {
  static_assert(std::endian::native == std::endian::little);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text += static_cast<char>(value);
}

std::string field(char key, std::string_view content) { return key + varint(content.size()).append(content); }

/// Returns an event in a frame of TFRecord: length and event, each with its checksum.
std::string record(double unix_time, std::int64_t step, const std::string& what) {
  const auto checked = [](const std::string& of) { return of + fixed(std::rotr(crc32c(of), 15) + 0xa282ead8u); };
  std::string event = kWallTime + fixed(unix_time);
  if (step > 0) event += kStep + varint(static_cast<std::uint64_t>(step));
  event += what;
  return checked(fixed(std::uint64_t{event.size()})) + checked(event);
}

/// Returns a name that sorts after those of all other files, although clocks differ between nodes.
std::string next_name(const std::filesystem::path& folder, double unix_time) {
  auto second = static_cast<std::int64_t>(unix_time);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::int64_t other = -1;
    if (name.starts_with(kEventPrefix))
      std::from_chars(name.data() + kEventPrefix.size(), name.data() + name.size(), other);
    if (other >= second) second = other + 1;
  }
  return fmt::format("{}{:010}.tessera", kEventPrefix, second);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1edc6f41, ~0u, ~0u, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

EventFile::EventFile(const std::filesystem::path& folder, double unix_time, std::int64_t first_step) {
  try {
    std::filesystem::create_directories(folder);
    path_ = folder / next_name(folder, unix_time);
  } catch (const std::filesystem::filesystem_error& error) {
    throw IoError("cannot use folder {} ({})", folder.string(), error.code().message());
  }
  file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
  if (!file_) fail_to("create", path_);
  write_all(file_, path_,
            record(unix_time, 0, field(kFileVersion, "brain.Event:2")) +
                record(unix_time, first_step, field(kSessionLog, kStart)));
}

void EventFile::append(double unix_time, std::int64_t step, const EventScalars& scalars) {
  std::string values;
  for (const auto& [tag, value] : scalars)
    values += field(kValue, field(kTag, tag) + kSimpleValue + fixed(static_cast<float>(value)));
  write_all(file_, path_, record(unix_time, step, field(kSummary, values)));
}

}  // namespace tessera
