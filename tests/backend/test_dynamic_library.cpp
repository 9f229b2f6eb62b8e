// Libraries that are searched for at run time, and the messages when they are missing.

#include <dlfcn.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tessera/backend/dynamic_library.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
namespace fs = std::filesystem;

namespace {

/// A folder and TESSERA_LIBRARY_PATH for the time of a test.
struct SearchFolder {
  SearchFolder() : path(fs::temp_directory_path() / ("tessera_library_test-" + std::to_string(::getpid()))) {
    fs::remove_all(path);
    fs::create_directories(path / "nvidia" / "cu13" / "lib");
    setenv("TESSERA_LIBRARY_PATH", path.c_str(), 1);
  }
  ~SearchFolder() {
    unsetenv("TESSERA_LIBRARY_PATH");
    fs::remove_all(path);
  }
  fs::path path;
};

}  // namespace

TEST_CASE("a library is found by the system, and its functions by name") {
  const DynamicLibrary library = DynamicLibrary::open({"mathematics", {"libm.so.6"}, {}});
  CHECK(library.function<double (*)(double)>("floor")(2.5) == 2.0);
  CHECK(library.find("no_such_function") == nullptr);
  CHECK_THROWS_AS(library.symbol("no_such_function"), UsageError);
}

TEST_CASE("a missing library is named with what was tried") {
  const SearchFolder folder;
  const std::string name = "libtessera_nowhere.so.1";
  std::ofstream(folder.path / name) << "no library";
  std::ofstream(folder.path / "nvidia" / "cu13" / "lib" / name) << "no library either";
  const LibrarySearch search{"Nowhere", {name}, {"cu13"}};
  const auto candidates = library_candidates(search);
  REQUIRE(candidates.size() == 3);  // the folder, the Python package in it, the system
  CHECK(candidates[0] == (folder.path / name).string());
  CHECK(candidates[1] == (folder.path / "nvidia" / "cu13" / "lib" / name).string());
  CHECK(candidates[2] == name);
  CHECK_THROWS_WITH(DynamicLibrary::open(search), Catch::Contains("Nowhere cannot be loaded") &&
                                                      Catch::Contains((folder.path / name).string()) &&
                                                      Catch::Contains("TESSERA_LIBRARY_PATH"));
}

TEST_CASE("a library's parts come from its own folder, also without the end of their versions") {
  const SearchFolder folder;
  const auto place = [&](const char* name) {
    const DynamicLibrary known = DynamicLibrary::open({"mathematics", {"libm.so.6"}, {}});
    Dl_info where{};
    REQUIRE(dladdr(known.find("floor"), &where) != 0);
    fs::copy_file(fs::canonical(where.dli_fname), folder.path / name);
  };
  const auto is_open = [&](const char* name) {
    return dlopen((folder.path / name).c_str(), RTLD_LAZY | RTLD_NOLOAD) != nullptr;
  };
  place("libtessera_whole.so"), place("libtessera_part.so.13.0"), place("libtessera_other.so");
  CHECK_FALSE(is_open("libtessera_part.so.13.0"));
  const DynamicLibrary library =
      DynamicLibrary::open({"Whole", {"libtessera_whole.so"}, {}, {"libtessera_nowhere.so", "libtessera_part.so.13"}});
  CHECK(library.path() == (folder.path / "libtessera_whole.so").string());
  CHECK(is_open("libtessera_part.so.13.0"));
  CHECK_FALSE(is_open("libtessera_other.so"));
  // A name that is there is meant alone; parts of a library that does not open are closed again.
  place("libtessera_exact.so.9"), place("libtessera_exact.so.9.8");
  std::ofstream(folder.path / "libtessera_damaged.so") << "no library";
  CHECK_THROWS_AS(DynamicLibrary::open({"Damaged", {"libtessera_damaged.so"}, {}, {"libtessera_exact.so.9"}}),
                  UsageError);
  CHECK_FALSE(is_open("libtessera_exact.so.9"));
  const DynamicLibrary again = DynamicLibrary::open({"Whole", {"libtessera_whole.so"}, {}, {"libtessera_exact.so.9"}});
  CHECK(is_open("libtessera_exact.so.9"));
  CHECK_FALSE(is_open("libtessera_exact.so.9.8"));
}
