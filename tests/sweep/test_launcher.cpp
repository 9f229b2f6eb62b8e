#include <catch2/catch.hpp>

#include "sweep/fake_programs.hpp"
#include "sweep/launcher.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/installation.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;
using Words = std::vector<std::string>;

TEST_CASE("Words are split at blanks, except between quotes, within which the other kind is a character") {
  CHECK(split_words(R"( a  "b c"d '' )") == Words{"a", "b cd", ""});
  CHECK(split_words(R"x(python3 -c "print('x', 1)")x") == Words{"python3", "-c", "print('x', 1)"});
  CHECK(split_words(R"(sh -c 'echo \"a b\" "c d" it\'s')") == Words{"sh", "-c", R"(echo "a b" "c d" it's)"});
  CHECK(split_words(R"(sed 's/\(a\)/\\1/' a\ b \d\)") == Words{"sed", R"(s/\(a\)/\1/)", "a b", R"(\d\)"});
  CHECK_THROWS_WITH(split_words("echo 'a \"b\""), Contains("a quote is not closed in the words echo 'a \"b\""));
}

TEST_CASE("A launcher is a name or the words of a command") {
  CHECK(launcher_words("mpiexec", 3) == Words{"mpiexec", "-n", "3"});
  CHECK(launcher_words("srun", 3) == Words{"srun", "--mpi=pmix", "--kill-on-bad-exit=0", "--ntasks=3"});
  CHECK(launcher_words("mpirun -np {ranks} --bind-to 'no ne'", 2) == Words{"mpirun", "-np", "2", "--bind-to", "no ne"});
}

TEST_CASE("In a step of srun, where a further step would wait for its end, rows are started by mpiexec") {
  const FakePrograms both({{"srun", ""}, {"mpiexec", ""}});
  const auto first = [](const std::string& job, const std::string& step) {
    const FakeVariable of_job("SLURM_JOB_ID", job), of_step("SLURM_STEP_ID", step);
    return launcher_words("auto", 2).at(0);
  };
  CHECK(first("", "") == "mpiexec");
  CHECK(first("7", "") == "srun");
  CHECK(first("7", "0") == "mpiexec");
  CHECK(first("7", "4294967290") == "srun");  // the shell of salloc
  const FakeVariable alone("PATH", both.folder().path().string());
  std::filesystem::remove(both.folder() / "mpiexec");
  CHECK(first("7", "0") == "srun");
}

TEST_CASE("A command's placeholders are replaced within its words, without a shell") {
  SweepRow row;
  row.ranks = 4;
  row.command = R"(prog --out={run}/x "a b; {tokens}" {ranks} {"json": 1} $HOME)";
  const Words words = command_words(row, "auto", "runs/my sweep/run", "data/t.bin");
  CHECK(words == Words{"prog", "--out=runs/my sweep/run/x", "a b; data/t.bin", "4", "{json:", "1}", "$HOME"});
  CHECK(wants_tokens(row));
  row.command = "grep -E [0-9]{3} {0} {1..3}";
  CHECK(command_words(row, "auto", "", "") == Words{"grep", "-E", "[0-9]{3}", "{0}", "{1..3}"});
  row.command = "prog {rank}";
  CHECK_FALSE(wants_tokens(row));
  CHECK_THROWS_WITH(command_words(row, "auto", "", ""),
                    Contains("{rank}") && Contains("{ranks}, {run}, {row}, {tokens}, {peers}, {tessera}"));
}

TEST_CASE("A command takes the options of its row, and starts tessera as the sweep does") {
  SweepRow row;
  row.ranks = 2;
  row.options.optim.lr = 1e-5;
  row.options.model.preset = "qwen2-0.5b";
  row.command = "prog --lr={optim.lr} {model.preset}-{train.micro_batch}";
  CHECK(command_words(row, "auto", "", "") == Words{"prog", "--lr=1e-05", "qwen2-0.5b-4"});
  row.command = "env A=1 {tessera} bench comm --bench.output={run}/bench.h5";
  CHECK(command_words(row, "mpirun -np {ranks}", "r", "") == Words{"env", "A=1", "mpirun", "-np", "2",
                                                                   own_executable().string(), "bench", "comm",
                                                                   "--bench.output=r/bench.h5"});
  row.command = "sh -c '{tessera} verify {row}/first'";
  CHECK(command_words(row, "mpirun", "sweep/a/run", "") ==
        Words{"sh", "-c", "mpirun " + shell_text({own_executable().string()}) + " verify sweep/a/first"});
  row.options.train.steps = 7;
  row.command = "prog --checkpoint.every={train.steps/2}";
  CHECK(command_words(row, "auto", "", "") == Words{"prog", "--checkpoint.every=3"});
  row.options.train.steps = 1;
  CHECK(command_words(row, "auto", "", "") == Words{"prog", "--checkpoint.every=1"});
  row.command = "prog {train.steps/3}";
  CHECK_THROWS_WITH(command_words(row, "auto", "", ""), Contains("{train.steps/3}"));
  row.command = "prog {optim.learning_rate}";
  CHECK_THROWS_WITH(command_words(row, "auto", "", ""), Contains("{optim.learning_rate}") && Contains("{section.key}"));
}

TEST_CASE("Programs for PyTorch are found from the executable") {
  SweepRow row;
  row.command = "sh {peers}/pytorch_train.sh";
  CHECK(command_words(row, "auto", "", "") == Words{"sh", peers_folder().string() + "/pytorch_train.sh"});
  CHECK((peers_folder().empty() || std::filesystem::exists(peers_folder() / "pytorch_train.py")));
}

TEST_CASE("Words are printed as a shell would read them") {
  CHECK(shell_text({"a", "--b=c,d/e"}) == "a --b=c,d/e");
  CHECK(shell_text({"a b", "it's", "", "$x"}) == R"('a b' 'it'\''s' '' '$x')");
}
