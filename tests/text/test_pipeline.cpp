#include <fmt/ranges.h>

#include <algorithm>
#include <random>

#include "text/pair_tokenizer.hpp"
#include "text/pipeline.hpp"
#include "text/text_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;
using Catch::EndsWith;

namespace {

struct Result {
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> ends;
  std::vector<TokenRun> uncounted;
  std::vector<std::string> bad;
  std::int64_t pieces = 0, bad_places = 0;
  bool operator==(const Result&) const = default;
};

Result encoded(const std::string& source, int threads, PieceSettings pieces = {}, PiecePlace from = {},
               bool separated = true, std::vector<std::int32_t> begin = {}, ChatForm chats = {}) {
  const SourceList list = examined(source);
  const PairTokenizer tokenizer;
  const EncodeSettings settings{.separator = separated ? tokenizer.end_of_text() : std::nullopt,
                                .begin = std::move(begin),
                                .chats = std::move(chats)};
  Result out;
  encode_corpus(list, tokenizer, pieces, settings, from, threads, [&](EncodedPiece&& piece) {
    for (const auto end : piece.tokens.ends) out.ends.push_back(std::ssize(out.ids) + end);
    for (const auto& run : piece.tokens.uncounted)
      out.uncounted.push_back({std::ssize(out.ids) + run.begin, std::ssize(out.ids) + run.end});
    out.ids.insert(out.ids.end(), piece.tokens.ids.begin(), piece.tokens.ids.end());
    for (const auto& place : piece.tokens.bad)
      out.bad.push_back(
          fmt::format("{}:{}: {}", list.files[place.file].path.filename().string(), place.line, place.why));
    out.bad_places += piece.tokens.bad_places;
    ++out.pieces;
  });
  return out;
}

std::string decoded(const Result& result) { return PairTokenizer().decode(result.ids); }

std::string drawn_words(std::size_t bytes, unsigned seed) {
  std::mt19937 draw(seed);
  std::string text;
  while (text.size() < bytes) {
    for (auto n = 1 + draw() % 9; n > 0; --n) text += static_cast<char>('a' + draw() % 26);
    text += draw() % 9 == 0 ? '\n' : ' ';
  }
  return text;
}

}  // namespace

TEST_CASE("Documents of each kind become tokens, each with its separator") {
  const TemporaryFolder folder;
  folder.write("a.txt", "\xef\xbb\xbfwords of\r\na text");
  folder.write("b.json", R"([{"text": "first"}, {"text": ""}, {"text": "second"}])");
  folder.write("c.jsonl", "\xef\xbb\xbf{\"text\": \"one\"}\r\n\r\n  \n{\"text\": \"two\"}\n{\"text\": \"last\"}");
  folder.write("d/e.txt.gz", gzipped("packed"));
  folder.write("d/f.jsonl.zst", zstd_compressed("{\"text\": \"small\"}\n"));
  folder.write("d/g.json.gz", gzipped(R"({"text": "single"})"));
  folder.write("empty.txt", "");
  folder.write("mark.txt", "\xef\xbb\xbf");
  folder.write("empty.jsonl", "\n");
  const Result all = encoded(folder.path().string(), 2);
  CHECK(decoded(all) ==
        "words of\r\na text<end>first<end>second<end>one<end>two<end>last<end>packed<end>small<end>single<end>");
  CHECK(all.ends.size() == 9);
  CHECK(all.ends.back() == std::ssize(all.ids));
  CHECK(all.bad_places == 0);
  const Result bare = encoded(folder.path().string(), 1, {}, {}, false);
  CHECK(decoded(bare) == "words of\r\na textfirstsecondonetwolastpackedsmallsingle");
  CHECK(bare.ends.size() == 9);
}

