#pragma once
// The events of a JSON text, followed up to documents and conversations.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/base/shown.hpp"
#include "text/json_documents.hpp"
#include "text/python_json.hpp"

namespace tessera {

/// Writes values down as they come.
class JsonEcho {
 public:
  void key(const std::string& name) { text(name), json_ += ':'; }
  void text(std::string_view value) {
    add("\"");
    while (true) {
      const auto end = std::ranges::find_if(value, is_escaped);
      json_.append(value.begin(), end);
      if (end == value.end()) break;
      if (*end == '\n' || *end == '\t')
        json_ += *end == '\n' ? "\\n" : "\\t";
      else if (static_cast<unsigned char>(*end) < ' ')
        json_ += fmt::format("\\u{:04x}", *end);
      else
        json_ += {'\\', *end};
      value.remove_prefix(static_cast<std::size_t>(end - value.begin()) + 1);
    }
    json_ += '"';
  }
  void add(std::string_view value) {
    if (!json_.empty() && json_.back() != '{' && json_.back() != '[' && json_.back() != ':') json_ += ',';
    json_ += value;
  }
  void close(char bracket) { json_ += bracket; }
  /// Returns whether the last key's value is an empty list.
  bool ends_empty() const { return json_.ends_with(":[]"); }
  /// Returns the values, which were those of keys, as an object.
  std::string take() { return "{" + std::exchange(json_, {}) + "}"; }

 private:
  static bool is_escaped(char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' '; }

  std::string json_;
};

/// Follows the events of a text up to the objects that hold documents: the top one, or an array's elements.
class JsonHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonHandler(const std::string& key, bool may_be_array, const TakeFinding& take)
      : fields_{{{key, Takes::text},
                 {"prompt", Takes::either},
                 {"completion", Takes::either},
                 {"messages", Takes::list},
                 {"conversations", Takes::list},
                 {"system", Takes::anything},
                 {"tools", Takes::anything},
                 {"chat_template_kwargs", Takes::anything}}},
        may_be_array_(may_be_array),
        take_(take) {}

  bool null() override { return scalar("null", "null"); }
  bool boolean(bool value) override { return scalar(value ? "true" : "false", "true or false"); }
  bool number_integer(std::int64_t value) override { return scalar(std::to_string(value), "a number"); }
  bool number_unsigned(std::uint64_t value) override { return scalar(std::to_string(value), "a number"); }
  bool number_float(double /*value*/, const std::string& text) override {
    return scalar(PythonJson::original(text), "a number");
  }
  bool binary(binary_t& /*value*/) override { return scalar("null", "binary"); }
  bool string(std::string& text) override {
    if (is_echoed_) return echo_.text(text), true;
    if (wanted_ == nullptr) return value("a string");
    Field& field = *std::exchange(wanted_, nullptr);
    if (field.found) return field.refuse("is there twice");
    if (field.takes == Takes::list) return field.refuse("is a string instead of an array");
    field.found = true;
    if (field.takes == Takes::anything) return echo_.key(field.key), echo_.text(text), true;
    field.text.swap(text);
    return true;
  }
  bool start_object(std::size_t /*elements*/) override {
    if (!is_echoed_ && depth_ == document_depth()) {
      wanted_ = nullptr;
      for (Field& field : fields_)
        field.found = field.is_list = field.was_null = field.is_empty = false, field.problem.clear();
      key_count_ = 0;
      echo_.take();
      return deeper();
    }
    return begin("{", "an object");
  }
  bool key(std::string& name) override {
    if (is_echoed_) return echo_.key(name), true;
    const auto field = std::ranges::find(fields_, name, &Field::key);
    const bool is_of_document = depth_ == document_depth() + 1;
    wanted_ = is_of_document && field != fields_.end() ? &*field : nullptr;
    if (is_of_document && key_count_ < keys_.size()) keys_[key_count_++] = name;
    return true;
  }
  bool end_object() override {
    end('}');
    if (depth_ == document_depth()) finish_object();
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    if (depth_ > 0 || !may_be_array_) return begin("[", "an array");
    in_array_ = true;
    return deeper();
  }
  bool end_array() override { return end(']'), true; }
  bool parse_error(std::size_t position, const std::string& /*last*/, const nlohmann::json::exception& error) override {
    std::string hint;
    if (depth_ == 0 && saw_object_ && may_be_array_) hint = "; one document per line belongs in a .jsonl file";
    take_({FindingKind::fault,
           fmt::format("this is not JSON at byte {}: {}{}", position, fault_text(error.what()), hint)});
    return false;
  }

