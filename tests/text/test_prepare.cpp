
#include <nlohmann/json.hpp>

#include "sanitized.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/text/prepared.hpp"
#include "text/pair_tokenizer.hpp"
#include "text/prepare.hpp"
#include "text/text_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;

namespace {

namespace fs = std::filesystem;

PrepareJob job_of(const fs::path& source, std::int64_t vocab = PairTokenizer::kEnd + 1, int threads = 2) {
  PrepareJob job;
  job.sources = examined(source.string());
  job.tokenizer_name = "pairs";
  job.tokenizer = std::make_unique<PairTokenizer>(vocab);
  job.separator = job.tokenizer->end_of_text();
  job.text_key = "text";
  job.settings.threads = threads;
  job.settings.piece = 2000;
  return job;
}

std::string bytes_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::int32_t> ids_of(const fs::path& tokens) {
  const auto source = open_token_file(tokens);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(source->size()));
  source->copy(0, source->size(), ids.data());
  return ids;
}

/// A corpus of several files and some 40 pieces.
void write_corpus(const TemporaryFolder& folder, bool prompts = false) {
  std::string text, lines;
  for (int i = 0; i < 8000; ++i) text += fmt::format("word{} ", i * 7919 % 1000);
  for (int i = 0; i < 300; ++i) lines += fmt::format("{{\"text\": \"line {} of a corpus\"}}\n", i);
  if (prompts) {
    for (int i = 0; i < 300; ++i)
      lines += fmt::format("{{\"prompt\": \"question {}\", \"completion\": \"answer {}\"}}\n", i, i);
  }
  folder.write("texts/a.txt", text);
  folder.write("texts/b.jsonl", lines);
  folder.write("texts/c.txt", "the last one");
}

/// Names what a prepared folder holds.
std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

}  // namespace

