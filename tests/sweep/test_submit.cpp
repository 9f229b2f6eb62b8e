#include <random>
#include <sstream>

#include "printed_to.hpp"
#include "sweep/actions.hpp"
#include "sweep/fake_programs.hpp"
#include "sweep/sweep_case.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/sweep/sweep.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;
using Words = std::vector<std::string>;

namespace {

/// Writes its words to a file, one per line, and numbers its jobs from 101. Refuses the call whose number is in the
/// file `refuse`.
constexpr const char* kSbatch =
    "cd ${0%/*}; n=1; while test -e call$n; do n=$((n + 1)); done\n"
    "test \"$(cat refuse 2>&1)\" != $n || exit 3\n"
    "printf '%s\\n' \"$@\" >call$n; echo \"$SBATCH_PARTITION\" >partition\n"
    "echo loaded modules; echo \"$((100 + n));cluster\"\n";

struct SubmitCase {
  explicit SubmitCase(const std::string& text, Words words = {})
      : sweep(make(text, std::move(words))), folder(sweep.file) {}
  Sweep make(const std::string& text, Words words) const {
    words.push_back("--sweep.dir=" + dir.string());
    words.push_back("--sweep.action=submit");
    SweepFile file = c.read(kSmallRows + text, words);
    const auto rows = rows_of(file);
    return {file, rows, rows};
  }
  /// Returns what it prints.
  std::string submit() const {
    int code = -1;
    std::string text = printed_to(1, [&] { code = submit_rows(sweep); });
    CHECK(code == 0);
    return text;
  }
  std::string refused() const {
    return message_of<UsageError>([&] { submit_rows(sweep); });
  }
  /// Returns the words of sbatch's n-th call.
  Words call(int n) const {
    std::istringstream lines(read_file(programs.folder() / fmt::format("call{}", n)));
    Words words;
    for (std::string line; std::getline(lines, line);) words.push_back(line);
    return words;
  }
  bool has(int call_number, const std::string& word) const {
    const Words words = call(call_number);
    return std::ranges::find(words, word) != words.end();
  }
  RowStatus status(std::size_t row) const { return folder.status(sweep.rows.at(row)); }

  SweepCase c;
  std::filesystem::path dir = c.folder() / "sweep", jobs = c.folder().write("jobs/sweep.sbatch", "").parent_path(),
                        site = c.folder().write("jobs/site.sh", "echo hello; export SBATCH_PARTITION=fast\n");
  FakePrograms programs{{{"sbatch", kSbatch},
                         {"squeue", "test ! -e ${0%/*}/queued || echo \"$*\"\n"},
                         {"sinfo", "echo gpu:4\n"},
                         {"scontrol", "cat ${0%/*}/config 2>/dev/null\n"},
                         {"scancel", "echo \"$@\" >${0%/*}/cancelled\n"}}};
  FakeVariable scripts{"TESSERA_JOBS", jobs.string()};
  Sweep sweep;
  SweepFolder folder;
};

const std::string kThreeShapes =
    "[sweep.row a]\n[sweep.row wide]\nranks = 9\n[sweep.row b]\noptim.lr = 0.1\n[sweep.row gpu]\nrun.device = cuda\n"
    "[sweep.row gpu-2]\nrun.device = cuda\n";

}  // namespace

