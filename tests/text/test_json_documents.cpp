#include "text/json_documents.hpp"
#include "text/text_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;

namespace {

/// Documents as they are, problems after a "!", what ends the reading after "!!".
using Events = std::vector<std::string>;

JsonEvents noted(Events& out) {
  return {[&](std::string& text) { out.push_back(text); }, [&](const std::string& why) { out.push_back("!" + why); },
          [&](const std::string& why) { out.push_back("!!" + why); },
          [&](std::string& prompt, std::string& completion) { out.push_back(prompt + " -> " + completion); }};
}

Events line(const std::string& text, const std::string& key = "text") {
  Events out;
  read_json_line(text, key, noted(out));
  REQUIRE(out.size() == 1);
  return out;
}

class Text final : public ByteStream {
 public:
  explicit Text(std::string text) : text_(std::move(text)) {}
  std::size_t read(char* out, std::size_t bytes) override {
    const std::size_t got = text_.copy(out, std::min<std::size_t>(bytes, 3), at_);  // three at a time: many borders
    at_ += got;
    return got;
  }
  std::int64_t taken() const override { return static_cast<std::int64_t>(at_); }

 private:
  std::string text_;
  std::size_t at_ = 0;
};

Events file(const std::string& text, std::int64_t longest = 1 << 20, std::int64_t* line_out = nullptr) {
  Events out;
  Text bytes(text);
  std::int64_t number = 0;
  read_json_file(bytes, "text", longest, number, noted(out));
  if (line_out != nullptr) *line_out = number;
  return out;
}

}  // namespace

TEST_CASE("A line's document is the text of its key") {
  CHECK(line(R"({"text": "a\nb\u00e9\ud83d\ude00"})") == Events{"a\nb\xc3\xa9\xf0\x9f\x98\x80"});
  CHECK(line("{\"text\": \"tail\"}\r") == Events{"tail"});
  CHECK(line(R"({"id": 7, "meta": {"text": "inner", "x": [1, {"text": 2}]}, "text": "outer", "z": null})") ==
        Events{"outer"});
  CHECK(line(R"({"body": "b", "text": "t"})", "body") == Events{"b"});
  CHECK(line(R"({"text": ""})") == Events{""});
}

