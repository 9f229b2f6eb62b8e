#include "sweep/fake_programs.hpp"
#include "tessera/text/corpus.hpp"
#include "text/prepare.hpp"
#include "text/row_stream.hpp"
#include "text/text_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;

namespace {

/// In place of Python: a file called .parquet holds what the helper is to answer about it.
constexpr const char* kPlayed = R"(#!/usr/bin/python3
import json, os, sys
print("{}", flush=True)
for line in sys.stdin.buffer:
    with open(bytes.fromhex(json.loads(line)["file"]), "rb") as file:
        sys.stdout.buffer.write(file.read())
    sys.stdout.buffer.flush()
    if os.path.exists(os.path.dirname(os.fsencode(__file__)) + b"/ends"):
        break
)";

class PlayedRows {
 public:
  PlayedRows() : python_("TESSERA_PYTHON", folder_.write("python", kPlayed).string()) {
    std::filesystem::permissions(folder_ / "python", std::filesystem::perms::owner_all);
  }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  test::FakeVariable python_;
};

std::string rows_read(const std::filesystem::path& path, std::size_t step = 7) {
  const auto list = examined(path.string());
  RowReader reader(path);
  const auto bytes = reader.open(list.files.at(0), "text");
  std::string all, block(step, '\0');
  std::int64_t taken = 0;
  while (const std::size_t got = bytes->read(block.data(), block.size())) {
    all.append(block, 0, got);
    CHECK(bytes->taken() >= taken);
    taken = bytes->taken();
  }
  CHECK(bytes->taken() == list.files.at(0).state.size);
  return all;
}

}  // namespace

TEST_CASE("Rows are read as lines, whatever the name of their file") {
  const PlayedRows played;
  const TemporaryFolder& folder = played.folder();
  const std::string rows = "{\"text\":\"one\"}\n{\"text\":\"two\"}\n";
  for (const char* name : {"a.parquet", "B.PARQUET", "with\nlines \xff and \xc3\xa9.parquet"}) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{1000}})
      CHECK(rows_read(folder.write(name, "{\"rows\": 2}\n" + rows), step) == rows);
  }
  CHECK(rows_read(folder.write("a.parquet", "{\"rows\": 0}\n")).empty());
  std::string many;
  for (int i = 0; i < 3000; ++i) many += std::string(static_cast<std::size_t>(i % 997), 'x') + "\n";
  CHECK(rows_read(folder.write("a.parquet", "{\"rows\": 3000}\n" + many), 5000) == many);
}

TEST_CASE("Files of rows that cannot be read are refused by name") {
  const PlayedRows played;
  const TemporaryFolder& folder = played.folder();
  const auto error = [&](const std::string& answer) {
    return error_of([&] { rows_read(folder.write("a.parquet", answer)); });
  };
  CHECK_THAT(error("{\"error\": \"it is cut\"}\n"),
             Contains("a.parquet cannot be read: it is cut. Copy the file again"));
  CHECK_THAT(error("{\"error\": \"it has no text\", \"columns\": true}\n"),
             Contains("it has no text. Give data.text_key"));
  CHECK_THAT(error("{\"rows\": 9}\n{}\n?a page is damaged\n"),
             Contains("a.parquet cannot be read: after row 1: a page is damaged"));
  folder.write("ends", "");
  const auto file = folder.write("a.parquet", "{\"rows\": 9}\n{}\n");
  CHECK_THAT(error_of<IoError>([&] { rows_read(file); }),
             Contains("a.parquet is not read on after row 1") && Contains("ended before it answered"));
  const test::FakeVariable none("TESSERA_PYTHON", "/no/python");
#ifdef __aarch64__  // qemu-user forks where posix_spawn shares memory, so that it cannot say that nothing was started
  CHECK_THAT(error("{}"), Contains("but /no/python "));
#else
  CHECK_THAT(error("{}"), Contains("but /no/python cannot be started"));
#endif
}

TEST_CASE("Rows are prepared among other files, in the order of names, and bad ones are named by row") {
  const PlayedRows played;
  const TemporaryFolder& folder = played.folder();
  folder.write("in/a.txt", "A");
  folder.write("in/b.parquet", "{\"rows\": 2}\n{\"text\":\"B\"}\n{\"text\":\"C\",\"messages\":null}\n");
  folder.write("in/c.json", R"([{"text": "D"}])");
  folder.write("in/d.parquet",
               "{\"rows\": 4}\n{\"text\":null}\n!the row is not UTF-8\n{\"text\":3}\n"
               "{\"text\":null,\"prompt\":\"E\",\"completion\":\"F\"}\n");
  folder.write("in/e.jsonl", "{\"text\": \"G\"}\n");
  Options options;
  options.data.source = (folder / "in").string();
  options.data.tokenizer = "bytes";
  options.data.separator = "|";
  options.data.cache = (folder / "cache").string();
  CHECK_THAT(error_of([&] { prepare_in_cache(options, "data.source", {}); }),
             Contains("d.parquet, row 1: \"text\" is null") && Contains("data.on_error = skip"));
  options.data.on_error = OnError::skip;
  std::string said;
  CorpusSettings settings;
  settings.say = [&](const std::string& line) { said += line + "\n"; };
  const auto tokens = open_corpus(options, 256, settings);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens->size()));
  tokens->copy(0, tokens->size(), ids.data());
  CHECK(std::string(ids.begin(), ids.end()) == "A|B|C|D|EF|G|");
  CHECK_THAT(said, Contains("3 places") && Contains("d.parquet, row 1: \"text\" is null") &&
                       Contains("d.parquet, row 2: the row is not UTF-8") &&
                       Contains("d.parquet, row 3: \"text\" is a number"));
}