TEST_CASE("Rows of one shape are submitted as one array, and the report after all") {
  const SubmitCase c(kThreeShapes, {"--train.steps=4", "--sweep.repeat=2", "--sweep.limit=90s",
                                    "--sweep.sbatch=--mem=1G --comment='a b'"});
  CHECK(c.submit() ==
        "job 101: 2 rows on 1 rank\njob 102: 2 rows on 1 rank, a GPU each\njob 103: 1 row on 9 ranks\n"
        "job 104: the table, after them, into " +
            c.dir.string() + "\n");
  const std::string slurm = (c.dir / "slurm").string();
  const std::string list = slurm + "/submit-1-1-ranks-1.rows";
  CHECK(c.call(1) == Words{"--parsable", "--array=1-2", "--job-name=demo-1", "--output=" + slurm + "/%A_%a.out",
                           "--nodes=1", "--ntasks-per-node=1", "--gpus-per-node=0", "--signal=B:USR1@60",
                           "--time=00:01:30", "--mem=1G", "--comment=a b", (c.jobs / "sweep.sbatch").string(), list,
                           c.dir.string()});
  CHECK(read_file(list) == "a\nb\n");
  CHECK_THAT(read_file(c.dir / "wide/row.ini"),
             Contains("repeat = 2\n") && Contains("[sweep.row wide]\nranks = 9\n") && Contains("steps = 4\n"));
  const auto has = [&](int call, const Words& expected) {
    for (const std::string& word : expected) CHECK(c.has(call, word));
  };
  has(2, {"--nodes=1", "--ntasks-per-node=1", "--gpus-per-node=1", slurm + "/submit-1-2-ranks-1-gpus.rows"});
  has(3, {"--nodes=3", "--ntasks-per-node=3", "--gpus-per-node=0", "--array=1-1"});
  has(4, {"--dependency=afterany:101:102:103", (c.jobs / "postprocess.sbatch").string(), c.dir.string()});
  CHECK(read_file(c.programs.folder() / "partition") == "fast\n");
  CHECK(c.folder.started() == Started::by_slurm);
  CHECK((c.status(2).message == "submitted as job 101_2" && c.status(2).job == "101_2"));
  CHECK((c.status(1).state == RowState::pending && c.status(1).job == "103_1"));
}

TEST_CASE("Rows are submitted again only when their jobs have ended, and only those that have not") {
  const SubmitCase c("[sweep.row a]\n[sweep.row b]\n");
  c.submit();
  c.programs.folder().write("queued", "");
  CHECK_THAT(c.refused(), Contains("job 101 of this sweep has not ended, as squeue says"));
  CHECK_THROWS_WITH(run_here(c.sweep), Contains("job 101 of this sweep has not ended"));
  std::filesystem::remove(c.programs.folder() / "queued");
  RowStatus status = c.status(0);
  status.state = RowState::failed;
  c.folder.write_status(c.sweep.rows[0], status);
  CHECK_THAT(c.submit(), Contains("job 103: 1 row on 1 rank\n"));
  CHECK(read_file(c.dir / "slurm/submit-2-1-ranks-1.rows") == "b\n");
  status.state = RowState::done;
  status.repeats = 1;
  for (const SweepRow& row : c.sweep.rows) c.folder.write_status(row, status);
  CHECK_THAT(c.submit(), Contains("nothing to submit"));
  CHECK(c.call(5).empty());
}

TEST_CASE("A pending row whose job has left the queue is named by status, and submitted again by retry") {
  const SubmitCase c("[sweep.row a]\n[sweep.row b]\n[sweep.row c]\n");
  c.submit();
  RowStatus status = c.status(2);
  status.state = RowState::failed;
  c.folder.write_status(c.sweep.rows[2], status);
  const auto shown = [&] { return printed_to(1, [&] { show_status(c.sweep); }); };
  c.programs.folder().write("squeue", "#!/bin/sh\nexit 1\n");  // Slurm's controller does not answer
  CHECK_THAT(shown(), !Contains("any more"));
  c.programs.folder().write("squeue",
                            "#!/bin/sh\n[ \"$*\" = '--noheader --array --format=%i --jobs=101,101' ] && echo 101_2\n");
  CHECK_THAT(shown(), Contains("submitted as job 101_1; squeue has no job 101_1 any more: --sweep.action=retry") &&
                          !Contains("job 101_2 any more") && !Contains("job 101_3 any more"));
  CHECK(printed_to(1, [&] { retry_rows(c.sweep); }).starts_with("job 103: 2 rows on 1 rank\n"));
  CHECK(read_file(c.dir / "slurm/submit-2-1-ranks-1.rows") == "a\nc\n");
}

