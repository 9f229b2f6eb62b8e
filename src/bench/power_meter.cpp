#include "bench/power_meter.hpp"

#include <cmath>
#include <limits>

#include "tessera/base/clock.hpp"
#include "tessera/base/format.hpp"

namespace tessera {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

}  // namespace

PowerMeter::PowerMeter(const Device& device) : power_(kUnknown), tokens_per_joule_(kUnknown) {
  std::string why;
  if (!device.identity().empty()) monitor_ = open_device_monitor(device.identity(), why);
}

void PowerMeter::begin() {
  clocks_ = 0, samples_ = 0;
  start_ = std::chrono::steady_clock::now();
  if (monitor_ != nullptr) energy_at_start_ = monitor_->sample().energy;
}

void PowerMeter::sample() {
  if (monitor_ == nullptr) return;
  clocks_ += monitor_->sample().clock;
  ++samples_;
}

void PowerMeter::end(double tokens) {
  if (monitor_ == nullptr) return;
  const double joules = monitor_->sample().energy - energy_at_start_;
  if (joules <= 0) return;  // NaN if the driver does not count energy
  power_ = joules / seconds_since(start_);
  tokens_per_joule_ = tokens / joules;
}

std::string PowerMeter::text() const {
  if (monitor_ == nullptr || samples_ == 0) return "";
  const double clock = clocks_ / static_cast<double>(samples_);
  std::string text;
  if (!std::isnan(clock)) text += fmt::format(", clock {:.2f} GHz in the mean", clock * 1e-9);
  if (!std::isnan(power_)) text += fmt::format(", {:.0f} W, {} tokens/J", power_, format_rate(tokens_per_joule_));
  return text.empty() ? text : "\npower      " + text.substr(2);
}

std::vector<TableColumn> PowerMeter::columns() const {
  const double clock = samples_ > 0 ? clocks_ / static_cast<double>(samples_) : kUnknown;
  return {{"clock", "Hz", std::vector{clock}},
          {"power", "W", std::vector{power_}},
          {"tokens_per_joule", "1/J", std::vector{tokens_per_joule_}}};
}

}  // namespace tessera