TEST_CASE("A line that is no document says why") {
  const auto fault = [](const std::string& text) { return line(text)[0]; };
  CHECK_THAT(fault(R"({"body": "b"})"), Contains("!an object has no \"text\"") && Contains("data.text_key"));
  CHECK_THAT(fault(R"({"text": 7})"), Contains("\"text\" is a number"));
  CHECK_THAT(fault(R"({"text": null})"), Contains("\"text\" is null"));
  CHECK_THAT(fault(R"({"text": {"text": "x"}})"), Contains("\"text\" is an object"));
  CHECK_THAT(fault(R"({"text": ["x"]})"), Contains("\"text\" is an array"));
  CHECK_THAT(fault(R"({"text": "a", "text": "b"})"), Contains("twice"));
  CHECK_THAT(fault(R"(["x"])"), Contains("an array stands where an object"));
  CHECK_THAT(fault("7"), Contains("a number stands where an object"));
  CHECK_THAT(fault("plain words"), Contains("not JSON at byte"));
  CHECK_THAT(fault(R"({"text": "cut)"), Contains("not JSON"));
  CHECK_THAT(fault(R"({"text": "a"} {"text": "b"})"), Contains("not JSON"));
  CHECK_THAT(fault("{\"text\": \"\xff\"}"), Contains("UTF-8"));
  CHECK_THAT(fault("{\"text\": \"tab\there\"}"), Contains("control character"));
}

TEST_CASE("Hostile JSON is refused in bounded time and memory") {
  const auto fault = [](const std::string& text) { return line(text)[0]; };
  CHECK_THAT(fault("{\"text\": " + std::string(1'000'000, '[')), Contains("nested more than 64 deep"));
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  CHECK_THAT(fault(deep), Contains("nested more than 64 deep"));
  CHECK_THAT(fault(R"({"n": 1e999999, "text": "x"})"), Contains("not JSON"));
  CHECK(line("{\"n\": " + std::string(100'000, '9') + R"(, "text": "x"})")[0].substr(0, 1) == "!");
  CHECK(line("{\"n\": 0." + std::string(100'000, '9') + R"(, "text": "x"})") == Events{"x"});
  CHECK_THAT(fault(R"({"text": "\ud800"})"), Contains("not JSON") && Contains("surrogate"));
  CHECK_THAT(fault(R"({"text": "\udc00x"})"), Contains("surrogate"));
  CHECK_THAT(fault(R"({"text": "\ud800\u0041"})"), Contains("surrogate"));
  CHECK(line("{\"text\": \"" + std::string(1'000'000, 'x') + "\"}")[0].size() == 1'000'000);
  CHECK_THAT(file("[{\"text\": \"" + std::string(1000, 'x') + "\"}]")[0], Contains("xxx"));
  CHECK_THAT(error_of([] { file("[{\"text\": \"" + std::string(1000, 'x'), 500); }), Contains("more than 500 bytes"));
  CHECK_THAT(file(std::string(100'000, '['))[0], Contains("an array stands where an object"));
}

TEST_CASE("A file holds an object or an array of them, and ends at a fault of syntax") {
  CHECK(file(R"({"text": "one"})") == Events{"one"});
  CHECK(file("\xef\xbb\xbf{\"text\": \"marked\"}") == Events{"marked"});
  CHECK(file(R"([{"text": "a"}, {"x": [], "text": "b"}])") == Events{"a", "b"});
  CHECK(file("[]").empty());
  CHECK(file("").empty());
  const Events mixed = file(R"([{"text": "a"}, 7, "s", [1, [2]], {"text": 5}, {"text": "b"}, null])");
  REQUIRE(mixed.size() == 7);
  CHECK(mixed[0] == "a");
  CHECK_THAT(mixed[1], Contains("a number stands where"));
  CHECK_THAT(mixed[2], Contains("a string stands where"));
  CHECK_THAT(mixed[3], Contains("an array stands where"));
  CHECK_THAT(mixed[4], Contains("is a number"));
  CHECK(mixed[5] == "b");
  std::int64_t number = 0;
  const Events cut = file("[{\"text\": \"a\"},\n{\"text\": \"b\"},\n{\"text\": ", 1 << 20, &number);
  REQUIRE(cut.size() == 3);
  CHECK_THAT(cut[2], Contains("!!this is not JSON"));
  CHECK(number == 3);
  const Events lines = file("{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[1], Contains("!!") && Contains("a .jsonl file"));
  CHECK_THAT(file("[{\"text\": " + std::string(100, '['))[0], Contains("!!values are nested"));
}

TEST_CASE("A prompt and its completion are a document of two texts") {
  CHECK(line(R"({"prompt": "p", "completion": "c"})") == Events{"p -> c"});
  CHECK(line(R"({"completion": "c", "id": [1, {"prompt": 2}], "prompt": ""})") == Events{" -> c"});
  CHECK(line(R"({"prompt": null, "text": "t", "completion": 7})") == Events{"t"});  // metadata next to a text
  CHECK(line(R"({"prompt": "p", "completion": "c"})", "prompt") == Events{"p"});
  CHECK(file(R"([{"prompt": "a", "completion": "b"}, {"text": "t"}, {"prompt": "c", "completion": "d"}])") ==
        Events{"a -> b", "t", "c -> d"});
  CHECK_THAT(line(R"({"prompt": "p"})")[0],
             Contains("!an object has neither \"text\" nor") && Contains("\"completion\""));
  CHECK_THAT(line(R"({"completion": "c"})")[0], Contains("nor the \"prompt\" of a pair"));
  CHECK_THAT(line(R"({"prompt": "p", "completion": ["c"]})")[0], Contains("!\"completion\" is an array"));
  CHECK_THAT(line(R"({"prompt": "p", "prompt": "p", "completion": "c"})")[0], Contains("\"prompt\" is there twice"));
  CHECK_THAT(line(R"({"prompt": "p", "completion": "c"} x)")[0], Contains("not JSON"));
}