 private:
  /// Corpora hold their text next to some metadata; deeper values are hostile or not a corpus.
  static constexpr int kDeepest = 64;

  /// Returns the fault without the library's name and its line and column, which count from the start of our own text.
  static std::string fault_text(const std::string& what) {
    constexpr std::string_view parse_error = "parse error at";
    auto begin = what.find("] ");
    begin = begin == std::string::npos ? 0 : begin + 2;
    if (what.compare(begin, parse_error.size(), parse_error) == 0) {
      const auto colon = what.find(": ", begin);
      if (colon != std::string::npos) begin = colon + 2;
    }
    return shown(std::string_view(what).substr(begin), 160);
  }

  int document_depth() const { return in_array_ ? 1 : 0; }
  enum class Takes : std::uint8_t { text, list, either, anything };
  /// A value that the object may have: a text, or one of a conversation, which is written down.
  struct Field {
    std::string key;
    Takes takes;
    bool found = false, is_list = false, was_null = false;  ///< null is as if it were not there
    bool is_empty = false;                                  ///< of a list
    std::string text = {}, problem = {};                    ///< the first problem
    std::string quoted() const { return fmt::format("\"{}\"", shown(key)); }
    bool is_there() const { return found || !problem.empty(); }
    bool is_text() const { return found && !is_list && problem.empty(); }
    bool refuse(const std::string& why) {
      if (problem.empty()) problem = fmt::format("{} {}", quoted(), why);
      return true;
    }
  };
  Field& text() { return fields_[0]; }

  bool scalar(std::string_view json, const char* what) {
    if (is_echoed_) return echo_.add(json), true;
    if (wanted_ == nullptr || json != "null") return value(what);
    std::exchange(wanted_, nullptr)->was_null = true;
    return true;
  }
  /// Enters an object or array below the document.
  bool begin(std::string_view bracket, const char* what) {
    if (is_echoed_) {
      echo_.add(bracket);
    } else if (wanted_ != nullptr && !wanted_->found && may_begin(*wanted_, bracket)) {
      wanted_->found = wanted_->is_list = is_echoed_ = true;
      echoed_depth_ = depth_;
      echoed_ = std::exchange(wanted_, nullptr);
      echo_.key(echoed_->key);
      echo_.add(bracket);
    } else if (!value(what)) {
      return false;
    }
    return deeper();
  }
  static bool may_begin(const Field& field, std::string_view bracket) {
    return field.takes == Takes::anything || (field.takes != Takes::text && bracket == "[");
  }
  void end(char bracket) {
    --depth_;
    if (is_echoed_) echo_.close(bracket);
    if (!is_echoed_ || depth_ > echoed_depth_) return;
    is_echoed_ = false;
    echoed_->is_empty = echo_.ends_empty();
  }

