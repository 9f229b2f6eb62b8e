#include <catch2/catch.hpp>
#include <numeric>

#include "tessera/files/array_boxes.hpp"

using namespace tessera;

namespace {

/// Flat places of a box's elements, in row-major order.
void append_places(const std::vector<std::int64_t>& shape, const ArrayBox& box, std::vector<std::int64_t>& places) {
  std::vector<hsize_t> index(shape.size(), 0);
  for (;;) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
      place = place * shape[d] + static_cast<std::int64_t>(box.start[d] + index[d]);
    places.push_back(place);
    std::size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == box.count[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace

TEST_CASE("The boxes of any run are its elements, in order, and few") {
  for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{
           {1}, {7}, {3, 5}, {1, 4}, {4, 1}, {2, 3, 4}, {3, 1, 2}, {1, 1, 1}, {2, 3, 2, 3}}) {
    const std::int64_t all = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    for (std::int64_t first = 0; first < all; ++first) {
      for (std::int64_t count = 1; first + count <= all; ++count) {
        std::vector<std::int64_t> places, expected(static_cast<std::size_t>(count));
        std::iota(expected.begin(), expected.end(), first);
        std::size_t boxes = 0;
        for_each_box(shape, first, count, [&](const ArrayBox& box) {
          const std::size_t before = places.size();
          append_places(shape, box, places);
          if (static_cast<std::int64_t>(places.size() - before) != box.elements) FAIL("elements of a box");
          for (std::size_t d = 0; d < shape.size(); ++d)
            if (static_cast<std::int64_t>(box.start[d] + box.count[d]) > shape[d]) FAIL("a box outside of the array");
          ++boxes;
        });
        if (places != expected) FAIL(shape.size() << " dimensions, run " << first << "+" << count);
        if (boxes > 2 * shape.size() - 1) FAIL(boxes << " boxes for run " << first << "+" << count);
      }
    }
  }
}

TEST_CASE("A run of nothing has no box, a whole array one") {
  for_each_box({3, 4}, 5, 0, [](const ArrayBox&) { FAIL("a box"); });
  int boxes = 0;
  for_each_box({3, 4, 5}, 0, 60, [&](const ArrayBox& box) {
    ++boxes;
    CHECK(box.count == std::vector<hsize_t>{3, 4, 5});
  });
  CHECK(boxes == 1);
}
