#include "sweep/sweep_case.hpp"
#include "sweep/sweep_file.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;
using Words = std::vector<std::string>;

TEST_CASE("A sweep's file has its own options, those of all rows, varied ones and named rows") {
  const SweepCase c;
  const SweepFile file = c.read(
      "[sweep]\nrepeat = 3\n[train]\nsteps = 7\n[sweep.vary]\nranks = 1, 2\noptim.lr = 1e-3, 2e-3\n"
      "[sweep.row big]\nranks = 4\nmodel.width = 512\n"
      "[sweep.row other]\nkind = command\ncommand = run {ranks}\n");
  CHECK(file.sweep.repeat == 3);
  CHECK(file.sweep.name == "demo");
  CHECK(file.sweep.dir == "runs/demo");
  CHECK(file.common.train.steps == 7);
  REQUIRE(file.vary.size() == 2);
  CHECK(file.vary[0].name == "ranks");
  CHECK(file.vary[1].values == Words{"1e-3", "2e-3"});
  CHECK_THAT(file.vary[1].place, Contains("demo.ini:7"));
  REQUIRE(file.rows.size() == 2);
  CHECK((file.rows[0].name == "big" && file.rows[0].ranks == 4 && file.rows[0].command.empty()));
  CHECK(file.rows[0].settings.at(0).name == "model.width");
  CHECK((file.rows[1].ranks == 1 && file.rows[1].command == "run {ranks}"));
}

TEST_CASE("The command line wins over the file, a base gives way to both") {
  const SweepCase c;
  c.folder().write("base.ini", "[train]\nsteps = 1\nmicro_batch = 3\n[optim]\nlr = 0.5\n");
  const std::string text =
      "[sweep]\nbase = base.ini\n[train]\nsteps = 7\n[sweep.vary]\noptim.lr = 1, 2\nranks = 1, 2\n";
  SweepFile file = c.read(text);
  CHECK(file.common.train.steps == 7);
  CHECK(file.common.train.micro_batch == 3);
  CHECK_FALSE(file.common.is_given("train.micro_batch"));
  file = c.read(text, {"--optim.lr=3", "--run.seed=4", "--sweep.name=other", "--sweep.repeat=2"});
  CHECK(file.vary[0].values == Words{"3"});
  CHECK(file.vary[1].values == Words{"1", "2"});
  CHECK((file.sweep.dir == "runs/other" && file.sweep.repeat == 2));
  CHECK(file.arguments.size() == 2);
  CHECK(file.sweep_arguments.size() == 2);
}

TEST_CASE("A base has rows of its own, which come behind the file's") {
  const SweepCase c;
  c.folder().write("base.ini",
                   "[train]\nsteps = 3\n[sweep.row large]\nranks = 2\nmodel.width = 64\n[optim]\nlr = 0.5\n");
  const SweepFile file = c.read("[sweep]\nbase = base.ini\n[sweep.row a]\n");
  REQUIRE(file.rows.size() == 2);
  CHECK((file.rows[0].name == "a" && file.rows[1].name == "large" && file.rows[1].ranks == 2));
  CHECK(file.rows[1].settings.at(0).name == "model.width");
  CHECK((file.common.train.steps == 3 && file.common.optim.lr == 0.5 && file.common.model.width == 0));
  c.folder().write("base.ini", "[sweep.row a]\n");
  CHECK_THAT(c.error("[sweep]\nbase = base.ini\n[sweep.row a]\n"), Contains("base.ini:1: [sweep.row a] stands twice"));
}

TEST_CASE("What is no sweep's is refused with its line") {
  const SweepCase c;
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"[train]\nsteps = 3\n", " has no row. Add [sweep.vary]"},
           {"[sweep.row]\nranks = 1\n", ":1: a row has no name"},
           {"[sweep.rows]\nranks = 1\n", ":1: [sweep.rows] is an unknown section"},
           {"[sweep.row a]\n[train]\n[sweep.row a]\n", ":3: [sweep.row a] stands twice"},
           {"[sweep.row a]\nranks = 0\n", ":2: ranks = '0'"},
           {"[sweep.row a]\nranks = 2x\n", ":2: ranks = '2x'"},
           {"[sweep.vary]\nranks = 1, 99999999\n", ":2: ranks = '99999999'"},
           {"[sweep.row a]\nwidth = 3\n", ":2: 'width' is not a key of a row"},
           {"[sweep.row a]\nkind = shell\n", ":2: kind = 'shell'"},
           {"[sweep.row a]\nkind = command\n", ":2: kind = command needs command"},
           {"[sweep.row a]\ncommand = run\n", ":1: command = ... stands without kind = command"},
           {"[sweep.row a]\nmodel.widht = 3\n", "model.width"},
           {"[sweep.row a]\nmodel.width = x\n", ":2: model.width = 'x'"},
           {"[sweep.row a]\nplan.view = units\n", ":2: plan.view has no effect"},
           {"[sweep.vary]\nsweep.repeat = 1, 2\n", "sweep.repeat"},
           {"[sweep.vary]\nrun.name = a, b\n", "Set sweep.dir"},
           {"[run]\ndir = x\n[sweep.row a]\n", ":2: run.dir has no effect"},
           {"[sweep]\nname = a/b\n[sweep.row a]\n", "sweep.name = 'a/b'"},
           {"[sweep]\nbase = none.ini\n[sweep.row a]\n",
            "demo.ini:2: sweep.base = 'none.ini' is not a file next to"}}) {
    CAPTURE(text);
    CHECK_THAT(c.error(text), Contains(expected));
  }
  CHECK_THAT(c.error("[sweep.row a]\n", {"--run.dir=x"}), Contains("command line: run.dir has no effect"));
  CHECK_THAT(c.error("[sweep]\nbase = none.ini\n[sweep.row a]\n", {"--sweep.base=no.ini"}),
             Contains("command line: sweep.base = 'no.ini'"));
}
