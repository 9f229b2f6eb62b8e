#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "text/cache_lock.hpp"
#include "text/text_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;

namespace {

using Clock = std::chrono::steady_clock;

ProcessOwner elsewhere() {
  ProcessOwner owner = ProcessOwner::me();
  owner.host = "node7";
  owner.system = "another boot";
  return owner;
}

bool takes_within(CacheLockSeeker& seeker, double seconds) {
  const auto start = Clock::now();
  while (std::chrono::duration<double>(Clock::now() - start).count() < seconds) {
    if (seeker.try_take()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

TEST_CASE("One process has a cache lock, and leaves nothing behind") {
  const TemporaryFolder folder;
  const auto file = folder / "key.lock";
  CacheLockSeeker first(file, {}), second(file, {});
  {
    const auto lock = first.try_take();
    REQUIRE(lock);
    lock->require_held();
    CHECK_FALSE(second.try_take());
    CHECK_THAT(second.holder(), Contains(fmt::format("process {} on ", ::getpid())));
  }
  CHECK_FALSE(std::filesystem::exists(file));
  CHECK(second.try_take());
  CHECK_THAT(error_of<IoError>([&] { CacheLockSeeker(folder / "none" / "key.lock", {}).try_take(); }),
             Contains("TESSERA_CACHE"));
}

TEST_CASE("A lock of a dead process of this machine is taken over at once") {
  const TemporaryFolder folder;
  const auto file = folder / "key.lock";
  const pid_t child = ::fork();
  if (child == 0) {
    CacheLockSeeker seeker(file, {});
    const auto lock = seeker.try_take();
    ::kill(::getpid(), SIGKILL);
  }
  siginfo_t ended{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  const std::string left = read_owner(file)->text();
  CHECK(CacheLockSeeker(file, {}).try_take());  // nobody has waited for it yet: it is a zombie
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  folder.write("key.lock", left);
  CHECK(CacheLockSeeker(file, {}).try_take());
}

TEST_CASE("A lock that a killed process left aside goes with the next holder, but its own is put back") {
  const TemporaryFolder folder;
  const auto file = folder / "key.lock", left = folder.write("key.lock.node7.4711.tmp", elsewhere().text());
  const auto other = folder.write("other.lock.node7.4711.tmp", elsewhere().text());
  CacheLockSeeker seeker(file, {});
  const auto lock = seeker.try_take();
  REQUIRE(lock);
  CHECK_FALSE(std::filesystem::exists(left));
  CHECK(std::filesystem::exists(other));

  const std::string nonce = read_owner(file)->nonce;
  remove_owner(file, "of an earlier holder", folder / "aside");
  lock->require_held();
  remove_owner(file, nonce, folder / "aside");
  CHECK_FALSE(std::filesystem::exists(file));
  CHECK_FALSE(std::filesystem::exists(folder / "aside"));
}

TEST_CASE("A lock of another machine is left alone while it is touched, and taken over after a silence") {
  const TemporaryFolder folder;
  const CacheLockTimes times{.touch = 0.02, .stale = 0.4};
  const auto file = folder.write("key.lock", elsewhere().text());
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() + std::chrono::hours(5));
  CacheLockSeeker seeker(file, times);
  for (int i = 0; i < 6; ++i) {
    CHECK_FALSE(takes_within(seeker, 0.1));
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(i));
  }
  CHECK_FALSE(seeker.try_take());
  CHECK(takes_within(seeker, 5));
  const auto torn = folder.write("torn.lock", "");  // its writer was killed before it wrote its name
  CacheLockSeeker other(torn, {.touch = 0.02, .stale = 60});
  CHECK_FALSE(other.try_take());
  CHECK(takes_within(other, 5));
}

TEST_CASE("A holder touches its lock, and learns that another process took it over") {
  const TemporaryFolder folder;
  const auto file = folder / "key.lock";
  CacheLockSeeker seeker(file, {.touch = 0.02, .stale = 60});
  const auto lock = seeker.try_take();
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const auto before = std::filesystem::last_write_time(file);
  for (int i = 0; i < 500 && std::filesystem::last_write_time(file) == before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(std::filesystem::last_write_time(file) != before);
  folder.write("key.lock", elsewhere().text());
  CHECK_THAT(error_of<IoError>([&] { lock->require_held(); }), Contains("process") && Contains("node7 has it"));
}