TEST_CASE("Exclusive rows run one after the other, each alone on its nodes, whatever their shapes") {
  const SubmitCase c(kThreeShapes + "[sweep]\nexclusive = true\nsbatch = --mem=1G\n");
  CHECK_THAT(c.submit(), Contains("job 102: 2 rows on 1 rank, a GPU each, after job 101\n"
                                  "job 103: 1 row on 9 ranks, after job 102\njob 104: the table, after them"));
  CHECK((c.has(1, "--array=1-2%1") && c.has(1, "--exclusive") && !c.has(1, "--dependency=afterany:101")));
  CHECK((c.has(2, "--array=1-2%1") && c.has(2, "--exclusive") && c.has(2, "--dependency=afterany:101")));
  CHECK((c.has(3, "--array=1-1%1") && c.has(3, "--exclusive") && c.has(3, "--dependency=afterany:102")));
  CHECK(c.has(4, "--dependency=afterany:101:102:103"));
}

TEST_CASE("sweep.parallel limits the rows over all arrays: each of so many chains runs one at a time") {
  const SubmitCase c(kThreeShapes, {"--sweep.parallel=2"});
  c.submit();
  const std::vector<std::pair<std::string, std::string>> rows_and_before = {
      {"a\n", ""}, {"gpu\n", "101"}, {"wide\n", "102"}, {"b\n", ""}, {"gpu-2\n", "104"}};
  for (int n = 1; n <= 5; ++n) {
    INFO(n);
    const auto& [rows, before] = rows_and_before[static_cast<std::size_t>(n - 1)];
    const Words words = c.call(n);
    const auto list = std::ranges::find_if(words, [](const std::string& word) { return word.ends_with(".rows"); });
    CHECK(read_file(*list) == rows);
    CHECK((c.has(n, "--array=1-1%1") && !c.has(n, "--exclusive")));
    CHECK(c.has(n, "--dependency=afterany:" + before) == !before.empty());
  }
  CHECK(c.has(6, "--dependency=afterany:101:102:103:104:105"));
  // More chains than rows: all at once.
  const SubmitCase wide("[sweep.row a]\n[sweep.row b]\n", {"--sweep.parallel=100000"});
  CHECK_THAT(wide.submit(), Contains("job 101: 1 row on 1 rank\njob 102: 1 row on 1 rank\n"));
}

TEST_CASE("A node has the ranks that its row takes for a node's, unless sweep.node_ranks is given") {
  const std::string text = "[sweep.row a]\nranks = 8\ngrid.ranks_per_node = 4\n[sweep.row b]\nranks = 8\n";
  const SubmitCase c(text);
  CHECK_THAT(c.submit(), Contains("job 101: 1 row on 8 ranks\njob 102: 1 row on 8 ranks\n"));
  CHECK((c.has(1, "--nodes=2") && c.has(1, "--ntasks-per-node=4")));
  CHECK((c.has(2, "--nodes=1") && c.has(2, "--ntasks-per-node=8")));
  const SubmitCase given(text, {"--sweep.node_ranks=2"});
  CHECK_THAT(given.submit(), Contains("job 101: 2 rows on 8 ranks\n"));
  CHECK((given.has(1, "--nodes=4") && given.has(1, "--ntasks-per-node=2")));
}

TEST_CASE("A retry of rows that run in chains waits until no others do") {
  SubmitCase c("[sweep.row a]\n", {"--sweep.exclusive=true", "--sweep.ranks=2"});
  c.submit();
  CHECK(c.has(1, "--ntasks-per-node=2"));
  c.programs.folder().write("queued", "");
  c.sweep.file.sweep.action = SweepAction::retry;
  CHECK_THAT(c.refused(), Contains("job 101 of this sweep has not ended"));
}

