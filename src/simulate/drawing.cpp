#include "tessera/simulate/drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "tessera/engine/operation_log.hpp"

namespace tessera {

namespace {

/// By TimeCategory: a letter, and what it stands for.
constexpr std::array<std::string_view, kTimeCategories> kLegend = {
    "D tokens",         "F forward",    "R recomputation",
    "B backward",       "O optimizer",  "G gather",
    "S reduce-scatter", "A all-reduce", "C copies and the host's work"};
constexpr char kShort = '.';

/// Names each stream by the queues whose operations it runs; compute alone where compute is one of them.
std::vector<std::string> names_of_streams(const StepSchedule& schedule, const Timeline& timeline) {
  std::vector<std::string> names(1, std::string(name_of(Queue::compute)));
  for (const TimelineSpan& span : timeline.spans) {
    const auto stream = static_cast<std::size_t>(span.stream);
    const std::string_view queue = name_of(schedule.operation(span.operation).queue);
    if (stream >= names.size()) names.resize(stream + 1);
    if (stream > 0 && names[stream].find(queue) == std::string::npos)
      names[stream] += (names[stream].empty() ? "" : "+") + std::string(queue);
  }
  return names;
}

/// Returns when each play of a segment begins.
std::vector<double> begins_of_plays(const StepSchedule& schedule, const Timeline& timeline) {
  std::vector<double> begins(schedule.step.size(), timeline.seconds);
  for (const TimelineSpan& span : timeline.spans) {
    double& begin = begins[static_cast<std::size_t>(span.play)];
    begin = std::min(begin, span.begin);
  }
  return begins;
}

char letter_of(const ColumnSeconds& column, double seconds) {
  const auto most = std::ranges::max_element(column);
  for (const double one : column) seconds -= one;
  if (*most <= 0) return ' ';
  return *most < seconds ? kShort : kLegend[static_cast<std::size_t>(most - column.begin())][0];
}

/// Writes `text` into a line from column `at` on, if that part of the line is blank.
bool place(std::string& line, std::size_t at, std::string_view text) {
  if (at + text.size() > line.size() || line.find_first_not_of(' ', at) < at + text.size()) return false;
  line.replace(at, text.size(), text);
  return true;
}

/// Returns the borders of segments and their names, to the right where there is room.
std::string borders(const StepSchedule& schedule, const Timeline& timeline, std::string line) {
  std::vector<std::size_t> at;
  for (const double begin : begins_of_plays(schedule, timeline)) {
    at.push_back(static_cast<std::size_t>(begin / timeline.seconds * static_cast<double>(line.size() - 1)));
    line[at.back()] = '|';
  }
  for (std::size_t i = 0; i < at.size(); ++i) {
    const std::string_view words = name_of(schedule.segments[schedule.step[i].segment].role);
    if (!place(line, at[i] + 1, words) && at[i] >= words.size()) place(line, at[i] - words.size(), words);
  }
  return line;
}

/// Returns numbers about every twelve columns, at 1, 2 or 5 times a power of ten.
std::string axis(double milliseconds, std::string line) {
  const double columns = static_cast<double>(line.size()), wanted = milliseconds * 12 / columns;
  double step = std::pow(10, std::floor(std::log10(wanted)));
  for (const double factor : {2.0, 2.5, 2.0}) step *= step < wanted ? factor : 1;
  for (int i = 0; i * step < milliseconds; ++i)
    place(line, static_cast<std::size_t>(i * step / milliseconds * columns), fmt::format("{:g} ms", i * step));
  return line;
}

}  // namespace

std::vector<std::vector<ColumnSeconds>> columns_of(const StepSchedule& schedule, const Timeline& timeline,
                                                   int columns) {
  std::vector<std::vector<ColumnSeconds>> lanes(names_of_streams(schedule, timeline).size());
  for (auto& lane : lanes) lane.resize(static_cast<std::size_t>(columns));
  const double each = timeline.seconds / columns;
  for (const TimelineSpan& span : timeline.spans) {
    const TimeCategory category = category_of(schedule.operation(span.operation));
    for (int at = std::min(static_cast<int>(span.begin / each), columns - 1); at < columns && at * each < span.end;
         ++at) {
      const double end = at + 1 == columns ? span.end : std::min(span.end, (at + 1) * each);
      lanes[static_cast<std::size_t>(span.stream)][static_cast<std::size_t>(at)][static_cast<std::size_t>(category)] +=
          std::max(0.0, end - std::max(span.begin, at * each));
    }
  }
  return lanes;
}

std::string draw_timeline(const StepSchedule& schedule, const Timeline& timeline, int width) {
  const std::vector<std::string> names = names_of_streams(schedule, timeline);
  const std::size_t label = std::ranges::max(names, {}, &std::string::size).size() + 2;
  const int columns = std::max(20, width - static_cast<int>(label));
  const std::string blank(static_cast<std::size_t>(columns), ' ');
  const auto lanes = columns_of(schedule, timeline, columns);
  std::string text = fmt::format("{:{}}{}\n", "", label, borders(schedule, timeline, blank));
  for (std::size_t stream = 0; stream < lanes.size(); ++stream) {
    if (names[stream].empty()) continue;  // a queue that has nothing to do
    text += fmt::format("{:{}}", names[stream], label);
    for (const ColumnSeconds& column : lanes[stream]) text += letter_of(column, timeline.seconds / columns);
    text += "\n";
  }
  text += fmt::format("{:{}}{}\n\n", "", label, axis(timeline.seconds * 1e3, blank));
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    if (timeline.operations[i] > 0) text += fmt::format("{}  ", kLegend[i]);
  }
  return text + fmt::format("\nA column is {:.3g} ms; its letter fills most of it ({}: idle does). Queues join at |.\n",
                            timeline.seconds / columns * 1e3, kShort);
}

nlohmann::ordered_json timeline_json(const StepSchedule& schedule, const Timeline& timeline) {
  using Json = nlohmann::ordered_json;
  Json plays = Json::array(), spans = Json::array();
  const std::vector<double> begins = begins_of_plays(schedule, timeline);
  for (std::size_t i = 0; i < begins.size(); ++i)
    plays.push_back({{"segment", schedule.step[i].segment.number()}, {"begin", begins[i]}});
  for (const TimelineSpan& span : timeline.spans) {
    const Operation& op = schedule.operation(span.operation);
    spans.push_back({{"operation", span.operation.number()},
                     {"unit", op.unit ? Json(schedule.layout.units[op.unit].name) : Json()},
                     {"category", name_of(category_of(op))},
                     {"play", span.play},
                     {"stream", span.stream},
                     {"begin", span.begin},
                     {"end", span.end}});
  }
  return {{"seconds", timeline.seconds},
          {"streams", names_of_streams(schedule, timeline)},
          {"plays", std::move(plays)},
          {"spans", std::move(spans)}};
}

}  // namespace tessera
