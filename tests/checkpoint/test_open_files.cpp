#include <fcntl.h>
#include <sys/resource.h>

#include "checkpoint/open_files.hpp"
#include "file_support.hpp"
#include "tessera/files/byte_file.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// Returns how many descriptors of this process are of a file.
int descriptors_of(const std::filesystem::path& path) {
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count += std::filesystem::read_symlink(entry.path(), error) == path ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("the files that were used last stay open, the others are closed when nobody reads them") {
  const TemporaryFolder folder;
  std::vector<std::filesystem::path> paths;
  for (const char* name : {"a", "b", "c"})
    paths.push_back(std::filesystem::canonical(folder.path()) / folder.write(name, name).filename());
  OpenFiles files(2);
  const int first = files.get(paths[0])->get();
  CHECK(files.get(paths[0])->get() == first);  // opened once
  CHECK(descriptors_of(paths[0]) == 1);
  const auto used = files.get(paths[1]);
  files.get(paths[0]);
  files.get(paths[2]);  // b goes: a was used after it
  CHECK((descriptors_of(paths[0]) == 1 && descriptors_of(paths[2]) == 1));
  CHECK(descriptors_of(paths[1]) == 1);  // as long as `used` lives
  char byte = 0;
  CHECK((::pread(used->get(), &byte, 1, 0) == 1 && byte == 'b'));
  files.get(paths[1]);
  CHECK(descriptors_of(paths[1]) == 2);
}

TEST_CASE("a process that may open few files closes those that it does not use") {
  const TemporaryFolder folder;
  OpenFiles files(100);
  for (int i = 0; i < 8; ++i) folder.write(std::to_string(i), "x");
  struct rlimit before {};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const FileDescriptor next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const struct rlimit few { static_cast<rlim_t>(next.get()) + 3, before.rlim_max };
  std::string failed;
  ::setrlimit(RLIMIT_NOFILE, &few);
  try {
    for (int i = 0; i < 8; ++i) files.get(folder / std::to_string(i));
  } catch (const IoError& error) {
    failed = error.what();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  CHECK(failed.empty());
}

TEST_CASE("a file that is not there is named, and is damage") {
  const TemporaryFolder folder;
  OpenFiles files(2);
  try {
    files.get(folder / "shard-00007.h5");
    FAIL("no error");
  } catch (const UnreadableError&) {
    FAIL("a missing file is damage");
  } catch (const IoError& error) {
    CHECK_THAT(error.what(), Catch::Contains("shard-00007.h5"));
  }
}
