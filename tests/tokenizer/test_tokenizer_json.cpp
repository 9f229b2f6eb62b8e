#include <nlohmann/json.hpp>

#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tokenizer/bpe_description.hpp"
#include "tokenizer/drawn_text.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

using nlohmann::json;

const json& qwen2() {
  static const json kFile = json::parse(read_file(family_path("qwen2")));
  return kFile;
}

BpeDescription read(const std::string& text) {
  const TemporaryFolder folder;
  return read_tokenizer_json(folder.write("tokenizer.json", text));
}

/// Qwen2's file with one value replaced (or added).
json with(const std::string& pointer, const json& value) {
  json file = qwen2();
  file[json::json_pointer(pointer)] = value;
  return file;
}

/// The message for such a file, which names the file.
std::string refused(const std::string& pointer, const json& value) {
  const std::string message = message_of<UsageError>([&] { read(with(pointer, value).dump()); });
  CHECK_THAT(message, Contains("tokenizer.json"));
  return message;
}

json split(const std::string& key, const json& value) {
  json part = qwen2()["pre_tokenizer"]["pretokenizers"][0];
  part[key] = value;
  return part;
}

const json kByteLevel = {
    {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};

}  // namespace

TEST_CASE("what the families' files say") {
  const BpeDescription gpt2 = description_of("gpt2"), qwen = description_of("qwen2"), llama = description_of("llama3"),
                       added = description_of("added");
  CHECK(gpt2.words.at(0).from == kGpt2Pattern);
  CHECK(qwen.words.at(0).from == kQwen2Pattern);
  CHECK(llama.words.at(0).from == kLlama3Pattern);
  CHECK((gpt2.words.size() == 1 && qwen.words.size() == 1 && llama.words.size() == 1));
  CHECK(gpt2.normal.empty());
  CHECK(qwen.normal.at(0).kind == TextRule::Kind::nfc);
  CHECK(llama.ignore_merges);
  CHECK(!qwen.ignore_merges);
  CHECK((added.words.at(0).kind == TextRule::Kind::prefix && added.words.at(0).to == " "));
  CHECK(gpt2.added.size() == 1);
  CHECK(added.added.at(0).lstrip);
  CHECK(added.added.at(3).single_word);
  CHECK(added.added.at(5).normalized);
  CHECK((gpt2.before_text.empty() && qwen.before_text.empty()));
  CHECK(llama.before_text == std::vector<std::int32_t>{704});  // <|begin_of_text|>
  CHECK(gpt2.merges.size() + 256 + 1 == gpt2.vocabulary.size());
}

TEST_CASE("what means nothing else is read, too") {
  const json& merge = qwen2()["model"]["merges"][0];
  const std::string text = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  CHECK(read(with("/model/merges/0", text).dump()).merges.size() == description_of("qwen2").merges.size());
  for (const auto& [pointer, value] : std::vector<std::pair<std::string, json>>{
           {"/model/dropout", 0.0},
           {"/model/byte_fallback", true},
           {"/model/end_of_word_suffix", ""},
           {"/normalizer", json{{"type", "Sequence"}, {"normalizers", json::array({json{{"type", "NFC"}}})}}},
           {"/normalizer", nullptr},
           {"/post_processor", nullptr},
           {"/post_processor", json{{"type", "RobertaProcessing"}, {"cls", {"a", 0}}, {"sep", {"b", 1}}}},
           {"/added_tokens", nullptr},
           {"/truncation", json{{"max_length", 8}}},
           {"/padding", json{{"pad_id", 0}}},
           {"/model/unk_token", "<unk>"},
           {"/decoder", nullptr},
           {"/decoder", json{{"type", "Sequence"}, {"decoders", json::array({json{{"type", "ByteLevel"}}})}}},
           {"/pre_tokenizer", kByteLevel},
           {"/pre_tokenizer", json{{"type", "Sequence"}, {"pretokenizers", json::array({kByteLevel})}}}}) {
    INFO(pointer << " " << value.dump());
    CHECK_NOTHROW(read(with(pointer, value).dump()));
  }
}

