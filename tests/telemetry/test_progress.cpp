#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "tessera/telemetry/progress.hpp"

using namespace tessera;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

ProgressState state(std::int64_t step) {
  ProgressState state;
  state.step = step;
  state.steps = 1000;
  state.loss = 3.21454;
  state.tokens_per_second = 12345;
  state.step_seconds = 0.812;
  state.exposed_share = 0.041;
  state.seconds_left = 714;
  return state;
}

/// Collects the output of a program in a stream.
class Output {
 public:
  Output() : file_(std::tmpfile()) {}
  ~Output() { std::fclose(file_); }
  std::FILE* stream() { return file_; }
  std::string text() {
    std::string text(static_cast<std::size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    const std::size_t got = std::fread(text.data(), 1, text.size(), file_);
    text.resize(got);
    return text;
  }

 private:
  std::FILE* file_;
};

}  // namespace

TEST_CASE("the bar says everything where there is room") {
  CHECK(progress_bar(state(500), 140) ==
        "step  500/1000 [==============>             ]  50%  loss 3.2145  12.3K tokens/s  812 ms/step  exposed 4.1%  "
        "11 min 54 s left");
  CHECK(progress_line(state(500)) == "step  500/1000  loss 3.2145  12.3K tokens/s  exposed 4.1%  11 min 54 s left");
  CHECK_THAT(progress_bar(state(1000), 140), Contains("[============================] 100%") && !Contains("left"));
  CHECK_THAT(progress_bar(state(999), 140), Contains(" 99%"));
}

TEST_CASE("the bar fits every width and drops the least important first") {
  std::size_t before = 0;
  for (int width = 0; width <= 200; ++width) {
    for (const std::int64_t step : {0, 1, 499, 1000}) {
      const std::string line = progress_bar(state(step), width);
      if (line.size() > static_cast<std::size_t>(width)) FAIL(width << ": " << line);
    }
    const std::string line = progress_bar(state(500), width);
    if (line.find("exposed") != std::string::npos) CHECK_THAT(line, Contains("/step"));
    if (line.find("/step") != std::string::npos) CHECK_THAT(line, Contains("tokens/s"));
    if (width >= 70) CHECK_THAT(line, Contains("loss 3.2145") && Contains("left"));
    before = std::max(before, line.size());
  }
  CHECK(before > 120);
}

TEST_CASE("what is not known is left out") {
  ProgressState unknown;
  unknown.step = 1;
  unknown.steps = 10;
  unknown.loss = 2;
  CHECK(progress_line(unknown) == "step  1/10  loss 2.0000");
  unknown.loss = std::nan("");
  CHECK(progress_line(unknown) == "step  1/10  loss nan");
  CHECK_THAT(progress_bar(ProgressState{}, 80), StartsWith("step 0/0"));
}

TEST_CASE("the time left comes from a smoothed step time without the slow first step") {
  StepClock clock;
  CHECK(std::isnan(clock.left(10)));
  clock.add(100);
  CHECK(clock.left(10) == 1000);
  clock.add(2);
  CHECK(clock.left(10) == 20);
  clock.add(4);
  CHECK(clock.left(10) == Approx(30));  // the plain mean of 2 and 4
  for (int i = 0; i < 1000; ++i) clock.add(5);
  CHECK(clock.left(10) == Approx(50).epsilon(1e-6));
  clock.add(1e6);  // the process was stopped
  CHECK(clock.left(10) < 80);
}

TEST_CASE("a log gets the first line, every n-th and the last") {
  Output output;
  {
    Progress progress(output.stream(), 10);
    for (std::int64_t step = 1; step <= 35; ++step) {
      ProgressState now = state(step);
      now.steps = 35;
      CHECK(progress.update(now) == (step == 1 || step % 10 == 0 || step == 35));
    }
    progress.message("step 35: evaluation loss 3.3");
  }
  const std::string text = output.text();
  CHECK(std::count(text.begin(), text.end(), '\n') == 6);
  CHECK_THAT(text, StartsWith("step  1/35  loss") && EndsWith("evaluation loss 3.3\n") && !Contains("\r"));
  CHECK_THAT(text, Contains("12.2 s left"));  // 15 steps of 812 ms
}

TEST_CASE("a terminal gets one line that is drawn again, and messages above it") {
  Output output;
  {
    Progress progress(output.stream(), 10, Progress::Style::bar);
    CHECK(progress.update(state(1)));
    progress.message("a sample of text");
    CHECK(progress.update(state(1000)));  // the last step is always drawn
  }
  const std::string text = output.text();
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  CHECK_THAT(text,
             StartsWith("\rstep    1/1000 [") && Contains("\r\x1b[Ka sample of text\nstep") && EndsWith("\x1b[K\n"));
  CHECK_THAT(text, Contains("\rstep 1000/1000 [="));
}
