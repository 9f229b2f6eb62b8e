#include <catch2/catch.hpp>

#include "sweep/launcher.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using Catch::Contains;
using Words = std::vector<std::string>;

TEST_CASE("A launcher is a name or the words of a command") {
  CHECK(launcher_words("mpiexec", 3) == Words{"mpiexec", "-n", "3"});
  CHECK(launcher_words("srun", 3) == Words{"srun", "--mpi=pmix", "--kill-on-bad-exit=0", "--ntasks=3"});
  CHECK(launcher_words("mpirun -np {ranks} --bind-to 'no ne'", 2) == Words{"mpirun", "-np", "2", "--bind-to", "no ne"});
}

TEST_CASE("A command's placeholders are replaced within its words, without a shell") {
  SweepRow row;
  row.ranks = 4;
  row.command = R"(prog --out={run}/x "a b; {tokens}" {ranks} {"json": 1} $HOME)";
  const Words words = command_words(row, "runs/my sweep/run", "data/t.bin");
  CHECK(words == Words{"prog", "--out=runs/my sweep/run/x", "a b; data/t.bin", "4", "{json:", "1}", "$HOME"});
  CHECK(wants_tokens(row));
  row.command = "prog {rank}";
  CHECK_FALSE(wants_tokens(row));
  CHECK_THROWS_WITH(command_words(row, "", ""), Contains("{rank}") && Contains("{ranks}, {run} or {tokens}"));
}

TEST_CASE("Words are printed as a shell would read them") {
  CHECK(shell_text({"a", "--b=c,d/e"}) == "a --b=c,d/e");
  CHECK(shell_text({"a b", "it's", "", "$x"}) == R"('a b' 'it'\''s' '' '$x')");
}