TEST_CASE("A row that does not fit is not submitted") {
  const SubmitCase c("[plan]\nmemory = 20MB\n[sweep.row wide]\nmodel.width = 512\n[sweep.row a]\n");
  CHECK_THAT(c.submit(), Contains("wide ") && Contains("does-not-fit  plan.memory = 20.0 MB: needs") &&
                             Contains("job 101: 1 row on 1 rank\n"));
  CHECK(c.status(0).state == RowState::does_not_fit);
  CHECK(read_file(c.dir / "slurm/submit-1-1-ranks-1.rows") == "a\n");
}

TEST_CASE("What cannot be submitted is refused before anything is made") {
  for (const auto& [words, expected] : std::vector<std::pair<Words, std::string>>{
           {{"--sweep.limit=60s"}, "is too short, because Slurm warns a row 60 s before it"},
           {{"--sweep.launcher=srun"}, "sweep.launcher = 'srun' has no effect with submit"}}) {
    const SubmitCase c("[sweep.row a]\n", words);
    CHECK_THAT(c.refused(), Contains(expected));
    CHECK_FALSE(std::filesystem::exists(c.dir));
  }
  const SubmitCase c("[sweep.row a]\n");
  const FakeVariable nothing("PATH", c.c.folder().path().string());
  CHECK_THAT(c.refused(), Contains("no sbatch here"));
  CHECK_FALSE(std::filesystem::exists(c.dir));
}

TEST_CASE("What sbatch refuses has no job, and may be submitted again at once") {
  const SubmitCase c("[sweep.row a]\n");
  c.programs.folder().write("refuse", "1");
  CHECK_THAT(c.refused(), Contains("sbatch refuses with code 3"));
  CHECK_FALSE(std::filesystem::exists(c.programs.folder() / "cancelled"));
  CHECK((c.status(0).state == RowState::pending && c.status(0).job.empty()));
  c.programs.folder().write("queued", "");
  std::filesystem::remove(c.programs.folder() / "refuse");
  const auto delivered = std::filesystem::path(TESSERA_REFERENCE_DIR).parent_path().parent_path() / "jobs";
  const FakeVariable scripts("TESSERA_JOBS", delivered.string());
  CHECK_THAT(c.submit(), Contains("job 101: 1 row"));
  const Words words = c.call(1);
  CHECK(std::ranges::find(words, (delivered / "sweep.sbatch").string()) != words.end());
}

TEST_CASE("A build without CUDA asks for no GPUs where the device is open") {
  const SubmitCase c("[sweep.row a]\nrun.device = auto\n");
  c.submit();
  CHECK(c.has(1, built_with_cuda() ? "--gpus-per-node=1" : "--gpus-per-node=0"));
}

