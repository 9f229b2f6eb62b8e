#include <map>

#include "sweep/rows.hpp"
#include "sweep/sweep_case.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/validate.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;
using Words = std::vector<std::string>;

TEST_CASE("Rows are the product of what varies, the last option fastest, then the named ones") {
  const SweepCase c;
  const auto rows = c.rows("[sweep.vary]\nranks = 1, 2\noptim.lr = 1e-3, 2e-3\n[sweep.row more to do]\nranks = 4\n");
  CHECK(names_of(rows) == Words{"1-1e-3", "1-2e-3", "2-1e-3", "2-2e-3", "more_to_do"});
  CHECK((rows[3].ranks == 2 && rows[3].options.optim.lr == 2e-3));
  CHECK((rows[4].ranks == 4 && rows[4].options.optim.lr == OptimOptions{}.lr));
  CHECK(rows[4].options.model.width == 16);
}

TEST_CASE("An option without meaning in a row is left out of it and of its name, and equal rows are made once") {
  const SweepCase c;
  const auto rows = c.rows("[sweep.vary]\nshard.strategy = ddp, zero3\nshard.prefetch_forward = 1, 2\n", {});
  CHECK(names_of(rows) == Words{"ddp", "zero3-1", "zero3-2"});
  CHECK_FALSE(rows[0].options.is_given("shard.prefetch_forward"));
  CHECK(rows[2].options.shard.prefetch_forward == 2);
}

TEST_CASE("An option of the base that a row does not use is left out of it; one of the file's own is refused") {
  const SweepCase c;
  c.folder().write("base.ini", "[shard]\nmin_params = 20K\n[data]\nsynthetic_tokens = 5K\n");
  const std::string file = "[sweep]\nbase = base.ini\n[sweep.row whole]\n[sweep.row parts]\nshard.wrap = size\n";
  const auto rows = c.rows(file);
  CHECK(rows[0].options.shard.min_params == ShardOptions{}.min_params);
  CHECK(rows[1].options.shard.min_params == 20000);
  CHECK(rows[0].options.data.synthetic_tokens == 5000);
  CHECK_THAT(c.error(kSmallRows + file + "[shard]\nmin_params = 20K\n"),
             Contains("row whole") && Contains("has no effect"));
}

TEST_CASE("Arguments of a row make its options again") {
  const SweepCase c;
  for (const SweepRow& row : c.rows("[sweep.vary]\nshard.strategy = ddp, zero3\noptim.lr = 0.25, 3e-4\n",
                                    {"--train.steps=9", "--sweep.repeat=2"})) {
    INFO(row.name);
    const Words words = train_arguments(row.options);
    CHECK(std::ranges::find(words, "--train.steps=9") != words.end());
    for (const std::string& word : words) CHECK_FALSE(word.starts_with("--sweep."));
    const Options again = parse_arguments(words);
    CHECK(again.train == row.options.train);
    CHECK(again.shard == row.options.shard);
    CHECK(again.optim == row.options.optim);
    CHECK(again.model == row.options.model);
  }
}

TEST_CASE("Rows that read text share a cache beside the sweep's folder, unless one is named") {
  const SweepCase c;
  const auto rows = c.rows(std::string("[sweep]\ndir = some/sweep\n[sweep.row text]\ndata.source = texts\n") +
                               "[sweep.row named]\ndata.source = texts\ndata.cache = mine\n" +
                               "[sweep.row tokens]\ndata.source = a.bin\n[sweep.row none]\n",
                           {});
  std::map<std::string, std::string> caches;
  for (const SweepRow& row : rows) caches[row.name] = row.options.data.cache;
  CHECK(caches["text"] == "some/cache");
  CHECK(caches["named"] == "mine");
  CHECK(caches["tokens"].empty());
  CHECK(caches["none"].empty());
}

TEST_CASE("Rows are chosen by a pattern of their names") {
  const SweepCase c;
  const auto rows = c.rows("[sweep.vary]\nranks = 1, 2\noptim.lr = 1e-3, 2e-3\n");
  CHECK(chosen_rows(rows, "").size() == 4);
  CHECK(names_of(chosen_rows(rows, "2-*")) == Words{"2-1e-3", "2-2e-3"});
  CHECK(names_of(chosen_rows(rows, "?-1e-3")) == Words{"1-1e-3", "2-1e-3"});
  CHECK_THAT(message_of<UsageError>([&] { chosen_rows(rows, "3*"); }),
             Contains("sweep.only = '3*'") && Contains("1-1e-3, 1-2e-3, 2-1e-3, 2-2e-3"));
}

