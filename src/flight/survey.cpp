#include "tessera/flight/survey.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <system_error>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/process_owner.hpp"
#include "tessera/flight/recorder.hpp"
#include "tessera/telemetry/step_times.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kMostOperations = std::int64_t{1} << 24;
constexpr std::int64_t kSilence =
    2'000'000'000;  ///< nanoseconds without a heartbeat, on clocks that may differ a little
constexpr auto kRingBytes = static_cast<std::int64_t>(kFlightRecords * sizeof(FlightRecord));

template <std::size_t N>
std::string text_in(const std::array<char, N>& place) {
  return shown(std::string_view(place.data(), ::strnlen(place.data(), N)), N);
}

/// A rank's file, whose sizes are known to be right.
class FlightFile {
 public:
  explicit FlightFile(const std::filesystem::path& path) : path_(path), file_(open_file(path, OpenFor::reading)) {
    const std::int64_t bytes = size_of_file(file_, path);
    require(bytes >= static_cast<std::int64_t>(sizeof header_), "is too short for a flight file");
    read_at(file_, path_, 0, &header_, sizeof header_);
    require(header_.magic == kFlightMagic, "is not a flight file");
    require(header_.version == kFlightVersion, "is a flight file of another version of Tessera");
    require(header_.operations >= 1 && header_.operations <= kMostOperations && header_.rank >= 0 &&
                header_.rank < header_.world && static_cast<std::uint32_t>(header_.phase) < kFlightPhases.size() &&
                bytes == rings_at() + kFlightRings * kRingBytes,
            "is damaged");
  }
  const FlightHeader& header() const { return header_; }

  /// Returns the last record of a stream, or the first that is under way: segments are noted when they are submitted.
  /// The rank may be writing, so each is read twice and must not change between.
  FlightOperationSeen last(int stream) const {
    std::array<std::array<FlightRecord, kFlightRecords>, 2> ring;
    for (auto& once : ring) read_at(file_, path_, rings_at() + stream * kRingBytes, &once, kRingBytes);
    FlightOperationSeen seen;
    for (std::size_t i = 0; i < kFlightRecords; ++i) {
      const FlightRecord &first = ring[0][i], &again = ring[1][i];
      const bool is_whole = again.number > 0 && again.number % kFlightRecords == i && first.number == again.number &&
                            first.begin == again.begin && again.operation >= 0 &&
                            again.operation < header_.operations && (again.end == 0 || again.end >= again.begin);
      const auto comes_later = [&](const FlightRecord& than) {
        if (than.number == 0 || (than.end == 0) != (again.end == 0)) return than.number == 0 || again.end == 0;
        return again.end == 0 ? again.number < than.number : again.number > than.number;
      };
      if (is_whole && comes_later(seen.record)) seen.record = again;
    }
    if (seen.record.number == 0) return seen;
    FlightOperation operation;
    read_at(file_, path_, static_cast<std::int64_t>(sizeof header_ + sizeof operation * seen.record.operation),
            &operation, sizeof operation);
    require(static_cast<int>(operation.work) < kFlightWorks, "is damaged");
    seen.name = text_in(operation.name);
    seen.work = operation.work;
    return seen;
  }

 private:
  void require(bool is_right, const char* wrong) const {
    if (!is_right) throw IoError("{} {}", path_.string(), wrong);
  }
  std::int64_t rings_at() const {
    return static_cast<std::int64_t>(sizeof header_) +
           header_.operations * static_cast<std::int64_t>(sizeof(FlightOperation));
  }

  std::filesystem::path path_;
  FileDescriptor file_;
  FlightHeader header_;
};

RankLife life_of(const FlightHeader& header, char state) {
  if (header.end == FlightEnd::finished) return RankLife::finished;
  if (header.end != FlightEnd::none) return RankLife::failed;
  switch (state) {
    case 'T':
    case 't':
      return RankLife::stopped;
    case 'Z':
    case 'X':
      return RankLife::gone;
    case '?':
      return unix_time() * 1e9 - static_cast<double>(header.heartbeat_unix) > kSilence ? RankLife::silent
                                                                                       : RankLife::running;
    default:
      return RankLife::running;
  }
}

}  // namespace

std::string RankFlight::host() const { return text_in(header.host); }

