#include <cstdio>

#include "tessera/base/shown.hpp"
#include "tessera/commands/commands.hpp"
#include "tessera/flight/survey.hpp"

namespace tessera {

int run_postmortem(const std::filesystem::path& run) {
  std::fputs(printable(flight_report(survey_run(run))).c_str(), stdout);
  return 0;
}

}  // namespace tessera