TEST_CASE("sweep.ranks replaces the ranks of every row, and names follow") {
  const SweepCase c;
  const std::string command = "kind = command\ncommand = run {ranks}\n";
  const std::string text =
      "[sweep]\nbaseline = one\n[sweep.row one]\nshard.strategy = ddp\n[sweep.vary]\n"
      "ranks = 2, 3\nshard.strategy = ddp, zero3\n[sweep.row m-1]\nranks = 1\noptim.lr = 1\n"
      "[sweep.row m-2]\nranks = 2\noptim.lr = 1\n[sweep.row 2-other]\nranks = 2\n" +
      command + "[sweep.row depth-2]\nranks = 2\noptim.lr = 2\n";
  SweepFile file = c.read(kSmallRows + text, {"--sweep.ranks=4,1"});
  auto rows = rows_of(file);
  CHECK(names_of(rows) ==
        Words{"4-ddp", "4-zero3", "1-ddp", "1-zero3", "m-4", "m-1", "4-other", "1-other", "4-depth-2", "1-depth-2"});
  for (const SweepRow& row : rows) CHECK(row.ranks == (row.name.find('4') == std::string::npos ? 1 : 4));
  CHECK(rows[6].command == "run {ranks}");
  CHECK(file.notes == Words{"row 4-one is left out, because 4-ddp is the same.",
                            "row 1-one is left out, because 1-ddp is the same.",
                            "The baseline one is not a row on these ranks. The first row takes its place."});
  CHECK(file.sweep.baseline.empty());
  file = c.read(kSmallRows + text, {"--sweep.ranks=4", "--sweep.baseline=4-ddp"});
  CHECK(names_of(rows_of(file)) == Words{"4-ddp", "4-zero3", "m-4", "4-other", "depth-2"});
  CHECK(file.sweep.baseline == "4-ddp");
  // No axis in the file.
  CHECK(names_of(c.rows("[sweep.vary]\noptim.lr = 3, 4\n[sweep.row a]\n", {"--sweep.ranks=1,1,2"})) ==
        Words{"1-3", "1-4", "2-3", "2-4", "1-a", "2-a"});
}

TEST_CASE("A row of other ranks is made only where its like differ in their ranks alone") {
  const SweepCase c;
  const std::string text =
      "[sweep.row w-1]\nranks = 1\nmodel.layers = 1\n[sweep.row w-2]\nranks = 2\nmodel.layers = 2\n";
  SweepFile file = c.read(kSmallRows + text, {"--sweep.ranks=2,4"});
  const auto rows = rows_of(file);
  CHECK((names_of(rows) == Words{"w-2"} && rows[0].options.model.layers == 2));
  CHECK(file.notes == Words{"row w-4 is left out, because rows like w-1 differ in more than their ranks. To have it, "
                            "add [sweep.row w-4] to the file."});
  CHECK_THAT(c.error(kSmallRows + text, {"--sweep.ranks=4"}), Contains("sweep.ranks = 4 leaves no row: row w-4 is"));
  CHECK_THAT(c.error(kSmallRows + text, {"--sweep.ranks=99999999"}), Contains("ranks = '99999999'"));
}

TEST_CASE("Options of earlier versions at their defaults change no row; other values are refused") {
  const SweepCase c;
  const std::string option = "shard.persistence_threshold";
  const auto rows = c.rows("[shard]\npersistence_threshold = 0\n[sweep.vary]\nshard.strategy = ddp, zero3\n" + option +
                           " = 0\n[sweep.row a]\n" + option + " = 0\noptim.lr = 1\n");
  CHECK(names_of(rows) == Words{"ddp-0", "zero3-0", "a"});
  for (const SweepRow& row : rows) CHECK(row.options.dropped.contains(option + " = 0"));
  for (const std::string place : {"[sweep.row a]\n", "[sweep.vary]\n"})
    CHECK_THAT(c.error(place + option + " = 5\n"), Contains(option + " = '5' does not work any more"));
}

