#include <numeric>
#include <thread>

#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/hdf5_data.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Matchers::Contains;

TEST_CASE("no memory is taken for elements that a file cannot hold") {
  const TemporaryFolder folder;
  {
    const Hdf5File file = Hdf5File::create(folder / "a.h5");
    const hsize_t elements = hsize_t{1} << 40, chunk = 1024;
    const Hdf5Space space(H5Screate_simple(1, &elements, nullptr));
    const Hdf5Properties properties(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_chunk(properties.id(), 1, &chunk);
    const Hdf5Type text = hdf5_text_type();
    for (const auto& [name, type] : {std::pair{"numbers", H5T_STD_I64LE}, {"texts", text.id()}})
      const Hdf5Dataset dataset(
          H5Dcreate2(file.id(), name, type, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT));
  }
  const Hdf5File file = Hdf5File::open(folder / "a.h5");
  CHECK_THROWS_WITH(hdf5_read<std::int64_t>(file.id(), "numbers"), Contains("it claims 1099511627776 elements"));
  CHECK_THROWS_WITH(hdf5_read_strings(file.id(), "texts"), Contains("it claims 1099511627776 elements"));
}

TEST_CASE("arrays, strings and attributes come back as they were written") {
  const TemporaryFolder folder;
  const auto path = folder / "a.h5";
  const std::vector<float> floats = {1.5f, -2.25f, 3e-30f, 4.0f, 5.0f, 6.0f};
  const std::vector<double> doubles = {1e300, -0.0};
  const std::vector<std::int64_t> integers = {INT64_MIN, -1, INT64_MAX};
  const std::vector<std::string> strings = {"", "Gr\u00fc\u00dfe", "two\nlines", std::string(5000, 'x')};
  {
    Hdf5File file = Hdf5File::create(path);
    const Hdf5Group group = hdf5_create_group(file.id(), "g");
    hdf5_write<float>(group.id(), "f", floats, {2, 3});
    hdf5_write<double>(group.id(), "d", doubles, {2});
    hdf5_write<std::int64_t>(group.id(), "i", integers, {3});
    hdf5_write<float>(group.id(), "none", {}, {0, 4});
    hdf5_write<double>(group.id(), "scalar", std::vector<double>{7.0}, {});
    hdf5_write_strings(group.id(), "s", strings);
    hdf5_write_strings(group.id(), "no strings", {});
    hdf5_write_attribute(hdf5_write_text(group.id(), "one text", strings[3]).id(), "of", std::string_view("x"));
    hdf5_write_attribute(group.id(), "text", std::string_view(std::string(100000, 'y')));
    hdf5_write_attribute(group.id(), "count", std::int64_t{-5});
    hdf5_write_attribute(group.id(), "real", 0.1);
    hdf5_update_attribute(group.id(), "real", 0.2);
  }
  const Hdf5File file = Hdf5File::open(path);
  const Hdf5Group group = hdf5_open_group(file.id(), "g");
  CHECK(hdf5_read<float>(group.id(), "f") == floats);
  CHECK(Hdf5Array<float>::open(group.id(), "f").shape() == std::vector<std::int64_t>{2, 3});
  CHECK(hdf5_read<double>(group.id(), "d") == doubles);
  CHECK(hdf5_read<std::int64_t>(group.id(), "i") == integers);
  CHECK(hdf5_read<float>(group.id(), "none").empty());
  CHECK(hdf5_read<double>(group.id(), "scalar") == std::vector<double>{7.0});
  CHECK(hdf5_read_strings(group.id(), "s") == strings);
  CHECK(hdf5_read_strings(group.id(), "no strings").empty());
  CHECK(hdf5_read_strings(group.id(), "one text") == std::vector{strings[3]});
  CHECK(hdf5_read_attribute<std::string>(group.id(), "text").size() == 100000);
  CHECK(hdf5_read_attribute<std::int64_t>(group.id(), "count") == -5);
  CHECK(hdf5_read_attribute<double>(group.id(), "real") == 0.2);
  CHECK(hdf5_list(group.id()) ==
        std::vector<std::string>{"d", "f", "i", "no strings", "none", "one text", "s", "scalar"});
  CHECK(hdf5_has(file.id(), "g"));
  CHECK_FALSE(hdf5_has(file.id(), "h"));
  CHECK(run_python("files/read_arrays.py", "'" + path.string() + "'") == 0);
}

TEST_CASE("runs of elements land where they belong, in any shape") {
  const TemporaryFolder folder;
  std::mt19937 random(7);
  Hdf5File file = Hdf5File::create(folder / "a.h5");
  for (int round = 0; round < 60; ++round) {
    std::vector<std::int64_t> shape(1 + random() % 4);
    std::int64_t elements = 1;
    for (auto& extent : shape) elements *= extent = 1 + static_cast<std::int64_t>(random() % 7);
    auto array = Hdf5Array<float>::create(file.id(), "array " + std::to_string(round), shape);
    std::vector<float> values(static_cast<std::size_t>(elements));
    std::iota(values.begin(), values.end(), 1.0f);
    for (std::int64_t first = 0; first < elements;) {
      const auto count = std::min<std::int64_t>(elements - first, static_cast<std::int64_t>(random() % 40));
      array.write(first, std::span(values).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
      first += count;
    }
    CHECK(hdf5_read<float>(file.id(), "array " + std::to_string(round)) == values);
    const auto first = static_cast<std::size_t>(random()) % values.size();
    std::vector<float> some(1 + random() % (values.size() - first));
    array.read(static_cast<std::int64_t>(first), some);
    CHECK(std::equal(some.begin(), some.end(), values.begin() + static_cast<std::ptrdiff_t>(first)));
    CHECK_THROWS_AS(array.write(elements, std::vector<float>{1.0f}), IoError);
    CHECK_THROWS_AS(array.write(-1, std::vector<float>{1.0f}), IoError);
  }
}

TEST_CASE("a series grows over its chunks") {
  const TemporaryFolder folder;
  Hdf5File file = Hdf5File::create(folder / "a.h5");
  auto series = Hdf5Series<std::int64_t>::create(file.id(), "s");
  std::vector<std::int64_t> all;
  for (std::int64_t length : {0, 1, 3, 1019, 1, 1, 2500, 7}) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(length));
    std::iota(values.begin(), values.end(), static_cast<std::int64_t>(all.size()));
    series.append(values);
    all.insert(all.end(), values.begin(), values.end());
    CHECK(series.size() == static_cast<std::int64_t>(all.size()));
  }
  series.flush();
  CHECK(hdf5_read<std::int64_t>(file.id(), "s") == all);
}

