#include <nlohmann/json.hpp>

#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/tokenizer/tokenizer.hpp"
#include "tokenizer/drawn_text.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

/// A folder with GPT-2's reference as vocab.json and merges.txt.
class Gpt2Folder {
 public:
  Gpt2Folder() {
    const auto file = nlohmann::json::parse(read_file(family_path("gpt2")));
    folder_.write("vocab.json", file["model"]["vocab"].dump());
    for (const auto& merge : file["model"]["merges"]) merges_ += merge.get<std::string>() + "\n";
    folder_.write("merges.txt", "#version: 0.2\n" + merges_);
  }
  TemporaryFolder& folder() { return folder_; }
  const std::string& merges() const { return merges_; }
  std::string refused() {
    return message_of<UsageError>([&] { open_tokenizer(folder_.path()); });
  }

 private:
  TemporaryFolder folder_;
  std::string merges_;
};

}  // namespace

TEST_CASE("the two files are the tokenizer that tokenizer.json describes") {
  Gpt2Folder files;
  const auto expected = open_tokenizer(family_path("gpt2"));
  for (const char* name : {"", "vocab.json", "merges.txt"}) {
    const auto tokenizer = open_tokenizer(files.folder().path() / name);
    CHECK(tokenizer->hash() == expected->hash());
    CHECK(tokenizer->end_of_text() == expected->end_of_text());
    CHECK_THAT(tokenizer->describe(), Contains("vocab.json (byte-level BPE"));
  }
}

TEST_CASE("lines may end in CRLF, and the version may be missing") {
  Gpt2Folder files;
  const std::uint64_t hash = open_tokenizer(files.folder().path())->hash();
  files.folder().write("merges.txt", files.merges());
  CHECK(open_tokenizer(files.folder().path())->hash() == hash);
  std::string crlf;
  for (const char c : files.merges()) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  files.folder().write("merges.txt", crlf.substr(0, crlf.size() - 2));
  CHECK(open_tokenizer(files.folder().path())->hash() == hash);
}

TEST_CASE("lines that are no merges are named") {
  for (const auto& [line, why] :
       std::vector<std::pair<std::string, std::string>>{{"ab", "two tokens"},
                                                        {"", "two tokens"},
                                                        {"a b c", "two tokens"},
                                                        {"zzz a", "zzz is not in the vocabulary"}}) {
    Gpt2Folder files;
    files.folder().write("merges.txt", "#version: 0.2\n" + line + "\n" + files.merges());
    CHECK_THAT(files.refused(), Contains("merges.txt: line 2") && Contains(why));
  }
  Gpt2Folder files;
  files.folder().write("merges.txt", files.merges() + files.merges());
  CHECK_THAT(files.refused(), Contains("merged before"));
}

TEST_CASE("folders of other families are refused") {
  const auto refused = [](const std::string& name, const std::string& text) {
    Gpt2Folder files;
    files.folder().write(name, text);
    return files.refused();
  };
  CHECK_THAT(refused("tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizer"})"),
             Contains("tokenizer_class is \"RobertaTokenizer\""));
  CHECK_THAT(refused("config.json", R"({"model_type": "roberta"})"), Contains("model_type is \"roberta\""));
  CHECK_THAT(refused("added_tokens.json", R"({"<x>": -1})"), Contains("<x> has no id"));
  CHECK_THAT(refused("vocab.json", "{\"a\": 0}"), Contains("merges.txt: line 2"));
}

TEST_CASE("what the folder's other files say") {
  const auto ids = [](const std::string& name, const std::string& json, const std::string& text) {
    Gpt2Folder files;
    files.folder().write(name, json);
    const auto tokenizer = open_tokenizer(files.folder().path());
    std::vector<std::int32_t> all = tokenizer->before_text();
    tokenizer->encoder()->encode(text, all);
    return std::pair(all, tokenizer->decode(all));
  };
  const std::string config = "tokenizer_config.json";
  const auto next = static_cast<std::int32_t>(open_tokenizer(Gpt2Folder().folder().path())->vocab());
  CHECK(ids("added_tokens.json", R"({"<x>": 900})", "<x>").first == std::vector<std::int32_t>{next});
  CHECK(ids(config, R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true})", "the").second == " the");
  CHECK(ids(config, R"({"add_bos_token": true, "bos_token": "<s>"})", "the").second == "<s>the");
  const std::string qwen2 = ids(config, R"({"tokenizer_class": "Qwen2Tokenizer"})", "e\u0301").second;
  CHECK(qwen2 == "\u00e9");  // its normal form
}
