#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "text/json_documents.hpp"
#include "text/text_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;

namespace {

/// Documents as they are, problems after a "!", what ends the reading after "!!".
using Events = std::vector<std::string>;

TakeFinding noted(Events& out) {
  return [&](JsonFinding&& found) {
    static const std::map<FindingKind, std::string> marks{{FindingKind::document, ""}, {FindingKind::chat, "="},
                                                          {FindingKind::problem, "!"}, {FindingKind::fault, "!!"},
                                                          {FindingKind::mended, "~"},  {FindingKind::chosen, "?"}};
    const std::string prompt = found.prompt.empty() ? "" : found.prompt + " -> ";
    out.push_back(marks.at(found.kind) + prompt + found.text);
  };
}

Events line(const std::string& text, const std::string& key = "text") {
  Events out;
  read_json_line(text, key, noted(out));
  REQUIRE(out.size() == 1);
  REQUIRE_FALSE(out[0].starts_with("!!"));  // of a line, what is wrong with its syntax is a problem
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
  const std::size_t start = text.size() % 7;  // as if it had been read before
  Text bytes(text.substr(std::min(start, text.size())));
  std::int64_t number = 0;
  read_json_file(text.substr(0, start), bytes, "text", longest, number, noted(out));
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
  CHECK(line(R"({"completion": "c", "id": [1, {"prompt": 2}], "prompt": ""})") == Events{"c"});
  CHECK(line(R"({"prompt": null, "text": "t", "completion": 7})") == Events{"t"});  // metadata next to a text
  CHECK(line(R"({"prompt": "p", "completion": "c"})", "prompt") == Events{"p"});
  CHECK(file(R"([{"prompt": "a", "completion": "b"}, {"text": "t"}, {"prompt": "c", "completion": "d"}])") ==
        Events{"a -> b", "t", "c -> d"});
  // Tables that became lines have nulls where a row has no such column.
  CHECK(line(R"({"prompt": "p", "text": null, "messages": null, "completion": "c"})") == Events{"p -> c"});
  CHECK(line(R"({"text": null, "prompt": null, "system": "s", "messages": [{"n": 1}], "completion": null})") ==
        Events{R"(={"system":"s","messages":[{"n":1}]})"});
  CHECK_THAT(line(R"({"text": null, "prompt": null})")[0], Contains("!\"text\" is null"));
  CHECK_THAT(line(R"({"prompt": null, "completion": "c"})")[0], Contains("!\"prompt\" is null instead of a string"));
  CHECK_THAT(line(R"({"prompt": "p"})")[0],
             Contains("!an object has neither \"text\" nor") && Contains("\"completion\""));
  CHECK_THAT(line(R"({"completion": "c"})")[0], Contains("nor the \"prompt\" of a pair"));
  CHECK_THAT(line(R"({"prompt": "p", "completion": ["c"]})")[0], Contains("!\"completion\" is an array"));
  CHECK_THAT(line(R"({"prompt": "p", "prompt": "p", "completion": "c"})")[0], Contains("\"prompt\" is there twice"));
  CHECK_THAT(line(R"({"prompt": "p", "completion": "c"} x)")[0], Contains("not JSON"));
}

namespace {

/// One draw of several texts.
class Draw {
 public:
  std::size_t below(std::size_t bound) { return draw_() % bound; }
  std::string of(std::initializer_list<const char*> texts) { return texts.begin()[below(texts.size())]; }