TEST_CASE("Tokens depend neither on threads nor on pieces, and reading goes on at any piece") {
  const TemporaryFolder folder;
  const std::string text = drawn_words(400'000, 1);
  folder.write("a.txt", text);
  folder.write("b.txt.gz", gzipped(drawn_words(300'000, 2)));
  std::string lines, array = "[";
  for (unsigned i = 0; i < 300; ++i) {
    const std::string document = fmt::format("{{\"id\": {}, \"text\": \"{} end\"}}", i, std::string(i * 7, 'y'));
    lines += document + "\n";
    array += (i > 0 ? ",\n" : "") + document;
  }
  folder.write("c.jsonl", lines);
  folder.write("d.json", array + fmt::format(",{{\"text\": \"{}\"}}]",
                                             std::string(90'000, 'z') + " " + std::string(90'000, 'q')));
  const std::string source = folder.path().string();
  const Result whole = encoded(source, 1);
  CHECK(whole.ends.size() == 603);
  CHECK(decoded(whole).substr(0, text.size()) == text);
  const PieceSettings small{.piece = 5000};
  Result pieces = encoded(source, 1, small);
  CHECK(pieces.pieces > 30);
  CHECK(pieces.ids == whole.ids);
  CHECK(pieces.ends == whole.ends);
  for (const int threads : {2, 3, 8}) CHECK(encoded(source, threads, small) == pieces);

  const SourceList list = examined(source);
  std::vector<std::pair<PiecePlace, std::size_t>> places;  // a place, and the tokens before it
  std::size_t tokens = 0;
  const PairTokenizer tokenizer;
  encode_corpus(list, tokenizer, small, {.separator = tokenizer.end_of_text()}, {}, 2, [&](EncodedPiece&& piece) {
    tokens += piece.tokens.ids.size();
    places.emplace_back(piece.after, tokens);
  });
  for (std::size_t i = 0; i < places.size(); i += 5) {
    const Result rest = encoded(source, 2, small, places[i].first);
    REQUIRE(rest.ids == std::vector<std::int32_t>(whole.ids.begin() + static_cast<std::ptrdiff_t>(places[i].second),
                                                  whole.ids.end()));
  }
}

TEST_CASE("Bad lines and invalid UTF-8 are told with file and line") {
  const TemporaryFolder folder;
  folder.write("a.txt", "good\nbad \xff\xfe here\n\nand \xc3\n");
  folder.write("b.jsonl", "{\"text\": \"a\"}\nnonsense\n{\"text\": 7}\n{\"text\": \"b\"}\n");
  folder.write("c.json", "[{\"text\": \"c\"},\n{\"body\": 1},\n{\"text\": \"d\"},\nrubbish");
  for (const int threads : {1, 3}) {
    const Result all = encoded(folder.path().string(), threads);
    CHECK(decoded(all) == "good\nbad \xff\xfe here\n\nand \xc3\n<end>a<end>b<end>c<end>d<end>");
    REQUIRE(all.bad.size() == 6);
    CHECK(all.bad_places == 6);
    CHECK(all.bad[0] == "a.txt:2: byte 0xff is not UTF-8");
    CHECK(all.bad[1] == "a.txt:4: byte 0xc3 is not UTF-8");
    CHECK_THAT(all.bad[2], Contains("b.jsonl:2: this is not JSON"));
    CHECK_THAT(all.bad[3], Contains("b.jsonl:3: \"text\" is a number"));
    CHECK_THAT(all.bad[4], Contains("c.json:2: an object has no \"text\""));
    CHECK_THAT(all.bad[5], Contains("c.json:4: this is not JSON"));
  }
}

TEST_CASE("Conversations stay in their order among other documents, and so does what is wrong with them") {
  const TemporaryFolder folder;
  DataOptions options;
  options.chat_template =
      folder.write("t.jinja", "{{ raise_exception('who?') if messages[0].role != 'user' }}{{ messages[0].content }}.")
          .string();
  const auto chat = [](const char* role, const std::string& content) {
    return fmt::format(R"({{"messages": [{{"role": "{}", "content": "{}"}}]}})", role, content);
  };
  const std::string large(40000, 'x');  // more than is asked for at once
  const std::vector<std::string> rows{
      chat("user", large),  chat("user", "two"), R"({"text": "three"})",  chat("nobody", ""),
      chat("user", "four"), R"({"other": 5})",   chat("user", "\\ud800"), R"({"prompt": "6", "completion": "7"})",
      chat("user", "eight")};
  folder.write("a.jsonl", fmt::format("{}", fmt::join(rows, "\n")));
  folder.write("b.json", fmt::format("[{}]", fmt::join(rows, ",\n")));
  const ChatForm form = chat_form(options, PairTokenizer(), "bytes");
  for (const char* name : {"a.jsonl", "b.json"}) {
    const Result all = encoded((folder / name).string(), 1, {}, {}, true, {}, form);
    CHECK(decoded(all) == large + ".two.three<end>four.\xef\xbf\xbd.67<end>eight.");
    CHECK(all.ends.size() == 7);
    CHECK(all.bad_places == 8);
    if (std::string_view(name) == "b.json") continue;  // of which its reader tells first what it has found
    std::vector<std::string> lines;
    for (const std::string& bad : all.bad) lines.push_back(bad.substr(0, bad.find(": ")));
    CHECK(lines == std::vector<std::string>{"a.jsonl:1", "a.jsonl:2", "a.jsonl:4", "a.jsonl:5", "a.jsonl:6"});
    CHECK_THAT(all.bad[0], EndsWith("no token of this conversation counts"));
    CHECK_THAT(all.bad[2], EndsWith("the template refuses this conversation: who?"));
  }
}

TEST_CASE("Text that cannot be cut is refused by file and place, and errors of reading come in order") {
  const TemporaryFolder folder;
  const PieceSettings small{.piece = 1000, .longest = 200'000};
  folder.write("a.txt", "some words " + std::string(300'000, 'x'));
  CHECK_THAT(error_of([&] { encoded((folder / "a.txt").string(), 2, small); }),
             Contains("a.txt: from byte") && Contains("have no place where text may be cut"));
  folder.write("b.jsonl", "{\"text\": \"a\"}\n{\"text\": \"" + std::string(300'000, 'x'));
  CHECK_THAT(error_of([&] { encoded((folder / "b.jsonl").string(), 2, small); }),
             Contains("b.jsonl: from byte 14 on") && Contains("are in one line"));
  folder.write("c.json", "[{\"text\": \"a\"},\n{\"text\": \"" + std::string(300'000, 'x'));
  CHECK_THAT(error_of([&] { encoded((folder / "c.json").string(), 2, small); }),
             Contains("c.json:2: one value has more"));
  folder.write("d.txt", "whole");
  const std::string packed = gzipped(drawn_words(100'000, 3));
  folder.write("e.txt.gz", packed.substr(0, packed.size() / 2));
  std::int64_t pieces = 0;
  const SourceList list = examined(fmt::format("{0}/d.txt,{0}/e.txt.gz", folder.path().string()));
  const PairTokenizer tokenizer;
  CHECK_THAT(error_of([&] { encode_corpus(list, tokenizer, small, {}, {}, 3, [&](EncodedPiece&&) { ++pieces; }); }),
             Contains("e.txt.gz is truncated"));
  CHECK(pieces >= 1);
  pieces = 0;
  CHECK_THAT(error_of([&] {
               encode_corpus(list, tokenizer, small, {}, {}, 3, [&](EncodedPiece&&) {
                 ++pieces;
                 throw UsageError("enough");
               });
             }),
             Contains("enough"));
  CHECK(pieces == 1);
}

TEST_CASE("Prompts are encoded apart from their completions, and do not count") {
  const TemporaryFolder folder;
  const std::string words = drawn_words(9000, 4);
  const std::string long_prompt = words.substr(0, words.rfind(' ')),
                    one = R"({"prompt": "to b", "completion": "e or"})";
  const auto pair = [](std::string prompt, std::string completion) {
    for (std::string* text : {&prompt, &completion}) std::ranges::replace(*text, '\n', ' ');
    return fmt::format(R"({{"prompt": "{}", "completion": "{}"}})", prompt, completion);
  };
  std::string lines = one + "\n{\"text\": \"plain\"}\n" + pair("", "all") + "\n" + pair("p", "") + "\n" + pair("", "") +
                      "\n" + pair(long_prompt, "short") + "\n" + pair("short", long_prompt) + "\n" +
                      pair(long_prompt, "") + "\n";
  folder.write("a.jsonl", lines);
  lines.pop_back();
  std::ranges::replace(lines, '\n', ',');
  folder.write("b.json", "[" + lines + "]");
  const PieceSettings small{.piece = 1000};
  const Result from_lines = encoded((folder / "a.jsonl").string(), 2, small);
  const PairTokenizer tokenizer;
  const auto text_of = [&](std::int64_t begin, std::int64_t end) {
    return tokenizer.decode(std::vector<std::int32_t>(from_lines.ids.begin() + begin, from_lines.ids.begin() + end));
  };
  CHECK(from_lines.ends.size() == 7);
  std::vector<bool> counts(from_lines.ids.size(), true);
  for (const TokenRun& run : from_lines.uncounted) {
    for (std::int64_t i = run.begin; i < run.end; ++i) counts[static_cast<std::size_t>(i)] = false;
  }
  std::string uncounted;
  for (std::int64_t i = 0; i < std::ssize(counts); ++i) {
    if (!counts[static_cast<std::size_t>(i)]) uncounted += text_of(i, i + 1);
  }
  std::string flat = long_prompt;
  std::ranges::replace(flat, '\n', ' ');
  CHECK(uncounted == "to bp" + flat + "short" + flat);
  CHECK(text_of(0, from_lines.ends[0]) == "to be or<end>");
  CHECK(from_lines.uncounted[0] == TokenRun{0, 3});

  // A .json file is cut elsewhere, so long prompts may be several runs.
  const Result from_array = encoded((folder / "b.json").string(), 1, small);
  CHECK(from_array.ids == from_lines.ids);
  CHECK(from_array.ends == from_lines.ends);
  std::vector<bool> same(from_array.ids.size(), true);
  for (const TokenRun& run : from_array.uncounted) {
    for (std::int64_t i = run.begin; i < run.end; ++i) same[static_cast<std::size_t>(i)] = false;
  }
  CHECK(same == counts);
  CHECK(encoded((folder / "b.json").string(), 3, small) == from_array);
}

TEST_CASE("What stands before each document stands there once, and does not count where a prompt follows") {
  const TemporaryFolder folder;
  const std::string words = drawn_words(9000, 5);
  const auto flat = [](std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  };
  folder.write("a.txt", words);
  folder.write("b.jsonl", "{\"text\": \"one\"}\n{\"prompt\": \"to\", \"completion\": \"do\"}\n");
  folder.write("c.json",
               "[{\"prompt\": \"" + flat(words) + "\", \"completion\": \"" + flat(words) + "\"}, {\"text\": \"end\"}]");
  const PieceSettings small{.piece = 1000};
  const std::vector<std::int32_t> begin{7, 8};
  const Result without = encoded(folder.path().string(), 2, small);
  const Result with = encoded(folder.path().string(), 2, small, {}, true, begin);
  REQUIRE(without.pieces > 20);
  REQUIRE(with.ends.size() == without.ends.size());
  std::vector<std::int32_t> expected;
  std::int64_t from = 0;
  for (const std::int64_t end : without.ends) {
    expected.insert(expected.end(), begin.begin(), begin.end());
    expected.insert(expected.end(), without.ids.begin() + from, without.ids.begin() + end);
    from = end;
  }
  CHECK(with.ids == expected);
  std::int64_t more = 0;
  REQUIRE(with.uncounted.size() == without.uncounted.size());
  for (std::size_t i = 0; i < with.uncounted.size(); ++i) {
    const auto size = [](const TokenRun& run) { return run.end - run.begin; };
    more += size(with.uncounted[i]) - size(without.uncounted[i]);
  }
  CHECK(more == 4);  // of two prompts
}