TEST_CASE("what a file asks for and is not supported is refused by its path") {
  CHECK_THAT(refused("/version", "2.0"), Contains("version is \"2.0\", but only 1.0"));
  CHECK_THAT(refused("/more", 1), Contains("more is 1, but this key is not supported"));
  CHECK_THAT(refused("/model/type", "Unigram"), Contains("model.type is \"Unigram\", but only BPE"));
  CHECK_THAT(refused("/model", json{{"type", "WordPiece"}, {"max_input_chars_per_word", 100}}),
             Contains("model.type is \"WordPiece\"") && Contains("Prepare a token file (.bin)"));
  CHECK_THAT(refused("/model/dropout", 0.1), Contains("model.dropout is 0.1"));
  CHECK_THAT(refused("/model/continuing_subword_prefix", "##"), Contains("model.continuing_subword_prefix"));
  CHECK_THAT(refused("/model/end_of_word_suffix", "</w>"), Contains("model.end_of_word_suffix"));
  CHECK_THAT(refused("/model/more", 1), Contains("model.more is 1"));
  CHECK_THAT(refused("/normalizer", json{{"type", "NFKC"}}), Contains("normalizer.type is \"NFKC\""));
  CHECK_THAT(refused("/normalizer", json{{"type", "Sequence"}, {"normalizers", {json{{"type", "Lowercase"}}}}}),
             Contains("normalizer.normalizers[0].type"));
  CHECK_THAT(refused("/pre_tokenizer", json{{"type", "Whitespace"}}),
             Contains("pre_tokenizer.type is \"Whitespace\"") && Contains("Prepare a token file (.bin)"));
  // Thirty of these make a gigabyte of a letter.
  const json doubled{{"type", "Replace"}, {"pattern", {{"String", "l"}}}, {"content", "ll"}};
  const json digits{{"type", "Digits"}, {"individual_digits", true}};
  CHECK_THAT(refused("/normalizer", json{{"type", "Sequence"}, {"normalizers", std::vector<json>(30, doubled)}}),
             Contains("more than 64 times as long"));
  CHECK_THAT(refused("/pre_tokenizer", json{{"type", "Sequence"}, {"pretokenizers", std::vector<json>(40, digits)}}),
             Contains("more than 32 rules"));
  CHECK_THAT(refused("/pre_tokenizer/pretokenizers/2", kByteLevel), Contains("pretokenizers[2].type is \"ByteLevel\""));
  CHECK_THAT(refused("/pre_tokenizer/pretokenizers/0", split("behavior", "Other")),
             Contains("[0].behavior is \"Other\""));
  CHECK_THAT(refused("/pre_tokenizer/pretokenizers/0", split("pattern", {{"Other", " "}})),
             Contains("[0].pattern.Other"));
  CHECK_THAT(refused("/pre_tokenizer/pretokenizers/0", split("pattern", {{"Regex", "\\w+"}})),
             Contains("[0].pattern.Regex") && Contains("\\w at byte 0") && Contains("Prepare a token file"));
  CHECK_THAT(refused("/normalizer", json{{"type", "Replace"}, {"pattern", {{"Regex", " +"}}}, {"content", ""}}),
             Contains("normalizer.pattern.Regex"));
  CHECK_THAT(refused("/pre_tokenizer", json{{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}}),
             Contains("prepend_scheme is \"last\""));
  CHECK_THAT(refused("/post_processor", json{{"type", "Other"}}), Contains("post_processor.type is \"Other\""));
  CHECK_THAT(refused("/post_processor", json{{"type", "Sequence"}, {"processors", {json{{"type", "Other"}}}}}),
             Contains("post_processor.processors[0].type"));
}

TEST_CASE("vocabularies that are none") {
  CHECK_THAT(refused("/model/vocab", json::object()), Contains("model.vocab"));
  CHECK_THAT(refused("/model/vocab", json::array()), Contains("model.vocab is a list"));
  CHECK_THAT(refused("/model/vocab/a", -1), Contains("model.vocab.a is -1, but a whole number from 0 to 4194303"));
  CHECK_THAT(refused("/model/vocab/a", 16'777'216), Contains("model.vocab.a is 16777216"));
  CHECK_THAT(refused("/model/vocab/a", 18'446'744'073'709'551'615u), Contains("model.vocab.a is 18446744073709551615"));
  CHECK_THAT(refused("/model/vocab/a", 1.5), Contains("model.vocab.a is 1.5"));
  CHECK_THAT(refused("/model/vocab/a", "7"), Contains("model.vocab.a is \"7\""));
  CHECK_THAT(refused("/model/vocab/a", qwen2()["model"]["vocab"]["b"]), Contains("another token has this id"));
  CHECK_THAT(refused("/model/vocab/\u0120\u001b", -1), Contains("model.vocab[\"\u0120?\"] is -1"));
}