 private:
  std::mt19937 draw_{4711};
};

/// A value as Python's json.dumps writes it, and the same with null for what JSON does not have.
std::pair<std::string, std::string> drawn_value(Draw& draw, int depth = 0) {
  switch (draw.below(depth > 2 ? 3 : 5)) {
    case 0:
      return {draw.of({"NaN", "Infinity", "-Infinity"}), "null"};
    case 1: {
      const std::string text =
          draw.of({R"("NaN")", R"("a \" NaN, -Infinity")", R"("\\")", "1", "-2.5e3", "null", R"("\\\"")"});
      return {text, text};
    }
    case 2:
      return {"[]", "[]"};
    default: {
      const bool is_array = draw.below(2) == 0;
      std::pair<std::string, std::string> all{is_array ? "[" : "{", is_array ? "[" : "{"};
      for (std::size_t i = 0; i < 1 + draw.below(3); ++i) {
        const auto [given, plain] = drawn_value(draw, depth + 1);
        const std::string before = std::string(i > 0 ? "," : "") + draw.of({"", " ", "\n"}) +
                                   (is_array ? "" : draw.of({"\"NaN\":", "\"Infinity\": ", "\"k\":"}));
        all.first += before + given, all.second += before + plain;
      }
      all.first += is_array ? "]" : "}", all.second += is_array ? "]" : "}";
      return all;
    }
  }
}

/// Part of a string's inside, and what Python's json and then encode(errors="replace") make of it.
std::pair<std::string, std::string> drawn_text(Draw& draw) {
  std::pair<std::string, std::string> all;
  for (std::size_t i = 0; i < draw.below(6); ++i) {
    switch (draw.below(6)) {
      case 0:
        all.first += draw.of({R"(\ud83d)", R"(\uD800)", R"(\uDBFF)"}) + draw.of({"x", R"(\n)", R"(\\)"});
        all.first.back() == 'x' ? all.second += "\xef\xbf\xbdx" : all.second += "\xef\xbf\xbd";
        if (all.first.back() == 'n') all.second += '\n';
        if (all.first.back() == '\\') all.second += '\\';
        break;
      case 1:
        all.first += R"(\udc00)", all.second += "\xef\xbf\xbd";
        break;
      case 2:
        all.first += R"(\ud83d\ude00)", all.second += "\xf0\x9f\x98\x80";
        break;
      case 3:
        all.first += R"(\\ud83d)", all.second += R"(\ud83d)";
        break;
      default:
        all.first += "NaN, -Infinity", all.second += "NaN, -Infinity";
    }
  }
  return all;
}

}  // namespace

TEST_CASE("Constants that Python writes beside a text do not matter, and half a surrogate pair is one character less") {
  Draw draw;
  for (int i = 0; i < 600; ++i) {
    const auto [value, plain] = drawn_value(draw);
    const auto [escaped, text] = drawn_text(draw);
    const auto row = [&](const std::string& beside) {
      return i % 2 == 0 ? fmt::format(R"({{"text": "{}", "x": {}}})", escaped, beside)
                        : fmt::format(R"({{"x": {}, "text": "{}"}})", beside, escaped);
    };
    CAPTURE(row(value));
    for (const std::string& given : {row(value), row(plain)}) {
      Events of_line, of_file = file("[" + given + ", " + given + "]");
      read_json_line(given, "text", noted(of_line));
      REQUIRE(of_line.back() == text);
      REQUIRE(of_file.size() >= 2);
      CHECK((of_file[0] == text && of_file[1] == text));
      const bool mends = text.find("\xef\xbf\xbd") != std::string::npos;
      CHECK(of_line.size() == (mends ? 2 : 1));
      CHECK(of_file.size() == (mends ? 3 : 2));
      if (mends) CHECK_THAT(of_line[0], Contains("~") && Contains("without the other half became U+FFFD"));
    }
  }
  CHECK_THAT(line(R"({"text": NaN})")[0], Contains("!\"text\" is a number instead of a string"));
  for (const char* wrong :
       {"-NaN", "1NaN", "NaN1", "nan", "+Infinity", "--Infinity", "Infinityx", "Infinit", "N", "-"}) {
    CAPTURE(wrong);
    CHECK_THAT(line(fmt::format(R"({{"x": {}, "text": "t"}})", wrong))[0], Contains("!this is not JSON"));
    CHECK_THAT(file(fmt::format(R"({{"x": {}, "text": "t"}})", wrong))[0], Contains("!!this is not JSON"));
  }
}

TEST_CASE("A conversation is passed on as it stands") {
  Draw draw;
  const std::function<nlohmann::ordered_json(int)> drawn = [&](int depth) -> nlohmann::ordered_json {
    nlohmann::ordered_json value = nlohmann::ordered_json::array();
    switch (draw.below(depth > 3 ? 4 : 6)) {
      case 0:
        return draw.of({"", "a\"b\\", "\n\t\x01", "{[:,", "\xc3\xa9"});
      case 1:
        return draw.below(2) == 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(draw.below(2) == 0);
      case 2:
        return static_cast<int>(draw.below(1000)) - 500;
      case 3:
        return 0.25 * static_cast<double>(draw.below(1000));
      case 4:
        for (std::size_t i = draw.below(4); i > 0; --i) value.push_back(drawn(depth + 1));
        return value;
      default:
        value = nlohmann::ordered_json::object();
        for (const char* key : {"messages", "text", "tools"})
          if (draw.below(2) == 0) value[key] = drawn(depth + 1);
        return value;
    }
  };
  for (int i = 0; i < 300; ++i) {
    nlohmann::ordered_json row, list = nlohmann::ordered_json::array({drawn(0)});
    const bool is_pair = draw.below(3) == 0;
    row["id"] = drawn(0);
    if (is_pair) row["prompt"] = nlohmann::ordered_json::array({drawn(0)});
    row[is_pair ? "completion" : draw.of({"messages", "conversations"})] = list;
    row["tools"] = drawn(0);
    CAPTURE(row.dump());
    nlohmann::ordered_json expected = row;
    expected.erase("id");
    if (row["tools"].is_null()) expected.erase("tools");
    const Events got = line(row.dump()), of_file = file("[" + row.dump() + "," + row.dump() + "]");
    if (row["tools"].is_number() || row["tools"].is_boolean()) continue;
    CHECK(got == Events{"=" + expected.dump()});
    CHECK(of_file == Events{got[0], got[0]});
  }
}

TEST_CASE("Whether a file called .json holds lines is known from its first line and what follows") {
  Draw draw;
  for (int i = 0; i < 300; ++i) {
    const std::string space = draw.of({"", "\n", " \r\n\n"}),
                      row = fmt::format(R"({{"text": "{}", "x": [{{}}]}})", draw.of({"}", "\\\"}", "a{", "\\\\"}));
    const auto [whole, expected] = [&]() -> std::pair<std::string, bool> {
      switch (draw.below(5)) {
        case 0:
          return {row + draw.of({"\n", " \t\r\n\r\n"}) + row + "\n", true};
        case 1:
          return {"[" + row + ",\n" + row + "]", false};
        case 2:
          return {"{\n\"text\": \"a\"}\n" + row, false};
        case 3:
          return {row + " " + row + "\n", false};
        default:
          return {row + draw.of({"", "\n", "\n\n "}), false};
      }
    }();
    CAPTURE(space + whole);
    std::optional<bool> known;
    for (std::size_t size = 0; size <= (space + whole).size(); ++size) {
      const auto now = begins_with_json_lines((space + whole).substr(0, size));
      if (known) REQUIRE(now == known);  // it never changes its mind
      known = now;
    }
    CHECK(known.value_or(false) == expected);
  }
}

TEST_CASE("Of an object that is several documents one is taken, which is said") {
  const std::string chat = R"("messages": [{"a": "[]"}])", list = R"("prompt": [1], "completion": [2])";
  const auto both = [](const std::string& fields) { return file("{" + fields + "}"); };
  CHECK(both(R"("text": "t", )" + chat) == Events{R"(?"text" is taken, and not "messages" next to it)", "t"});
  CHECK(both(R"("text": "t", )" + list) == Events{R"(?"text" is taken, and not "prompt" next to it)", "t"});
  CHECK(both(R"("text": "t", "prompt": "p", "completion": "c")")[0] ==
        R"(?"text" is taken, and not "prompt" next to it)");
  CHECK(both(chat + R"(, "prompt": "p", "completion": "c")") ==
        Events{R"(?"prompt" is taken, and not "messages" next to it)", "p -> c"});
  // What is empty is as if it were not there.
  CHECK(both(R"("text": "", "messages": [1])") == Events{R"(={"messages":[1]})"});
  CHECK(both(R"("text": "", "prompt": "p", "completion": "c")") == Events{"p -> c"});
  CHECK(both(R"("text": "t", "messages": [], "conversations": [])") == Events{"t"});
  CHECK(both(R"("text": "", "messages": [])") == Events{""});
  CHECK(both(R"("text": "t", "conversations": [[]])")[0].starts_with("?"));
  Events of_line;
  read_json_line(R"({"text": "t", "messages": [1]})", "text", noted(of_line));
  CHECK(of_line == both(R"("text": "t", "messages": [1])"));
  CHECK_THAT(line(R"({"text": "t", "messages": [1]} x)")[0], Contains("not JSON"));
}

TEST_CASE("A conversation keeps constants that Python writes") {
  for (const char* word : {"NaN", "Infinity", "-Infinity"}) {
    const std::string list = fmt::format(R"({{"messages":[{{"x":{0}}},-0E1,{0}]}})", word);
    CHECK(line(list) == Events{"=" + list});
    CHECK(file("[" + list + "]") == Events{"=" + list});
  }
}

TEST_CASE("A document of another form says which, and what to do") {
  CHECK_THAT(line(R"({"messages": "hi"})")[0], Contains("!\"messages\" is a string instead of an array"));
  CHECK_THAT(line(R"({"prompt": [{"role": "user"}], "completion": ""})")[0],
             Contains("!\"prompt\" is an array, but \"completion\" is not"));
  CHECK_THAT(line(R"({"messages": null})")[0], Contains("!\"messages\" is null instead of an array"));
  CHECK_THAT(line(R"({"messages": [], "messages": []})")[0], Contains("is there twice"));
  CHECK_THAT(line(R"({"instruction": "a", "input": "", "output": "b"})")[0],
             Contains("\"instruction\", \"input\", \"output\"") && Contains("a \"prompt\" and a \"completion\""));
  CHECK_THAT(line(R"({"body": "b"})")[0], Contains("but \"body\"") && !Contains("prompt"));
  CHECK_THAT(line("{}")[0], !Contains("but"));
}