  /// Takes a value that is not a wanted text.
  bool value(const char* what) {
    if (depth_ == document_depth()) {
      take_({FindingKind::problem, fmt::format("{} stands where an object with {} belongs", what, text().quoted())});
      return in_array_;  // the next element may be one
    }
    if (wanted_ == nullptr) return true;
    Field& field = *std::exchange(wanted_, nullptr);
    if (field.found) return field.refuse("is there twice");
    return field.refuse(fmt::format("is {} instead of {}", what, field.takes == Takes::list ? "an array" : "a string"));
  }
  bool deeper() {
    if (++depth_ <= kDeepest) return true;
    take_({FindingKind::fault, fmt::format("values are nested more than {} deep", kDeepest)});
    return false;
  }
  void finish_object() {
    saw_object_ = true;
    Field &prompt = fields_[1], &completion = fields_[2];
    if (!text().problem.empty()) return take_({FindingKind::problem, text().problem});
    const bool is_pair = prompt.is_text() && completion.is_text();
    const Field *const turns = turns_of_chat(), *const other = turns != nullptr ? turns : is_pair ? &prompt : nullptr;
    const bool is_text = text().found && (!text().text.empty() || other == nullptr);
    const Field* const taken = is_text ? &text() : is_pair ? &prompt : other;
    if (other != nullptr && taken != other)
      take_({FindingKind::chosen, fmt::format("{} is taken, and not {} next to it", taken->quoted(), other->quoted())});
    if (is_text) {
      take_({FindingKind::document, std::move(text().text)});
    } else if (is_pair) {
      take_({FindingKind::document, std::move(completion.text), std::move(prompt.text)});
    } else if (const std::string why = why_no_chat(); !why.empty()) {
      take_({FindingKind::problem, why});
    } else {
      take_({FindingKind::chat, echo_.take()});
    }
    for (Field& field : fields_) field.text.clear();
  }

  /// Returns the list of a conversation, which is not empty; nothing if there is none.
  const Field* turns_of_chat() const {
    for (const Field& field : std::span(fields_).subspan(3, 2))
      if (field.found && !field.is_empty) return &field;
    return fields_[1].is_list && fields_[2].is_list ? &fields_[1] : nullptr;
  }

  /// Returns why the object is not a conversation, nor another document; empty if it is.
  std::string why_no_chat() {
    const Field &prompt = fields_[1], &completion = fields_[2], &messages = fields_[3], &conversations = fields_[4];
    const auto others = std::span(fields_).subspan(1);
    const auto null = [](const Field& field) {
      return fmt::format("{} is null instead of {}", field.quoted(),
                         field.takes == Takes::list ? "an array" : "a string");
    };
    const bool has_none = std::ranges::none_of(others.first(4), &Field::is_there);
    const auto is_null = [](const Field& field) { return field.was_null; };
    if (const auto found = std::ranges::find_if(fields_, is_null); has_none && found < fields_.begin() + 5)
      return null(*found);
    if (has_none) return fmt::format("an object has no {} (data.text_key){}", text().quoted(), other_keys());
    for (const Field& field : others)
      if (!field.problem.empty()) return field.problem;
    if (messages.found || conversations.found) return "";
    for (const Field& field : others.first(2)) {
      if (field.was_null) return null(field);
      if (!field.found)
        return fmt::format("an object has neither {} nor the {} of a pair", text().quoted(), field.quoted());
    }
    if (prompt.is_list && completion.is_list) return "";
    return fmt::format("{} is an array, but {} is not", (prompt.is_list ? prompt : completion).quoted(),
                       (prompt.is_list ? completion : prompt).quoted());
  }

  /// Says what a document has instead of the text, because it may be of another form.
  std::string other_keys() const {
    std::string text;
    bool has_instruction = false;
    for (const std::string& key : std::span(keys_).first(key_count_)) {
      text += fmt::format("{}\"{}\"", text.empty() ? ", but " : ", ", shown(key, 40));
      has_instruction = has_instruction || key == "instruction" || key == "question";
    }
    if (!has_instruction) return text;
    return text + ": a script makes a \"prompt\" and a \"completion\" of them (docs/manual/data.md)";
  }

  std::array<std::string, 6> keys_;  ///< the document's first
  std::size_t key_count_ = 0;
  std::array<Field, 8> fields_;
  Field* wanted_ = nullptr;  ///< whose value comes next
  JsonEcho echo_;            ///< the document's conversation
  bool is_echoed_ = false;   ///< what comes is part of it
  int echoed_depth_ = 0;     ///< around its value
  Field* echoed_ = nullptr;  ///< whose value it is
  bool may_be_array_;
  const TakeFinding& take_;
  int depth_ = 0;
  bool in_array_ = false, saw_object_ = false;
};

}  // namespace tessera
