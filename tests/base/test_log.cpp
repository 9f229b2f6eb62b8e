#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <functional>

#include "printed_to.hpp"
#include "tessera/base/log.hpp"

using namespace tessera;
using test::printed_to;

namespace {

struct Printed {
  std::string out, error;
};

Printed printed_by(const std::function<void()>& action) {
  Printed printed;
  printed.out = printed_to(1, [&] { printed.error = printed_to(2, action); });
  return printed;
}

}  // namespace

TEST_CASE("Rank 0 alone informs, on stdout, and warns, on stderr") {
  const auto talk = [](const Log& log) {
    return printed_by([&] {
      log.info("step 1");
      log.warn("a slow disk");
    });
  };
  const Printed first = talk(Log(0, 2)), second = talk(Log(1, 2));
  CHECK(first.out == "step 1\n");
  CHECK(first.error == "warning: a slow disk\n");
  CHECK(second.out.empty());
  CHECK(second.error.empty());
}

TEST_CASE("Any rank reports an error, on stderr, with its number when there are others") {
  const auto report = [](const Log& log) { return printed_by([&] { log.error("no file"); }); };
  CHECK(report(Log(0, 1)).error == "tessera: no file\n");
  CHECK(report(Log(0, 2)).error == "tessera: rank 0: no file\n");
  CHECK(report(Log(7, 8)).error == "tessera: rank 7: no file\n");
  CHECK(report(Log(7, 8)).out.empty());
}

TEST_CASE("No line sends control sequences to a terminal") {
  const Log log(0, 1);
  const std::string text = "a\x1b[2Jb\x07\n\tc\xff", shown = "a?[2Jb?\n\tc?\n";
  CHECK(printed_by([&] { log.info(text); }).out == shown);
  CHECK(printed_by([&] { log.warn(text); }).error == "warning: " + shown);
  CHECK(printed_by([&] { log.error(text); }).error == "tessera: " + shown);
}

TEST_CASE("A line is written before the process can die") {
  const Printed printed = printed_by([] {
    const pid_t child = ::fork();
    if (child == 0) {
      Log(0, 1).info("step 1");
      ::_exit(0);  // loses what is only buffered
    }
    ::waitpid(child, nullptr, 0);
  });
  CHECK(printed.out == "step 1\n");
}
