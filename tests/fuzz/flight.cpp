// A flight file. An input has its header, a table of one operation and some records, which are put where their numbers
// say: a whole file would be mostly zeros.
#include <cstring>

#include "fuzz/target.hpp"
#include "tessera/flight/record.hpp"
#include "tessera/flight/survey.hpp"

using namespace tessera;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kFront = sizeof(FlightHeader) + sizeof(FlightOperation);
  std::string file(kFront + kFlightRings * kFlightRecords * sizeof(FlightRecord), '\0');
  std::memcpy(file.data(), data, std::min(size, kFront));
  for (std::size_t i = 0; kFront + (i + 1) * sizeof(FlightRecord) <= size; ++i) {
    FlightRecord record;
    std::memcpy(&record, data + kFront + i * sizeof record, sizeof record);
    const std::size_t slot = i % kFlightRings * kFlightRecords + record.number % kFlightRecords;
    std::memcpy(file.data() + kFront + slot * sizeof record, &record, sizeof record);
  }
  const auto path = fuzz::write_input("rank-0", file);
  fuzz::read_hostile([&] {
    const FlightSurvey found = survey({path.parent_path()});
    for (const std::string& text : {flight_report(found), flight_verdict(found)}) {
      for (const char c : text) fuzz::require(c == '\n' || static_cast<unsigned char>(c) >= ' ', "a control character");
    }
  });
  return 0;
}
