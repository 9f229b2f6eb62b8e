#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "tessera/base/dtype.hpp"
#include "tessera/config/choices.hpp"

using namespace tessera;

TEMPLATE_TEST_CASE("Every choice has a spelling of its own that reads back", "", bool, DeviceChoice, Tristate,
                   AttentionChoice, CommBackend, QueueMode, Strategy, Wrap, ReduceWhen, ActivationCheckpointing,
                   SampleOrder, LearningRateSchedule, PlanView, ResultFormat, SweepAction, DType) {
  std::set<std::string_view> names;
  std::set<TestType> values;
  for (const auto& [value, name] : choices<TestType>()) {
    CAPTURE(name);
    names.insert(name);
    values.insert(value);
    CHECK(spelling(value) == name);
    CHECK(read_choice<TestType>(name).value() == value);
    CHECK_FALSE(read_choice<TestType>(std::string(name) + " "));
    // Help and messages put | between the names.
    CHECK(name.find_first_of("|, \t") == std::string_view::npos);
  }
  CHECK(names.size() >= 2);
  CHECK(names.size() == choices<TestType>().size());
  CHECK(values.size() == choices<TestType>().size());
  CHECK_FALSE(read_choice<TestType>(""));
}

TEST_CASE("A value that no option offers has no spelling") {
  CHECK(read_choice<DType>("fp16") == DType::fp16);
  CHECK_FALSE(read_choice<DType>("int64"));
  CHECK_THROWS_AS(spelling(DType::int64), InternalError);
  CHECK_FALSE(read_choice<Strategy>("ZERO3"));
}
