// A step as columns: what each holds, and what is drawn of it.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "simulated_run.hpp"
#include "tessera/engine/operation_log.hpp"
#include "tessera/simulate/drawing.hpp"
#include "tessera/simulate/predict.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

struct DrawnRun {
  explicit DrawnRun(QueueMode queues) {
    Options options;
    options.run.queues = queues;
    timeline = predict(run.schedule, run.plan, options, machine_of({})).timeline;
  }
  PlannedRun run = planned("nano", Strategy::zero3, 4);
  Timeline timeline;
};

}  // namespace

TEST_CASE("The columns of a lane add up to the operations of its stream, and none holds more than its time") {
  for (const QueueMode queues : {QueueMode::serial, QueueMode::parallel, QueueMode::chaos}) {
    const DrawnRun drawn(queues);
    for (const int columns : {1, 7, 100, 5000}) {
      INFO(columns << " columns");
      const auto lanes = columns_of(drawn.run.schedule, drawn.timeline, columns);
      std::map<int, ColumnSeconds> wanted, found;
      for (const TimelineSpan& span : drawn.timeline.spans) {
        const auto category = category_of(drawn.run.schedule.operation(span.operation));
        wanted[span.stream][static_cast<std::size_t>(category)] += span.end - span.begin;
      }
      REQUIRE(lanes.size() == wanted.size());
      for (std::size_t stream = 0; stream < lanes.size(); ++stream) {
        REQUIRE(std::ssize(lanes[stream]) == columns);
        for (const ColumnSeconds& column : lanes[stream]) {
          double sum = 0;
          for (std::size_t i = 0; i < kTimeCategories; ++i)
            sum += column[i], found[static_cast<int>(stream)][i] += column[i];
          REQUIRE(sum <= drawn.timeline.seconds / columns * (1 + 1e-9));
        }
        for (std::size_t i = 0; i < kTimeCategories; ++i)
          CHECK(found[static_cast<int>(stream)][i] == Approx(wanted[static_cast<int>(stream)][i]).margin(1e-12));
      }
    }
  }
}

TEST_CASE("A drawing has a lane for each stream, borders and an axis, in the width that it is given") {
  const DrawnRun drawn(QueueMode::parallel);
  std::istringstream lines(draw_timeline(drawn.run.schedule, drawn.timeline, 80));
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  REQUIRE(all.size() >= 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(all[i].size() == 80);
  // Two micro-steps of different kinds and an update.
  CHECK(std::ranges::count(all[0], '|') == 3);
  CHECK_THAT(all[0], Catch::Contains("micro_step"));
  CHECK(all[1].starts_with("compute "));
  CHECK_THAT(all[2].substr(0, all[2].find(' ')), Catch::Contains("gather") && Catch::Contains("reduce"));
  for (const char letter : {'F', 'B'}) CHECK(all[1].find(letter) < all[1].rfind(letter));
  CHECK(all[1].find('F') < all[1].find('B'));
  CHECK(all[2].find('G') != std::string::npos);
  CHECK_THAT(all[3], Catch::Contains("0 ms"));
}

TEST_CASE("The spans of a step as JSON are those of the timeline") {
  const DrawnRun drawn(QueueMode::parallel);
  const auto json = timeline_json(drawn.run.schedule, drawn.timeline);
  CHECK(json["seconds"] == drawn.timeline.seconds);
  CHECK(json["streams"].size() == 2);
  REQUIRE(json["plays"].size() == drawn.run.schedule.step.size());
  REQUIRE(json["spans"].size() == drawn.timeline.spans.size());
  double compute = 0;
  for (const auto& span : json["spans"]) {
    const double begin = span["begin"], end = span["end"];
    CHECK(begin >= json["plays"][span["play"].get<std::size_t>()]["begin"].get<double>());
    if (span["category"] == "forward" || span["category"] == "backward") {
      compute += end - begin;
      CHECK(span["stream"] == 0);
    }
  }
  const auto time = [&](TimeCategory one) { return drawn.timeline.operations[static_cast<std::size_t>(one)]; };
  CHECK(compute == Approx(time(TimeCategory::forward) + time(TimeCategory::backward)));
}
