#pragma once
// A GPU's clock and energy while a bench runs, as its driver reports them.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/result.hpp"
#include "tessera/backend/device.hpp"
#include "tessera/backend/device_monitor.hpp"

namespace tessera {

class PowerMeter {
 public:
  /// On cores, and if the driver has no monitor, it measures nothing.
  explicit PowerMeter(const Device& device);

  /// Begins again: earlier samples no longer count.
  void begin();
  /// Samples the clock. Call it as soon as the GPU has finished a piece of work, before the clock rises again.
  void sample();
  /// Ends the stretch since begin(), in which the GPU computed `tokens`, counting all ranks that use it.
  void end(double tokens);

  /// Returns a line such as "\npower      clock 1.55 GHz in the mean, 672 W, 812 tokens/J", as far as it is known;
  /// empty without a monitor.
  std::string text() const;
  /// Returns the columns clock, power and tokens_per_joule, one row each; NaN for values that are not known.
  std::vector<TableColumn> columns() const;

 private:
  std::unique_ptr<DeviceMonitor> monitor_;
  double clocks_ = 0;  ///< sum of samples
  std::int64_t samples_ = 0;
  std::chrono::steady_clock::time_point start_;
  double energy_at_start_ = 0;
  double power_, tokens_per_joule_;
};

}  // namespace tessera
