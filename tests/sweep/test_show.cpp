#include <sstream>

#include "printed_to.hpp"
#include "sweep/actions.hpp"
#include "sweep/fake_programs.hpp"
#include "sweep/launcher.hpp"
#include "sweep/sweep_case.hpp"
#include "sweep/text_file.hpp"
#include "tessera/files/installation.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

struct ShowCase {
  explicit ShowCase(const std::string& text) {
    sweep.file = c.read(kSmallRows + text, {"--sweep.dir=" + dir.string()});
    sweep.rows = sweep.chosen = rows_of(sweep.file);
  }
  /// Returns the words of the line that begins with a row's name.
  std::string line(int (*action)(const Sweep&), const std::string& row) const {
    std::istringstream lines(printed_to(1, [&] { CHECK(action(sweep) == 0); }));
    for (std::string text; std::getline(lines, text);) {
      if (text.rfind("  " + row + " ", 0) != 0) continue;
      std::istringstream stream(text);
      std::string words;
      for (std::string word; stream >> word;) words += (words.empty() ? "" : " ") + word;
      return words;
    }
    return "no such row";
  }

  SweepCase c;
  std::filesystem::path dir = c.folder() / "sweep";
  Sweep sweep;
};

}  // namespace

TEST_CASE("A sweep is printed with each row's memory and the command that starts it, and nothing is made") {
  const ShowCase c(
      "[plan]\nmemory = 20MB\n[sweep.row a]\nranks = 2\n[sweep.row wide]\nmodel.width = 512\n"
      "[sweep.row other]\nkind = command\ncommand = measure {run}\n");
  const std::string text = printed_to(1, [&] { CHECK(print_sweep(c.sweep) == 0); });
  CHECK_THAT(text, Contains("sweep demo: 3 rows, into " + c.dir.string()));
  CHECK_THAT(text, Contains(fmt::format("\n# a\nmpiexec -n 2 {} train ", own_executable().string())) &&
                       Contains("--run.dir=" + (c.dir / "a/run").string() + "\n"));
  CHECK_THAT(text, Contains("\n# other\nmeasure " + (c.dir / "other/run").string() + "\n"));
  CHECK_THAT(c.line(print_sweep, "a"), Catch::Matches("a 2 cpu [0-9.]+ [kMG]B"));
  CHECK_THAT(c.line(print_sweep, "wide"), Contains("does not fit: plan.memory = 20.0 MB"));
  CHECK_THAT(c.line(print_sweep, "other"), Catch::Matches("other 1 - -"));
  CHECK_FALSE(std::filesystem::exists(c.dir));
  // By its name where a shell finds this executable under it.
  const FakePrograms programs{Scripts{}};
  std::filesystem::create_symlink(own_executable(), programs.folder() / "tessera");
  CHECK_THAT(printed_to(1, [&] { print_sweep(c.sweep); }), Contains("\n# a\nmpiexec -n 2 tessera train "));
}

TEST_CASE("The status of a sweep is a line a row: how far it is, how often it was started, why it ended") {
  const ShowCase c("[train]\nsteps = 100\n[sweep.row a]\nranks = 2\n[sweep.row b]\n[sweep.row c]\n[sweep.row d]\n");
  CHECK_THAT(message_of<UsageError>([&] { show_status(c.sweep); }), Contains("is not a sweep that was started"));
  const SweepFolder folder(c.sweep.file);
  folder.prepare(c.sweep.rows, Started::here);
  RowStatus failed;
  failed.state = RowState::failed;
  failed.message = "no luck", failed.code = 9, failed.attempts = 3;
  folder.write_status(c.sweep.rows[0], failed);
  c.c.folder().write("sweep/a/run/status.json", R"({"step": 12, "steps": 100})");
  c.c.folder().write("sweep/b/run/status.json", "{");
  c.c.folder().write("sweep/d/run/status.json", R"({"step": 0, "steps": 0})");
  CHECK(c.line(show_status, "a") == "a 2 failed 12/100 3 no luck (code 9)");
  CHECK(c.line(show_status, "b") == "b 1 pending ? 0");
  CHECK(c.line(show_status, "c") == "c 1 pending 0");
  CHECK(c.line(show_status, "d") == "d 1 pending starting 0");
}
