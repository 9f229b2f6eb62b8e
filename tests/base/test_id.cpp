#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "tessera/base/id.hpp"

using namespace tessera;

namespace {

using UnitNumber = Id<struct SomeUnit>;
using TensorNumber = Id<struct SomeTensor>;
using Names = IndexedVector<UnitNumber, std::string>;

template <class List, class Key>
concept IndexedBy = requires(List list, Key key) {
  list[key];
};

static_assert(IndexedBy<Names, UnitNumber>);
static_assert(!IndexedBy<Names, TensorNumber> && !IndexedBy<Names, int>);
static_assert(!std::is_constructible_v<UnitNumber, TensorNumber>);
static_assert(!std::is_convertible_v<int, UnitNumber> && !std::is_convertible_v<UnitNumber, int>);

}  // namespace

TEST_CASE("An id names nothing until it is set, and nothing comes before every item") {
  const UnitNumber none, first(0), third(2);
  CHECK_FALSE(none);
  CHECK(first);
  CHECK((none < first && first < third));
  CHECK(none == UnitNumber(-1));
  CHECK(fmt::format("{} {}", none, third) == "-1 2");
}

TEST_CASE("Ids are counted on like positions") {
  UnitNumber id(4);
  CHECK((id++ == UnitNumber(4) && id == UnitNumber(5)));
  CHECK((++id == UnitNumber(6) && --id == UnitNumber(5)));
  CHECK((id + 3 == UnitNumber(8) && id - 3 == UnitNumber(2)));
  CHECK(id - UnitNumber(1) == 4);
}

TEST_CASE("A list gives ids to its elements, in order") {
  Names names;
  CHECK(names.ids().empty());
  CHECK(names.end_id() == UnitNumber(0));
  CHECK(names.add("embed") == UnitNumber(0));
  CHECK(names.add("head") == UnitNumber(1));
  CHECK(names.end_id() == UnitNumber(2));
  std::string all;
  for (const UnitNumber id : names.ids()) all += names[id] + " ";
  CHECK(all == "embed head ");
  CHECK_THROWS_AS(names.at(UnitNumber(2)), std::out_of_range);
  CHECK_THROWS_AS(names.at(UnitNumber()), std::out_of_range);
}