TEST_CASE("merges that are none") {
  CHECK_THAT(refused("/model/merges", nullptr), Contains("model.merges is null"));
  CHECK_THAT(refused("/model/merges/17", "ab"), Contains("model.merges[17] is \"ab\", but two tokens"));
  CHECK_THAT(refused("/model/merges/17", "a b c"), Contains("model.merges[17]"));
  CHECK_THAT(refused("/model/merges/17", " a"), Contains("model.merges[17]"));
  CHECK_THAT(refused("/model/merges/17", {"a", "b", "c"}), Contains("model.merges[17] is a list"));
  CHECK_THAT(refused("/model/merges/17", json::array({"a", 7})), Contains("model.merges[17]"));
  CHECK_THAT(refused("/model/merges/17", 7), Contains("model.merges[17] is 7"));
  CHECK_THAT(refused("/model/merges/17", json::array({"zzz", "a"})),
             Contains("model.merges[17]") && Contains("zzz is not in"));
  CHECK_THAT(refused("/model/merges/17", json::array({"a", "zzz"})), Contains("zzz is not in"));
  CHECK_THAT(refused("/model/merges/17", json::array({"z", "z"})), Contains("zz is not in"));
  CHECK_THAT(refused("/model/merges/17", qwen2()["model"]["merges"][3]),
             Contains("model.merges[17]") && Contains("before"));
}

TEST_CASE("added tokens that are none") {
  const std::int64_t first = qwen2()["added_tokens"][0]["id"].get<std::int64_t>();
  CHECK_THAT(refused("/added_tokens", json::object()), Contains("added_tokens is an object"));
  CHECK_THAT(refused("/added_tokens/1", 7), Contains("added_tokens[1] is 7"));
  CHECK_THAT(refused("/added_tokens/1/more", 7), Contains("added_tokens[1].more"));
  CHECK_THAT(refused("/added_tokens/1/lstrip", 7), Contains("added_tokens[1].lstrip is 7"));
  CHECK_THAT(refused("/added_tokens/1/content", ""), Contains("added_tokens[1].content"));
  CHECK_THAT(refused("/added_tokens/1/content", "<|endoftext|>"), Contains("was added before"));
  CHECK_THAT(refused("/added_tokens/1/id", -1), Contains("added_tokens[1].id is -1"));
  CHECK_THAT(refused("/added_tokens/1/id", first), Contains("goes on with " + std::to_string(first + 1)));
  CHECK_THAT(refused("/added_tokens/1/content", "a"), Contains("model.vocab has it as"));
  json holes = qwen2();  // the vocabulary's size is the id of one of its tokens
  const std::string largest = [&] {
    for (const auto& [spelling, id] : holes["model"]["vocab"].items())
      if (id == first - 1) return spelling;
    return std::string();
  }();
  holes["model"]["vocab"][largest] = first;
  CHECK_THAT(message_of<UsageError>([&] { read(holes.dump()); }),
             Contains("added_tokens[0].id") && Contains("another token"));
}

TEST_CASE("hostile JSON") {
  const auto message = [](const std::string& text) { return message_of<UsageError>([&] { read(text); }); };
  CHECK_THAT(message("{\"model\": " + std::string(100'000, '[')), Contains("nested more than"));
  CHECK_THAT(message("{\"model\": {\"vocab\": {\"\\ud800\": 1}}}"), Contains("is not JSON"));
  CHECK_THAT(message("{\"model\": {\"vocab\": {\"\xff\": 1}}}"), Contains("is not JSON"));
  CHECK_THAT(message("[]"), Contains("does not hold a JSON object"));
  CHECK_THAT(message("{}"), Contains("model is null"));
  CHECK_THAT(message(""), Contains("is not JSON"));
  const std::string whole = qwen2().dump();
  for (std::size_t i = 1; i < 60; ++i) CHECK_THROWS_AS(read(whole.substr(0, whole.size() * i / 60)), UsageError);
}

TEST_CASE("a file with any value replaced is read or refused, no worse") {
  DrawnText drawn(47);
  const json added = json::parse(read_file(family_path("added")));
  const json flat = added.flatten();
  std::vector<std::string> pointers;
  for (const auto& [pointer, value] : flat.items()) {
    if (pointer.find("/vocab/") == std::string::npos && pointer.find("/merges/") == std::string::npos)
      pointers.push_back(pointer);
  }
  const std::vector<json> values{
      nullptr, true, -1, 1e300, "", "x", json::array(), json::object(), json::array({nullptr})};
  for (int i = 0; i < 300; ++i) {
    json file = added;
    std::string pointer = pointers[drawn.below(pointers.size())];
    for (std::size_t up = drawn.below(3); up > 0 && pointer.rfind('/') > 0; --up) pointer.erase(pointer.rfind('/'));
    file[json::json_pointer(pointer)] = values[drawn.below(values.size())];
    try {
      read(file.dump());
    } catch (const UsageError&) {
    }
  }
}
