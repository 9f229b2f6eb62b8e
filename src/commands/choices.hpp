#pragma once
// Multiple-choice questions: a context, endings, and which of them is right.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

struct Question {
  std::string context;
  std::vector<std::string> endings;  ///< at least two
  std::int64_t label = 0;            ///< index of the right one
  std::int64_t line = 0;             ///< of the file, from 1
};

/// Parses JSON lines: objects with "context" (or HellaSwag's "ctx"), "endings" and "label", a number or its digits.
/// Other keys and empty lines are ignored. `name` is for messages. Throws UsageError with the line and the defect.
std::vector<Question> parse_questions(const std::string& text, const std::string& name);

/// A question's context with one of its endings, as tokens.
struct EndingRow {
  std::size_t question = 0;
  std::vector<std::int32_t> tokens;
  std::int64_t ending = 0;  ///< first token of the ending, at least 1
  std::int64_t ending_tokens() const { return static_cast<std::int64_t>(tokens.size()) - ending; }
};

/// Encodes each question's endings in order, after the tokens of `begin`. Context and ending are encoded separately,
/// with a space before the ending unless there is white space between them. Without these and a context the end-of-text
/// token stands before the ending. Throws UsageError if there is no such token, for an ending without tokens, for an id
/// that is not below `vocab`, and for more than `context` + 1 tokens.
std::vector<EndingRow> encode_questions(const std::vector<Question>& questions, const Tokenizer& tokenizer,
                                        const std::vector<std::int32_t>& begin, std::int64_t vocab,
                                        std::int64_t context, const std::string& name);

/// A model's answer to one question.
struct Answer {
  std::vector<double> means;  ///< loss per token of each ending, nats
  std::int64_t chosen = 0;    ///< the lowest mean: HellaSwag's rule
  std::int64_t by_sum = 0;    ///< the lowest sum
};

/// How many questions a model answers correctly.
struct ChoiceScore {
  std::vector<Answer> answers;
  std::int64_t right = 0, right_by_sum = 0;
};

/// Scores `losses`, the sum over the ending's tokens of each row. Among equal endings the first is chosen.
ChoiceScore score(const std::vector<Question>& questions, const std::vector<EndingRow>& rows,
                  const std::vector<double>& losses);

}  // namespace tessera
