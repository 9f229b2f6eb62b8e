#include <catch2/catch.hpp>

#include "commands/choices.hpp"
#include "message_of.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

std::string refusal(const std::string& text) {
  return test::message_of<UsageError>([&] { parse_questions(text, "q.jsonl"); });
}

const char* const kTwo =
    "{\"context\": \"a b\", \"endings\": [\"c\", \" de\"], \"label\": 1}\n\n"
    "{\"ctx\": \"x\\n\", \"endings\": [\"y\", \"z\", \"zz\"], \"label\": \"0\", \"ind\": 24}\n";

}  // namespace

TEST_CASE("Questions have a context, endings and the number of the right one, as number or digits") {
  const std::vector<Question> questions = parse_questions(kTwo, "q.jsonl");
  REQUIRE(questions.size() == 2);
  CHECK((questions[0].context == "a b" && questions[0].label == 1 && questions[0].line == 1));
  CHECK(questions[0].endings == std::vector<std::string>{"c", " de"});
  CHECK((questions[1].context == "x\n" && questions[1].label == 0 && questions[1].line == 3));
}

TEST_CASE("A line that is no question is refused with its number and defect") {
  CHECK_THAT(refusal(""), Contains("q.jsonl has no questions"));
  CHECK_THAT(refusal("\n{\"context\""), Contains("q.jsonl, line 2: the line is not JSON"));
  CHECK_THAT(refusal("[1]"), Contains("line 1: there is no context"));
  CHECK_THAT(refusal("{\"context\": \"a\"}"), Contains("there is no endings"));
  CHECK_THAT(refusal(R"({"context": 3, "endings": ["a", "b"], "label": 0})"), Contains("context is not a text"));
  CHECK_THAT(refusal(R"({"context": "a", "endings": ["a"], "label": 0})"), Contains("two or more"));
  CHECK_THAT(refusal(R"({"context": "a", "endings": ["a", 1], "label": 0})"), Contains("an ending is not a text"));
  for (const std::string label : {"2", "-1", "\"2\"", "\"\"", "\"1x\"", "0.5", "null"}) {
    CAPTURE(label);
    CHECK_THAT(refusal(R"({"context": "a", "endings": ["a", "b"], "label": )" + label + "}"), Contains("0 to 1"));
  }
  CHECK_THAT(refusal(std::string(100000, '[')), Contains("q.jsonl, line 1"));
}

TEST_CASE("An ending is encoded after its context with a space between, unless there is one") {
  const auto bytes = make_byte_tokenizer();
  const std::vector<EndingRow> rows = encode_questions(parse_questions(kTwo, "q"), *bytes, {}, 256, 100, "q");
  const auto text = [&](std::size_t row) { return bytes->decode(rows[row].tokens); };
  REQUIRE(rows.size() == 5);
  CHECK((text(0) == "a b c" && text(1) == "a b de" && text(2) == "x\ny" && text(4) == "x\nzz"));
  CHECK((rows[0].ending == 3 && rows[0].ending_tokens() == 2 && rows[1].ending_tokens() == 3));
  CHECK((rows[4].question == 1 && rows[4].ending == 2 && rows[4].ending_tokens() == 2));
  const auto error = [&](const std::string& line, std::int64_t vocab, std::int64_t context) {
    try {
      encode_questions(parse_questions(line, "q"), *bytes, {}, vocab, context, "q");
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string("nothing was refused");
  };
  CHECK_THAT(error(kTwo, 256, 4), Contains("q, line 1: context and ending are 6 tokens") && Contains("at most 5"));
  CHECK(error(kTwo, 256, 5) == "nothing was refused");
  CHECK_THAT(error(kTwo, 100, 9), Contains("token 101"));
  CHECK_THAT(error(R"({"context": "", "endings": ["a", "b"], "label": 0})", 256, 9), Contains("context is empty"));
  CHECK_THAT(error(R"({"context": "a", "endings": ["a", ""], "label": 0})", 256, 9), Contains("an ending is empty"));
}

TEST_CASE("The lowest mean loss per token answers, beside the lowest sum; of equal endings the first") {
  std::vector<Question> questions(3);
  questions[0].endings = {"short", "long"}, questions[0].label = 1;
  questions[1].endings = {"a", "b", "c"}, questions[1].label = 2;
  questions[2].endings = {"a", "b"}, questions[2].label = 1;
  std::vector<EndingRow> rows(7);
  const std::int64_t lengths[] = {2, 4, 1, 1, 1, 3, 3};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].ending = 1;
    rows[i].tokens.resize(static_cast<std::size_t>(lengths[i]) + 1);
  }
  // By mean 1.5 against 1.0, by sum 3 against 4.
  const ChoiceScore result = score(questions, rows, {3, 4, 2, 2, 1, 5, 5});
  CHECK((result.right == 2 && result.right_by_sum == 1));
  REQUIRE(result.answers.size() == 3);
  CHECK(result.answers[0].means == std::vector<double>{1.5, 1.0});
  CHECK((result.answers[0].chosen == 1 && result.answers[0].by_sum == 0));
  CHECK((result.answers[1].chosen == 2 && result.answers[2].chosen == 0));
}