TEST_CASE("More rows than an array may have are cut into several, and all or none are submitted") {
  std::mt19937 draw(7);
  for (int i = 0; i < 6; ++i) {
    const std::size_t most = 1 + draw() % 4, arrays_before_failure = draw() % 3;
    const bool in_chain = draw() % 2 == 0;
    std::map<std::string, Words> names;  // by ranks
    std::string text;
    for (std::size_t row = 0, rows = 1 + draw() % 9; row < rows; ++row) {
      const std::string ranks = std::to_string(1 + draw() % 2), name = fmt::format("row{}", row);
      names[ranks].push_back(name);
      text += fmt::format("[sweep.row {}]\nranks = {}\n", name, ranks);
    }
    const SubmitCase c(text, in_chain ? Words{"--sweep.exclusive=true"} : Words());
    c.programs.folder().write("config", fmt::format("A = 1\nMaxArraySize            = {}\n", most + 1));
    c.programs.folder().write("refuse", std::to_string(arrays_before_failure + 1));
    const std::size_t calls = [&] {
      std::size_t count = 1;
      for (const auto& [ranks, of_ranks] : names) count += (of_ranks.size() + most - 1) / most;
      return count;
    }();
    CAPTURE(text, most, arrays_before_failure, calls);
    int first = 1;
    if (arrays_before_failure < calls) {
      CHECK_THAT(c.refused(), Contains("sbatch refuses with code 3"));
      CHECK(std::filesystem::exists(c.programs.folder() / "cancelled") == (arrays_before_failure > 0));
      CHECK(c.status(0).job.empty());
      std::filesystem::remove(c.programs.folder() / "refuse");
      first = static_cast<int>(arrays_before_failure) + 1;
    }
    c.submit();
    std::map<std::string, Words> submitted;
    std::string dependency = "--dependency=afterany";
    const int report = first + static_cast<int>(calls) - 1;
    for (int call = first; call < report; ++call) {
      const Words words = c.call(call);
      const auto list = std::ranges::find_if(words, [](const std::string& word) { return word.ends_with(".rows"); });
      std::istringstream lines(read_file(*list));
      const std::size_t before = submitted["1"].size() + submitted["2"].size();
      Words& of_ranks = submitted[c.has(call, "--ntasks-per-node=1") ? "1" : "2"];
      for (std::string line; std::getline(lines, line);) of_ranks.push_back(line);
      const std::size_t rows = submitted["1"].size() + submitted["2"].size() - before;
      CHECK((rows >= 1 && rows <= most));
      CHECK(c.has(call, fmt::format("--array=1-{}{}", rows, in_chain ? "%1" : "")));
      CHECK(c.has(call, fmt::format("--dependency=afterany:{}", 99 + call)) == (in_chain && call > first));
      dependency += fmt::format(":{}", 100 + call);
    }
    std::erase_if(submitted, [](const auto& entry) { return entry.second.empty(); });
    CHECK(submitted == names);
    CHECK(c.has(report, dependency));
  }
}

TEST_CASE("Rows that wait in the queue are taken from the file as it was when they were submitted") {
  const std::string before =
      "[sweep.vary]\noptim.lr = 4e-3, 5e-3\nranks = 1, 2\n[sweep.row program]\nkind = command\n"
      "command = sh -c 'echo {} > {run}/metrics.json' # \"{optim.lr}\"\noptim.lr = 0.25\n";
  const SubmitCase c(before, {"--train.steps=5", "--sweep.repeat=2"});
  c.submit();
  for (const SweepRow& row : c.sweep.rows) {
    SweepFile file = read_sweep_file(c.folder.row(row) / "row.ini", {});
    const std::vector<SweepRow> own = rows_of(file);
    REQUIRE(own.size() == 1);
    CHECK((own[0].name == row.name && own[0].ranks == row.ranks && own[0].command == row.command));
    CHECK(train_arguments(own[0].options) == train_arguments(row.options));
    CHECK((file.sweep.repeat == 2 && file.sweep.requeues == c.sweep.file.sweep.requeues));
  }
  const auto act = [&](const std::string& action, const std::filesystem::path& file) {
    const Words words{"--sweep.action=" + action, "--sweep.dir=" + c.dir.string()};
    int code = -1;
    const std::string said = printed_to(1, [&] { code = run_sweep(file, read_arguments(words).settings); });
    CHECK(code == 0);
    return said;
  };
  std::ofstream(c.sweep.file.path) << "[sweep.vary\n";  // an editor that has not finished
  CHECK_THAT(act("row", c.dir / "program/row.ini"), Contains("program") && Contains("done"));
  std::ofstream(c.sweep.file.path) << kSmallRows << "[sweep.vary]\noptim.lr = 8e-3\n";
  const auto& file = c.sweep.file.path;
  CHECK_THAT(act("status", file), Contains("4e-3-2 ") && Contains("program ") && !Contains("8e-3"));
  c.programs.folder().write("queued", "");
  CHECK_THROWS_WITH(act("retry", file), Contains("job 101 of this sweep has not ended"));
  CHECK_THAT(act("status", file), Contains("4e-3-1 "));
  std::filesystem::rename(c.dir / "4e-3-1", c.dir / "elsewhere");
  CHECK_THAT(act("status", file), Contains("its folder is missing: was it renamed?"));
}