TEST_CASE("A prepared corpus has tokens, an index of its documents and a description") {
  const TemporaryFolder folder;
  write_corpus(folder);
  const auto job = job_of(folder / "texts");
  const fs::path made = prepared_folder(job, folder / "cache");
  CHECK(names_in(made) == std::set<std::string>{"tokens.bin", "documents.idx", "info.json"});
  CHECK(names_in(folder / "cache") == std::set<std::string>{made.filename().string()});
  const auto ids = ids_of(made / "tokens.bin");
  const DocumentIndex index(made / "documents.idx", std::ssize(ids));
  REQUIRE(index.size() == 302);
  CHECK(index.begin(0) == 0);
  CHECK(index.end(301) == std::ssize(ids));
  const std::vector<std::int32_t> last(ids.begin() + index.begin(301), ids.end());
  CHECK(job.tokenizer->decode(last) == "the last one<end>");
  const auto info = nlohmann::json::parse(bytes_of_file(made / "info.json"));
  CHECK(info["tokens"] == ids.size());
  CHECK(info["documents"] == 302);
  CHECK(info["files"] == 3);
  CHECK(info["tokenizer"] == "pairs");
  CHECK(info["separator"] == PairTokenizer::kEnd);
  CHECK(info["tokens_per_second"] > 0.0);

  const auto wide = prepared_folder(job_of(folder / "texts", 70'000), folder / "cache");
  CHECK(wide != made);
  CHECK(ids_of(wide / "tokens.bin") == ids);
  CHECK(fs::file_size(wide / "tokens.bin") == 1024 + 4 * ids.size());
  const std::string bytes = bytes_of_file(made / "tokens.bin");
  for (const int threads : {1, 5}) {
    fs::remove_all(made);
    prepared_folder(job_of(folder / "texts", PairTokenizer::kEnd + 1, threads), folder / "cache");
    CHECK(bytes_of_file(made / "tokens.bin") == bytes);
  }
}

TEST_CASE("A key tells corpora, tokenizers and options apart") {
  const TemporaryFolder folder;
  write_corpus(folder);
  const auto key = [&](const std::function<void(PrepareJob&)>& change = {}) {
    auto job = job_of(folder / "texts");
    if (change) change(job);
    return job.key();
  };
  const std::string first = key();
  std::set<std::string> keys{first};
  CHECK(key() == first);
  CHECK(key([](auto& job) { job.settings.threads = 7; }) == first);
  keys.insert(key([](auto& job) { job.tokenizer = std::make_unique<PairTokenizer>(2000); }));
  keys.insert(key([](auto& job) { job.separator.reset(); }));
  keys.insert(key([](auto& job) { job.on_error = OnError::skip; }));
  keys.insert(key([](auto& job) { job.text_key = "body"; }));
  keys.insert(key([](auto& job) { std::swap(job.sources.files[0], job.sources.files[1]); }));
  fs::last_write_time(folder / "texts" / "c.txt", fs::file_time_type::clock::now() - std::chrono::hours(1));
  keys.insert(key());
  folder.write("texts/c.txt", "the last one!");
  keys.insert(key());
  fs::rename(folder / "texts" / "c.txt", folder / "texts" / "d.txt");
  keys.insert(key());
  CHECK(keys.size() == 9);
}

nlohmann::json info_of(const fs::path& entry) { return nlohmann::json::parse(bytes_of_file(entry / "info.json")); }

TEST_CASE("What was cut off goes on from its journal, whatever lies after it, to the same bytes") {
  const TemporaryFolder folder;
  write_corpus(folder, true);
  const auto whole = prepared_folder(job_of(folder / "texts"), folder / "whole");
  const std::string tokens = bytes_of_file(whole / "tokens.bin"), index = bytes_of_file(whole / "documents.idx"),
                    mask = bytes_of_file(whole / "uncounted.idx");
  REQUIRE(mask.size() == 64 + 300 * 16);
  const int pieces = kSanitized ? 8 : 25;
  for (int stop = 1; stop < pieces; stop += 3) {
    CAPTURE(stop);
    const fs::path cache = folder / fmt::format("cache-{}", stop);
    auto job = job_of(folder / "texts");
    int asked = 0;
    job.settings.stop = [&] { return ++asked > stop ? "SIGTERM" : ""; };
    CHECK_THAT(error_of<Error>([&] { prepared_folder(job, cache); }), Contains("SIGTERM while"));
    const fs::path beside = cache / (job.key() + ".tmp");
    REQUIRE(fs::exists(beside / "journal.json"));
    CHECK_FALSE(fs::exists(cache / job.key()));
    CHECK_FALSE(fs::exists(cache / (job.key() + ".lock")));
    std::vector<std::string> said;
    job.settings.stop = {};
    job.settings.say = [&](const std::string& line) { said.push_back(line); };
    if (stop % 2 == 0) std::ofstream(beside / "tokens.bin", std::ios::app) << "what the journal does not know";
    if (stop % 3 == 0) std::ofstream(beside / "documents.idx", std::ios::app) << "nor this";
    if (stop % 4 == 0) std::ofstream(beside / "uncounted.idx", std::ios::app) << "nor that";
    const fs::path made = prepared_folder(job, cache);
    CHECK(bytes_of_file(made / "tokens.bin") == tokens);
    CHECK(bytes_of_file(made / "documents.idx") == index);
    CHECK(bytes_of_file(made / "uncounted.idx") == mask);
    for (const char* key : {"documents", "uncounted_runs", "uncounted_tokens", "text_bytes", "bad_places"})
      CHECK(info_of(made)[key] == info_of(whole)[key]);
    REQUIRE(said.size() >= 2);
    CHECK_THAT(said[1], Contains("going on   after"));
  }
}

TEST_CASE("A journal that its files do not bear out is not believed") {
  const TemporaryFolder folder;
  write_corpus(folder);
  const auto whole = prepared_folder(job_of(folder / "texts"), folder / "whole");
  const std::string tokens = bytes_of_file(whole / "tokens.bin");
  int number = 0;
  const std::function<void(const fs::path&)> damages[] = {
      [](const auto& tmp) { fs::resize_file(tmp / "tokens.bin", 1030); },
      [](const auto& tmp) { fs::remove(tmp / "documents.idx"); },
      [](const auto& tmp) { std::ofstream(tmp / "journal.json") << "{\"key\""; },
      [](const auto& tmp) { std::ofstream(tmp / "journal.json") << R"({"key": "another"})"; },
  };
  for (const auto& damage : damages) {
    const fs::path cache = folder / fmt::format("cache-{}", ++number);
    auto job = job_of(folder / "texts");
    int asked = 0;
    job.settings.stop = [&] { return ++asked > 10 ? "stopped" : ""; };
    CHECK_THROWS_AS(prepared_folder(job, cache), Error);
    damage(cache / (job.key() + ".tmp"));
    job.settings.stop = {};
    CHECK(bytes_of_file(prepared_folder(job, cache) / "tokens.bin") == tokens);
  }
}

TEST_CASE("A waiting process says so once, and goes on when the other has finished") {
  const TemporaryFolder folder;
  write_corpus(folder);
  auto job = job_of(folder / "texts");
  std::vector<std::string> said;
  job.settings.say = [&](const std::string& line) { said.push_back(line); };
  const fs::path cache = folder / "cache";
  ProcessOwner other = ProcessOwner::me();
  other.host = "node7", other.system = "another boot";
  const auto lock = folder.write("cache/" + job.key() + ".lock", other.text());
  int looks = 0;
  job.settings.stop = [&] {
    if (++looks == 3) {  // as the other process would have left it
      const auto made = prepared_folder(job_of(folder / "texts"), folder / "whole");
      fs::rename(made, cache / job.key());
    }
    return looks > 20 ? "too long" : "";
  };
  CHECK(prepared_folder(job, cache) == cache / job.key());
  CHECK(said.size() == 1);
  CHECK_THAT(said.at(0), Contains("waiting") && Contains("on node7") && Contains(job.key()));
  CHECK(fs::exists(lock));
}

TEST_CASE("A bad place stops the work, or is counted and shown") {
  const TemporaryFolder folder;
  folder.write("texts/a.jsonl", "{\"text\": \"a\"}\nbad\n{\"text\": \"b\"}\n");
  folder.write("texts/b.txt", "x\n\xff\n");
  auto job = job_of(folder / "texts");
  CHECK_THAT(error_of([&] { prepared_folder(job, folder / "cache"); }),
             Contains("a.jsonl:2: this is not JSON") && Contains("data.on_error = skip"));
  std::vector<std::string> said;
  job.settings.say = [&](const std::string& line) { said.push_back(line); };
  job.on_error = OnError::skip;
  const auto made = prepared_folder(job, folder / "cache");
  const auto info = nlohmann::json::parse(bytes_of_file(made / "info.json"));
  CHECK(info["bad_places"] == 2);
  CHECK_THAT(std::string(info["first_bad_places"][1]), Contains("b.txt:2: byte 0xff"));
  REQUIRE(said.size() == 3);
  CHECK_THAT(said[2], Contains("2 places") && Contains("a.jsonl:2: ") && Contains("b.txt:2: "));
  folder.write("cut/a.json", R"([{"text": "one"}, {"text": 2}, {"text": "three)");
  auto cut = job_of(folder / "cut");
  cut.on_error = OnError::skip;
  CHECK_THAT(error_of([&] { prepared_folder(cut, folder / "cache"); }),
             Contains("a.json:1: this is not JSON") && Contains("rest of the file"));
  folder.write("bad/a.json", "[7]");
  auto bad = job_of(folder / "bad");
  bad.on_error = OnError::skip;
  CHECK_THAT(error_of([&] { prepared_folder(bad, folder / "cache"); }),
             Contains("1 bad, first") && Contains("a number"));
  folder.write("nothing/a.txt", "");
  CHECK_THAT(error_of([&] { prepared_folder(job_of(folder / "nothing"), folder / "cache"); }),
             Contains("no text in 1 file"));
}

TEST_CASE("Lines called .json are read as those of a .jsonl file, a bad one among them too") {
  const TemporaryFolder folder;
  std::string lines, text;
  for (int i = 0; i < 3000; ++i) {
    lines += i == 1500 ? "{\"text\": 7}\r\n" : fmt::format("{{\"text\": \"row {}\", \"x\": NaN}}\r\n", i);
    if (i != 1500) text += fmt::format("row {}<end>", i);
  }
  folder.write("plain/a.json", lines);
  folder.write("gz/a.json.gz", gzipped("\xef\xbb\xbf\n" + lines));
  folder.write("first/a.json", lines.substr(0, lines.find('\n')));  // an object without another line
  for (const char* name : {"plain", "gz"}) {
    auto job = job_of(folder / name);
    CHECK_THAT(error_of([&] { prepared_folder(job, folder / "cache"); }),
               Contains(std::string(name) == "gz" ? "a.json.gz:1502: " : "a.json:1501: ") && Contains("a number"));
    job.on_error = OnError::skip;
    CHECK(job.tokenizer->decode(ids_of(prepared_folder(job, folder / "cache") / "tokens.bin")) == text);
  }
  const auto one = job_of(folder / "first");
  CHECK(one.tokenizer->decode(ids_of(prepared_folder(one, folder / "cache") / "tokens.bin")) == "row 0<end>");
}

TEST_CASE("What is mended is read, counted and shown, and hides no bad line behind it") {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 9; ++i) lines += "{\"text\": \"\\ud83d\"}\n";
  folder.write("texts/a.jsonl", lines);
  folder.write("texts/b.json", "[{\"text\": \"\\ud83d\"},\n {\"text\": \"b\", \"messages\": [1]}]");
  folder.write("texts/c.txt.gz", gzipped("text") + "garbage");
  const auto job = job_of(folder / "texts");
  const auto made = prepared_folder(job, folder / "cache");
  const auto info = nlohmann::json::parse(bytes_of_file(made / "info.json"));
  CHECK(info["documents"] == 12);
  CHECK(info["bad_places"] == 12);
  CHECK_THAT(std::string(info["first_bad_places"][0]), Contains("a.jsonl:1: 1 surrogate without the other half"));
  CHECK_THAT(std::string(info["first_bad_places"][3]), Contains("b.json:2: \"text\" is taken, and not \"messages\""));
  CHECK_THAT(std::string(info["first_bad_places"][4]), Contains("b.json: 1 surrogate"));
  folder.write("texts/a.jsonl", lines + "bad\n");
  CHECK_THAT(error_of([&] { prepared_folder(job_of(folder / "texts"), folder / "cache"); }),
             Contains("a.jsonl:10: this is not JSON"));
}

TEST_CASE("UTF-16 is refused by its mark, whatever reads it") {
  const TemporaryFolder folder;
  for (const std::string& mark : {std::string("\xff\xfe"), std::string("\xfe\xff")}) {
    folder.write("a.txt", mark + std::string("t\0e\0", 4));
    folder.write("b.txt.gz", gzipped(mark + std::string("t\0e\0", 4)));
    folder.write("c.json", mark + std::string("{\0}\0", 4));
    for (const char* name : {"a.txt", "b.txt.gz", "c.json"}) {
      auto job = job_of(folder / name);
      job.on_error = OnError::skip;
      CHECK_THAT(error_of([&] { prepared_folder(job, folder / "cache"); }),
                 Contains(name) && Contains("of UTF-16") && Contains("iconv"));
    }
    CHECK_THAT(error_of([&] { open_text_files("a", {folder / "a.txt"}); }), Contains("a.txt") && Contains("UTF-16"));
  }
}

TEST_CASE("An output is llm.c's file with an index beside it, and replaces nothing") {
  const TemporaryFolder folder;
  write_corpus(folder);
  const auto job = job_of(folder / "texts");
  fs::path out = folder / "out.bin";
  prepare_file(job, out);
  const auto made = prepared_folder(job, folder / "cache");
  CHECK(ids_of(out) == ids_of(made / "tokens.bin"));
  CHECK(bytes_of_file(folder / "out.bin.idx") == bytes_of_file(made / "documents.idx"));
  std::int32_t magic = 0;
  std::memcpy(&magic, bytes_of_file(out).data(), sizeof magic);
  CHECK(magic == 20240520);
  CHECK(names_in(folder.path()) == std::set<std::string>{"texts", "cache", "out.bin", "out.bin.idx"});
  CHECK_THAT(error_of([&] { prepare_file(job, out); }), Contains("out.bin exists"));
  const std::string whole = bytes_of_file(out);
  fs::create_directory(folder / "out.bin.tmp");  // killed between the two renames
  fs::remove(out);
  prepare_file(job, out);
  CHECK(bytes_of_file(out) == whole);
  fs::remove(out);
  CHECK_THAT(error_of([&] { prepare_file(job, out); }), Contains("out.bin.idx exists"));
  prepare_file(job, out = folder / "again.bin");
  CHECK_THAT(error_of([&] { prepare_file(job, folder / "no/out.bin"); }), Contains("does not exist"));
  CHECK_THAT(error_of([&] { DocumentIndex(out, 100); }), Contains("another magic number"));
  CHECK_THAT(error_of([&] { DocumentIndex(folder / "out.bin.idx", 100); }), Contains("beyond the tokens"));
}

TEST_CASE("Of two that write one output the second is refused") {
  const TemporaryFolder folder;
  write_corpus(folder);
  auto job = job_of(folder / "texts");
  const fs::path out = folder / "out.bin";
  ProcessOwner other = ProcessOwner::me();
  other.host = "node7", other.system = "another boot";
  const auto lock = folder.write("out.bin.lock", other.text());
  std::vector<std::string> said;
  job.settings.say = [&](const std::string& line) { said.push_back(line); };
  int looks = 0;
  job.settings.stop = [&] {
    if (++looks == 2) folder.write("out.bin", "theirs"), fs::remove(lock);
    return looks > 20 ? "too long" : "";
  };
  CHECK_THAT(error_of([&] { prepare_file(job, out); }), Contains("out.bin exists"));
  CHECK(bytes_of_file(out) == "theirs");
  CHECK_THAT(said.at(0), Contains("which writes") && Contains("out.bin"));
}

TEST_CASE("A damaged entry of the cache is prepared again") {
  const TemporaryFolder folder;
  write_corpus(folder);
  const auto job = job_of(folder / "texts");
  const auto made = prepared_folder(job, folder / "cache");
  const std::string tokens = bytes_of_file(made / "tokens.bin");
  const std::vector<std::function<void()>> damages{
      [&] { fs::resize_file(made / "tokens.bin", 100); }, [&] { fs::remove(made / "info.json"); },
      [&] { fs::remove(made / "documents.idx"); }, [&] { folder.write(made.string() + "/info.json", "{"); }};
  for (const auto& damage : damages) {
    damage();
    CHECK(prepared_folder(job, folder / "cache") == made);
    CHECK(bytes_of_file(made / "tokens.bin") == tokens);
    CHECK(names_in(folder / "cache") == std::set<std::string>{made.filename().string()});
  }
}

TEST_CASE("What stands before documents makes another entry of the cache, and nothing makes the same as before") {
  const TemporaryFolder folder;
  folder.write("a.txt", "some text");
  PrepareJob job = job_of(folder / "a.txt");
  const std::string key = job.key();
  job.begin = {7};
  CHECK(job.key() != key);
  CHECK_THAT(job.describe_tokenizer(), Contains("pairs, \x07 before each document"));
  const fs::path made = prepared_folder(job, folder / "cache");
  CHECK(ids_of(made / "tokens.bin").front() == 7);
  CHECK(nlohmann::json::parse(bytes_of_file(made / "info.json"))["begin"] == std::vector<int>{7});
}
