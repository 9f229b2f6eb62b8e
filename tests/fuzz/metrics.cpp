// metrics.h5 of a run that goes on. What libhdf5 itself does wrong is counted apart (run.sh).
#include "fuzz/target.hpp"
#include "tessera/run/metrics_history.hpp"

using namespace tessera;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::write_input("metrics.h5", fuzz::text_of(data, size));
  fuzz::read_hostile([&] { static_cast<void>(end_history_after(path.parent_path(), 2)); });
  return 0;
}
