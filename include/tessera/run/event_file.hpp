#pragma once
// RUN/tensorboard/events.out.tfevents.*: scalars for TensorBoard, as TFRecords of its protobuf messages.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/file_descriptor.hpp"

namespace tessera {

/// Tags with their values, which a file holds as fp32.
using EventScalars = std::vector<std::pair<std::string, double>>;

/// Returns the checksum CRC-32C (Castagnoli).
std::uint32_t crc32c(std::string_view bytes);

/// The events of one start of a run. Each reaches the operating system in one write(2), so that a crash leaves only
/// whole records.
class EventFile {
 public:
  /// Creates a file that comes after those in `folder`, also by name, because TensorBoard reads them in that order.
  /// Readers drop the events of earlier files for step `first_step` and later ones. Throws IoError.
  EventFile(const std::filesystem::path& folder, double unix_time, std::int64_t first_step);
  /// Throws IoError; the file may then end within a record, so nothing may follow.
  void append(double unix_time, std::int64_t step, const EventScalars& scalars);

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace tessera
