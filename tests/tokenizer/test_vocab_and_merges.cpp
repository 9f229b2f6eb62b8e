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
  CHECK_THAT(refused("tokenizer_config.json", "{\"tokenizer_class\": \"Qwen2Tokenizer\"}"),
             Contains("tokenizer_class is \"Qwen2Tokenizer\""));
  CHECK_THAT(refused("tokenizer_config.json", "{\"add_prefix_space\": true}"), Contains("add_prefix_space is true"));
  CHECK_THAT(refused("config.json", "{\"model_type\": \"qwen2\"}"), Contains("model_type is \"qwen2\""));
  CHECK_THAT(refused("added_tokens.json", "{\"<x>\": 1}"), Contains("added_tokens.json"));
  CHECK_THAT(refused("vocab.json", "{\"a\": 0}"), Contains("merges.txt: line 2"));
  Gpt2Folder files;
  files.folder().write("merges.txt", "");
  files.folder().write("vocab.json", "{\"a\": 0}");
  CHECK_THAT(files.refused(), Contains("lacks byte 0x00"));
  files.folder().write("tokenizer_config.json", "{\"tokenizer_class\": \"GPT2Tokenizer\"}");
  files.folder().write("config.json", "{\"model_type\": \"gpt2\"}");
  CHECK_THAT(files.refused(), Contains("lacks byte 0x00"));
}
