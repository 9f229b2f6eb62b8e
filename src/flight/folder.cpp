// Where the files of a run's ranks lie.

#include <system_error>

#include "tessera/base/environment.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/files/file_system.hpp"
#include "tessera/flight/recorder.hpp"

namespace tessera {

namespace {

/// Returns whether a file system is reached over a network. A mapped file there would be written back over it, again
/// and again, from every rank.
bool lies_on_network(const std::filesystem::path& path) {
  return file_system_of(path).reach == FileSystemReach::network;
}

}  // namespace

FlightFolder flight_folder(const std::filesystem::path& run, const std::string& start, std::int64_t rank) {
  return flight_folder(run, start, rank, lies_on_network(run));
}

FlightFolder flight_folder(const std::filesystem::path& run, const std::string& start, std::int64_t rank,
                           bool is_on_network) {
  const std::filesystem::path shared = run / "flight";
  make_folder(shared);
  std::error_code ignored;
  if (!is_on_network) {
    if (rank == 0) std::filesystem::remove(shared / kNodeLocal, ignored);
    return {shared, false};
  }
  const std::filesystem::path given = variable("TMPDIR");
  const bool takes_given = std::filesystem::is_directory(given, ignored) && !lies_on_network(given);
  const auto local = (takes_given ? given : std::filesystem::path("/dev/shm")) / ("tessera-flight-" + start);
  make_folder(local);
  if (rank == 0) write_text_atomically(shared / kNodeLocal, local.string() + "\n", false);
  return {local, true};
}

}  // namespace tessera
