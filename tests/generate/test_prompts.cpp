#include <catch2/catch.hpp>
#include <fstream>

#include "temporary_folder.hpp"
#include "tessera/base/error.hpp"
#include "tessera/generate/prompts.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

using Texts = std::vector<std::string>;

Texts prompts_in(const std::string& content, const std::string& name = "prompts.txt") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / name;
  std::ofstream(file, std::ios::binary) << content;
  return read_prompts(parse_arguments({"--generate.prompts=" + file.string()}));
}

}  // namespace

TEST_CASE("a prompt's tokens follow those of its beginning, and are of the model's vocabulary") {
  const auto bytes = make_byte_tokenizer();
  const auto tokens = [&](std::vector<std::int32_t> begin, const std::string& text, std::int64_t vocab) {
    return prompt_tokens(*bytes, *bytes->encoder(), std::move(begin), text, vocab, "it");
  };
  CHECK(tokens({7}, "ab", 256) == std::vector<std::int32_t>{7, 'a', 'b'});
  CHECK(tokens({7}, "", 256) == std::vector<std::int32_t>{7});
  CHECK_THROWS_WITH(tokens({}, "", 256), Catch::Contains("it is empty") && Catch::Contains("no end-of-text token"));
  CHECK(tokens({}, "ab", 'b' + 1).size() == 2);
  CHECK_THROWS_WITH(tokens({}, "ab", 'b'), Catch::Contains("it has token 98"));
}

TEST_CASE("prompts are one text, or the lines of a file") {
  CHECK(read_prompts(parse_arguments({"--generate.prompt=Once upon"})) == Texts{"Once upon"});
  CHECK(read_prompts(parse_arguments({"--generate.prompt="})) == Texts{""});
  CHECK(prompts_in("one\ntwo\n") == Texts{"one", "two"});
  CHECK(prompts_in("one\r\n\r\ntwo") == Texts{"one", "", "two"});
  CHECK(prompts_in("\xef\xbb\xbfone\n") == Texts{"one"});
  CHECK(prompts_in("\"a\\nb\"\n{\"id\": 1, \"prompt\": \"c\"}\n", "p.jsonl") == Texts{"a\nb", "c"});
  CHECK(prompts_in("\"a\"\r\n \r\n\"b\"\n", "p.jsonl") == Texts{"a", "b"});
  CHECK(prompts_in("{\n\"prompt\": \"a\"\n}", "p.json") == Texts{"a"});
  CHECK_THROWS_WITH(prompts_in("\"a\"\n{}\n", "p.jsonl"), Catch::Contains("p.jsonl:2: this is not a prompt"));
  for (const char* chat : {"[{\"role\": \"user\", \"content\": \"a\"}]", "{\"messages\": []}"})
    CHECK_THROWS_WITH(prompts_in(chat, "p.json"), Catch::Contains("or {\"messages\": ...} with generate.chat"));
  for (const char* bytes : {"a\nb\xff\n", "a\n\x1f\x8b\x08"})
    CHECK_THROWS_WITH(prompts_in(bytes), Catch::Contains("prompts.txt:2: this is not UTF-8"));
  const auto chats_in = [&](const std::string& text, const std::string& name) {
    const TemporaryFolder folder;
    return read_prompts(
        parse_arguments({"--generate.chat=true", "--generate.prompts=" + folder.write(name, text).string()}));
  };
  CHECK(chats_in("{\"prompt\": [{\"b\": 12345678901234567890123, \"a\": 1}]}\n\"hi\"\n", "p.jsonl") ==
        Texts{"{\"prompt\": [{\"b\": 12345678901234567890123, \"a\": 1}]}",
              "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"});
  CHECK(chats_in("{\"messages\": null,\n \"conversations\": [1]}", "p.json") ==
        Texts{"{\"messages\": null,  \"conversations\": [1]}"});
  CHECK_THROWS_AS(prompts_in(""), UsageError);
  CHECK_THROWS_AS(read_prompts(parse_arguments({})), UsageError);
  CHECK_THROWS_AS(read_prompts(parse_arguments({"--generate.prompt=a", "--generate.prompts=b"})), UsageError);
  CHECK_THROWS_WITH(read_prompts(parse_arguments({"--generate.prompts=/nowhere/p.txt"})),
                    Catch::Contains("/nowhere/p.txt"));
}

TEST_CASE("stop strings are a text, or a JSON array of texts") {
  CHECK(stop_strings("").empty());
  CHECK(stop_strings("END") == Texts{"END"});
  CHECK(stop_strings(R"(["\n\n", "[", "\u20ac"])") == Texts{"\n\n", "[", "€"});
  for (const char* bad : {"[", "[1]", R"(["a", ""])", R"([["a"]])", "\xff", R"(["\ud800"])"}) {
    INFO(bad);
    CHECK_THROWS_AS(stop_strings(bad), UsageError);
  }
}

TEST_CASE("a result is one line of JSON, which is read as it was written") {
  Continuation c;
  c.number = 3, c.prompt = "a \"b\"\n", c.text = "€ and\tmore", c.tokens = {1, 2, 3}, c.finish_reason = "stop";
  c.seconds = 0.25;
  const std::string line = json_line(c);
  CHECK(line.find('\n') == std::string::npos);
  const Continuation read = continuation_from(line);
  CHECK(read.number == 3);
  CHECK(read.prompt == c.prompt);
  CHECK(read.text == c.text);
  CHECK(read.tokens == c.tokens);
  CHECK(read.finish_reason == "stop");
  CHECK(read.seconds == 0.25);
  c.prompt = "\xff!";
  CHECK(continuation_from(json_line(c)).prompt == "\xef\xbf\xbd!");
}
