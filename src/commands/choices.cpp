#include "commands/choices.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tessera/base/decimal.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/generate/prompts.hpp"

namespace tessera {

namespace {

constexpr const char* kObject = "an object with context, endings and label";

/// Returns "questions.jsonl, line 7".
std::string place(const std::string& name, std::int64_t line) { return fmt::format("{}, line {}", name, line); }

std::string text_of(const nlohmann::json& value, const std::string& where, const char* key) {
  if (!value.is_string()) throw refusal("{}: {} is not a text", where, key);
  return value.get<std::string>();
}

std::int64_t label_of(const nlohmann::json& value, std::size_t endings, const std::string& where) {
  std::int64_t label = -1;
  if (value.is_number_integer()) {
    label = value.get<std::int64_t>();
  } else if (value.is_string()) {
    label = whole_number(value.get<std::string>()).value_or(-1);
  }
  if (label < 0 || label >= static_cast<std::int64_t>(endings))
    throw refusal("{}: label is {}, but must be the number of the right ending", where, shown(value.dump()))
        .use("0 to {}", endings - 1);
  return label;
}

Question question_in(const std::string& line, std::int64_t number, const std::string& name) {
  const std::string where = place(name, number);
  nlohmann::json json;
  try {
    json = parse_json(line);
  } catch (const nlohmann::json::exception& error) {
    throw refusal("{}: the line is not JSON ({})", where, shown(error.what(), 160)).hint("Give {}", kObject);
  } catch (const UsageError& error) {
    throw UsageError("{}: {}", where, error.what());
  }
  const char* context = json.is_object() && !json.contains("context") && json.contains("ctx") ? "ctx" : "context";
  for (const char* key : {context, "endings", "label"}) {
    if (!json.is_object() || !json.contains(key))
      throw refusal("{}: there is no {}", where, key).hint("Give {}", kObject);
  }
  Question question;
  question.line = number;
  question.context = text_of(json.at(context), where, context);
  const nlohmann::json& endings = json.at("endings");
  if (!endings.is_array() || endings.size() < 2) throw refusal("{}: endings is not a list of two or more texts", where);
  for (const auto& ending : endings) question.endings.push_back(text_of(ending, where, "an ending"));
  question.label = label_of(json.at("label"), question.endings.size(), where);
  return question;
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

std::vector<Question> parse_questions(const std::string& text, const std::string& name) {
  std::vector<Question> questions;
  std::istringstream lines(text);
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (std::ranges::all_of(line, is_space)) continue;
    questions.push_back(question_in(line, number, name));
  }
  if (questions.empty()) throw refusal("{} has no questions", name).hint("Give {} on each line", kObject);
  return questions;
}

std::vector<EndingRow> encode_questions(const std::vector<Question>& questions, const Tokenizer& tokenizer,
                                        const std::vector<std::int32_t>& begin, std::int64_t vocab,
                                        std::int64_t context, const std::string& name) {
  const auto encoder = tokenizer.encoder();
  std::vector<EndingRow> rows;
  for (std::size_t q = 0; q < questions.size(); ++q) {
    const Question& question = questions[q];
    const std::string where = place(name, question.line);
    const auto before = prompt_tokens(tokenizer, *encoder, begin, question.context, vocab, where + ": context");
    for (const std::string& ending : question.endings) {
      EndingRow row{q, {}, static_cast<std::int64_t>(before.size())};
      const bool touches = !question.context.empty() && !is_space(question.context.back()) &&
                           !(!ending.empty() && is_space(ending.front()));
      row.tokens =
          prompt_tokens(tokenizer, *encoder, before, touches ? " " + ending : ending, vocab, where + ": an ending");
      if (row.ending_tokens() == 0 || ending.empty())
        throw refusal("{}: an ending is empty", where).hint("Give it some text");
      if (static_cast<std::int64_t>(row.tokens.size()) > context + 1)
        throw refusal("{}: context and ending are {} tokens, but the model's context is {}", where, row.tokens.size(),
                      context)
            .use("at most {}", context + 1);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

ChoiceScore score(const std::vector<Question>& questions, const std::vector<EndingRow>& rows,
                  const std::vector<double>& losses) {
  TESSERA_ASSERT(losses.size() == rows.size(), "{} losses for {} endings", losses.size(), rows.size());
  ChoiceScore result;
  std::size_t first = 0;
  for (const Question& question : questions) {
    const std::vector<double> sums(losses.begin() + static_cast<std::ptrdiff_t>(first),
                                   losses.begin() + static_cast<std::ptrdiff_t>(first + question.endings.size()));
    if (std::ranges::any_of(sums, [](double sum) { return !std::isfinite(sum); }))
      throw NumericalError("the losses of the question in line {} are not finite, so no ending is the best",
                           question.line);
    Answer answer;
    for (std::size_t i = 0; i < sums.size(); ++i)
      answer.means.push_back(sums[i] / static_cast<double>(rows[first + i].ending_tokens()));
    answer.chosen = std::ranges::min_element(answer.means) - answer.means.begin();
    answer.by_sum = std::ranges::min_element(sums) - sums.begin();
    result.right += answer.chosen == question.label ? 1 : 0;
    result.right_by_sum += answer.by_sum == question.label ? 1 : 0;
    result.answers.push_back(std::move(answer));
    first += question.endings.size();
  }
  return result;
}

}  // namespace tessera
