#include "sweep/sweep_case.hpp"
#include "sweep/tokens.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/text/corpus.hpp"

using namespace tessera;
using namespace tessera::test;

TEST_CASE("The corpus of a command is written once for each content, for those that want it") {
  const SweepCase c;
  SweepFile file = c.read(std::string(kSmallRows) +
                              "[data]\nsynthetic_tokens = 5K\n"
                              "[sweep.row plain]\nkind = command\ncommand = run {ranks}\n"
                              "[sweep.row one]\nkind = command\ncommand = run {tokens}\n"
                              "[sweep.row same]\nkind = command\ncommand = other {tokens}\n"
                              "[sweep.row seed]\nkind = command\ncommand = run {tokens}\ndata.seed = 7\n",
                          {"--sweep.dir=" + (c.folder() / "sweep").string()});
  const SweepFolder folder(file);
  const auto rows = rows_of(file);
  CHECK(tokens_for(folder, rows[0]).empty());
  CHECK_FALSE(std::filesystem::exists(c.folder() / "sweep/data"));
  const auto path = tokens_for(folder, rows[1]);
  CHECK(path.parent_path() == c.folder() / "sweep/data");
  const auto corpus = open_corpus(rows[1].options, 256);
  const auto written = open_token_file(path);
  CHECK(written->size() == 5000);
  CHECK(fingerprint(*written) == fingerprint(*corpus));
  const auto time = std::filesystem::last_write_time(path);
  CHECK(tokens_for(folder, rows[2]) == path);
  CHECK(std::filesystem::last_write_time(path) == time);
  CHECK(tokens_for(folder, rows[3]) != path);
}