double RankFlight::seconds_run_since(std::int64_t time) const {
  const auto since = static_cast<double>(time), until = static_cast<double>(now);
  const double stopped = std::min(until, static_cast<double>(header.stopped_until)) -
                         std::max(since, static_cast<double>(header.stopped_from));
  return (until - since - std::max(stopped, 0.0)) / 1e9;
}

const FlightOperationSeen* RankFlight::current() const {
  const FlightOperationSeen* best = nullptr;
  const auto comes_first = [this](const FlightOperationSeen& a, const FlightOperationSeen& b) {
    if (a.is_under_way() != b.is_under_way()) return a.is_under_way();
    if (!a.is_under_way()) return a.record.begin > b.record.begin;
    const bool collective = a.work == FlightWork::collective;
    if (collective != (b.work == FlightWork::collective)) return collective;
    const FlightOperationSeen* const segment = &last[kFlightSegments];  // what it consists of tells more
    if ((&a == segment) != (&b == segment)) return &b == segment;
    return a.record.begin < b.record.begin;
  };
  for (const FlightOperationSeen& one : last) {
    if (one.record.number > 0 && (best == nullptr || comes_first(one, *best))) best = &one;
  }
  return best;
}

RankFlight read_flight(const std::filesystem::path& path) {
  const FlightFile file(path);
  RankFlight rank;
  rank.header = file.header();
  for (int stream = 0; stream < kFlightRings; ++stream) rank.last[static_cast<std::size_t>(stream)] = file.last(stream);
  ProcessOwner owner;
  owner.system = text_in(rank.header.system);
  owner.pid = rank.header.pid, owner.started = rank.header.pid_started;
  const char state = state_of(owner);
  rank.life = life_of(rank.header, state);
  const bool lives_here = state != '?' && (rank.life == RankLife::running || rank.life == RankLife::stopped);
  rank.now = std::max(lives_here ? steady_nanoseconds() : rank.header.heartbeat, rank.header.phase_since);
  for (const FlightOperationSeen& one : rank.last) rank.now = std::max({rank.now, one.record.begin, one.record.end});
  return rank;
}

FlightSurvey survey(const std::vector<std::filesystem::path>& folders) {
  FlightSurvey found;
  std::map<std::string, std::map<std::int32_t, RankFlight>> starts;
  std::string latest;
  std::int64_t latest_heartbeat = -1;
  for (const auto& folder : folders) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      if (!entry.path().filename().string().starts_with("rank-") || !entry.is_regular_file(error)) continue;
      try {
        RankFlight rank = read_flight(entry.path());
        const std::string start = text_in(rank.header.start);
        if (rank.header.heartbeat_unix > latest_heartbeat)
          latest = start, latest_heartbeat = rank.header.heartbeat_unix;
        auto& place = starts[start];
        const auto known = place.find(rank.header.rank);
        if (known == place.end() || known->second.header.heartbeat_unix < rank.header.heartbeat_unix)
          place[rank.header.rank] = std::move(rank);
      } catch (const Error& wrong) {
        found.refused.emplace_back(wrong.what());
      }
    }
    if (error) found.refused.push_back(fmt::format("{} cannot be read ({})", folder.string(), error.message()));
  }
  for (auto& [number, rank] : starts[latest]) found.ranks.push_back(std::move(rank));
  if (!found.ranks.empty()) return found;
  throw IoError("{} has no flight file that can be read{}", folders.at(0).string(),
                found.refused.empty() ? "" : ": " + found.refused[0]);
}

FlightSurvey survey_run(const std::filesystem::path& run) {
  std::vector<std::filesystem::path> folders{run / "flight"};
  std::string local;
  std::error_code ignored;
  if (std::ifstream file(folders[0] / kNodeLocal); std::getline(file, local)) {
    if (std::filesystem::is_directory(local, ignored)) folders.emplace_back(local);
  }
  return survey(folders);
}

void note_stopped(const std::filesystem::path& folder, const FlightSurvey& survey, std::int64_t by) {
  for (const RankFlight& rank : survey.ranks) {
    if (rank.life != RankLife::stopped) continue;
    try {
      const auto path = folder / fmt::format("rank-{}", rank.header.rank);
      const auto mark = static_cast<std::uint32_t>(by + 1);
      write_at(open_file(path, OpenFor::writing), path, offsetof(FlightHeader, seen_stopped), &mark, sizeof mark);
    } catch (const IoError&) {
      continue;  // the report says it
    }
  }
}

}  // namespace tessera