TEST_CASE("growing texts have a fixed length, and are cut between characters") {
  const TemporaryFolder folder;
  Hdf5File file = Hdf5File::create(folder / "a.h5");
  auto texts = Hdf5Texts::create(file.id(), "t", 5);
  for (const char* text : {"", "abc", "abcdefg", "abc\xe2\x82\xac", "\xe2\x82\xacxy"}) texts.append(text);
  texts.flush();
  const Hdf5Dataset dataset(H5Dopen2(file.id(), "t", H5P_DEFAULT));
  const Hdf5Type type(H5Dget_type(dataset.id()));
  CHECK(H5Tget_cset(type.id()) == H5T_CSET_UTF8);
  std::string bytes(25, '?');
  REQUIRE(H5Dread(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) >= 0);
  using namespace std::string_literals;
  CHECK(bytes == "\0\0\0\0\0abc\0\0abcdeabc\0\0\xe2\x82\xacxy"s);
}

TEST_CASE("errors carry HDF5's own text and name the object, on every thread") {
  const TemporaryFolder folder;
  const auto path = folder / "a.h5";
  CHECK_THAT(message_of<IoError>([&] { Hdf5File::open(path); }),
             Contains(path.string()) && Contains("No such file or directory"));
  Hdf5File file = Hdf5File::create(path);
  CHECK_THAT(message_of<IoError>([&] { Hdf5File::create(path); }), Contains(path.string()) && Contains("HDF5:"));
  hdf5_write<float>(file.id(), "f", std::vector<float>{1}, {1});
  CHECK_THAT(message_of<IoError>([&] { hdf5_write<float>(file.id(), "f", std::vector<float>{1}, {1}); }),
             Contains("a.h5") && Contains("exists"));
  CHECK_THAT(message_of<IoError>([&] { hdf5_read<float>(file.id(), "g"); }), Contains("dataset g in"));
  CHECK_THROWS_AS(hdf5_read<std::int64_t>(file.id(), "f"), IoError);
  CHECK_THROWS_AS(hdf5_read_attribute<double>(file.id(), "none"), IoError);
  hdf5_write_attribute(file.id(), "text", std::string_view("x"));
  CHECK_THROWS_AS(hdf5_read_attribute<double>(file.id(), "text"), IoError);
  std::string message;
  std::thread([&] { message = message_of<IoError>([&] { hdf5_read<float>(file.id(), "g"); }); }).join();
  CHECK_THAT(message, Contains("HDF5:"));
  write_file(folder / "no.h5", "this is not HDF5");
  CHECK_THROWS_AS(Hdf5File::open(folder / "no.h5"), IoError);
}

TEST_CASE("HDF5 prints nothing by itself") {
  const TemporaryFolder folder;
  const auto output = folder / "stderr";
  std::fflush(stderr);
  const int saved = ::dup(2);
  REQUIRE(std::freopen(output.c_str(), "w", stderr) != nullptr);
  std::thread([&] {
    try {
      Hdf5File::open(folder / "none.h5");
    } catch (const IoError&) {
    }
  }).join();
  std::fflush(stderr);
  ::dup2(saved, 2);
  ::close(saved);
  CHECK(read_file(output).empty());
}