TEST_CASE("Rows that cannot exist on the ranks of sweep.ranks are left out, and why is said") {
  const SweepCase c;
  const std::string hybrid = "[sweep.row hybrid-2]\nranks = 2\nshard.strategy = hsdp\nshard.group_size = 2\n";
  const std::string text = "[sweep]\nbaseline = hybrid-2\n" + hybrid +
                           "[sweep.row other-2]\nranks = 2\ntrain.global_batch = 4\n"
                           "[sweep.row program-2]\nranks = 2\nkind = command\ncommand = run\n";
  SweepFile file = c.read(kSmallRows + text, {"--sweep.ranks=1,8"});
  CHECK(names_of(rows_of(file)) == Words{"8-hybrid-2", "1-other-2", "1-program-2", "8-program-2"});
  CHECK(file.notes ==
        Words{"1-hybrid-2 cannot run on these ranks: shard.group_size = 2 does not divide the 1 rank. Use 1.",
              "8-other-2 cannot run on these ranks: train.global_batch = 4 is not a multiple of the 16 "
              "samples that 8 ranks with train.micro_batch = 2 run at a time. Use 16.",
              "The baseline hybrid-2 is not a row on these ranks. The first row takes its place."});
  CHECK_THAT(c.error(kSmallRows + hybrid, {"--sweep.ranks=1"}),
             Contains("sweep.ranks = 1 leaves no row: hybrid-2 cannot run on these ranks: shard.group_size = 2"));
  // The file's own ranks must be possible.
  CHECK_THAT(c.error(kSmallRows + hybrid + "[sweep.row b]\nranks = 3\nshard.strategy = hsdp\nshard.group_size = 2\n"),
             Contains("row b: shard.group_size = 2 does not divide the 3 ranks"));
}

TEST_CASE("The baseline is named without a number of ranks that all rows have") {
  const SweepCase c;
  const auto baseline = [&](const std::string& vary, const std::string& name, const Words& words = {}) {
    SweepFile file = c.read(kSmallRows + ("[sweep]\nbaseline = " + name + "\n[sweep.vary]\n" + vary), words);
    rows_of(file);
    return file.sweep.baseline;
  };
  const std::string rates = "optim.lr = 3e-4, 1e-3\n";
  for (const char* const name : {"3e-4", "2-3e-4"}) {
    CHECK(baseline("ranks = 2\n" + rates, name) == "2-3e-4");
    CHECK(baseline("ranks = 4\n" + rates, name, {"--sweep.ranks=2"}) == "2-3e-4");
    CHECK(baseline(rates, name, {"--sweep.ranks=2"}) == "2-3e-4");
  }
  CHECK(baseline(rates + "ranks = 2\n", "3e-4") == "3e-4-2");
  CHECK_THROWS_WITH(baseline("ranks = 1, 2\n" + rates, "3e-4"), Contains("sweep.baseline = '3e-4' is not a row"));
}

TEST_CASE("Rows that are not chosen are not checked") {
  const SweepCase c;
  const std::string text = std::string(kSmallRows) + "[sweep.row a]\nrun.dump = 9\n[sweep.row b]\n";
  CHECK_THAT(c.error(text, {"--train.steps=3"}), Contains("row a: run.dump"));
  SweepFile file = c.read(text, {"--train.steps=3", "--sweep.only=b"});
  CHECK(names_of(rows_of(file)) == Words{"a", "b"});
}

TEST_CASE("A row that cannot be is refused with its name") {
  const SweepCase c;
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"[sweep.vary]\nranks = 1\n[sweep.row 1]\n", "two rows are called '1'"},
           {"[sweep.row a/b]\n[sweep.row a:b]\n", "two rows are called 'a_b'"},
           {"[sweep.row data]\n", "row 'data' cannot have this name, because a folder is named after it"},
           {"[sweep.row .hidden]\n", "row '.hidden'"},
           {"[sweep.row " + std::string(201, 'x') + "]\n", "1 to 200 characters"},
           {"[sweep.row a]\nmodel.heads = 3\n", "row a: "},
           {"[sweep.row a]\nranks = 3\nshard.strategy = hsdp\nshard.group_size = 2\n", "row a: shard.group_size"},
           {"[sweep.row a]\nkind = command\ncommand = run {rank}\n", "row a: "},
           {"[sweep]\nbaseline = b\n[sweep.row a]\n[sweep.row c]\n",
            "sweep.baseline = 'b' is not a row. Use one of a, c."}}) {
    CAPTURE(text);
    CHECK_THAT(c.error(kSmallRows + text), Contains(expected));
  }
}
