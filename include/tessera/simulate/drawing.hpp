#pragma once
// A predicted step as text that a terminal shows, and its spans as JSON.

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tessera/simulate/timeline.hpp"

namespace tessera {

/// Seconds by category of operation in one column of a lane. The rest of the column's time is idle.
using ColumnSeconds = std::array<double, kTimeCategories>;

/// Returns a lane for each stream: the seconds of its operations in each of `columns` equal parts of the step.
std::vector<std::vector<ColumnSeconds>> columns_of(const StepSchedule& schedule, const Timeline& timeline, int columns);

/// Draws the step `width` characters wide: the segments' borders, a lane for each stream, in each column the letter of
/// what fills most of it, an axis in milliseconds and a legend.
std::string draw_timeline(const StepSchedule& schedule, const Timeline& timeline, int width);

/// Returns the streams, the segments that are played, and all spans, in seconds since the step began.
nlohmann::ordered_json timeline_json(const StepSchedule& schedule, const Timeline& timeline);

}  // namespace tessera
