#include <catch2/catch.hpp>
#include <set>

#include "draw.hpp"
#include "training/step_actions.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("what follows a step comes in an order that loses nothing at a stop") {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Draw d(seed);
    Options options;
    options.data.val_fraction = d.below(2) == 0 ? 0.1 : 0;
    options.train.eval_every = d.below(3), options.train.sample_every = d.below(3);
    options.checkpoint.every = d.below(3), options.metrics.every = 1 + d.below(3);
    options.run.dump = d.below(4);
    DoneStep done{options, nullptr, 1 + d.below(2), 6, d.below(4) == 0, {}};
    done.report.step = done.first + d.below(7 - done.first);
    done.report.result.finite = d.below(4) != 0;
    done.report.result.stop_requests =
        d.below(3) * StepRequests::kStop + d.below(3) * std::int64_t{StepRequests::kCheckpoint};
    std::vector<std::string> names;
    for (const StepAction& action : step_actions()) {
      if (action.when(done)) names.emplace_back(action.name);
    }
    const auto place = [&](const char* name) { return std::ranges::find(names, name) - names.begin(); };
    const auto has = [&](const char* name) { return place(name) < std::ssize(names); };
    seen.insert(names.begin(), names.end());
    INFO("seed " << seed);
    CHECK(std::set(names.begin(), names.end()).size() == names.size());
    CHECK(names.front() == "judge");  // a step that ends the run leaves no row
    CHECK(place("record") < place("finished checkpoints"));
    CHECK_FALSE((done.stops() && (has("sample") || has("evaluate"))));
    CHECK_FALSE((has("evaluate") && has("last evaluation")));
    CHECK((has("evaluate") || has("last evaluation")) == done.evaluates());
    if (done.stops()) CHECK((has("report") && has("checkpoint")));
    if (has("checkpoint")) {
      CHECK((!has("report") || place("report") < place("checkpoint")));
      CHECK((!has("evaluate") || place("evaluate") < place("checkpoint")));
      CHECK(place("checkpoint") >= std::ssize(names) - (done.stops() ? 2 : 1));
    }
  }
  CHECK(seen.size() == step_actions().size() - 1);  // all but traces
}
