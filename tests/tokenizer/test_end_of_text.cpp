#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/tokenizer/tokenizer.hpp"
#include "tokenizer/drawn_text.hpp"
#include "tokenizer/end_of_text.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

/// The end of text of Llama-3's reference in a folder with these files.
std::optional<std::int32_t> end_with(const std::string& tokenizer_config, const std::string& config,
                                     const std::string& family = "llama3") {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", read_file(family_path(family)));
  if (!tokenizer_config.empty()) folder.write("tokenizer_config.json", tokenizer_config);
  if (!config.empty()) folder.write("config.json", config);
  return open_tokenizer(folder.path())->end_of_text();
}

std::optional<std::int32_t> llama_id(const std::string& token) {
  return open_tokenizer(family_path("llama3"))->id_of(token);
}

}  // namespace

TEST_CASE("the end of text that the folder names, tokenizer_config.json first") {
  const auto eot = llama_id("<|eot_id|>"), end = llama_id("<|end_of_text|>");
  REQUIRE(eot);
  REQUIRE(end);
  CHECK(end_with("{\"eos_token\": \"<|eot_id|>\"}", "{\"eos_token_id\": 5}") == eot);
  CHECK(end_with("{\"eos_token\": {\"content\": \"<|eot_id|>\", \"lstrip\": false}}", "") == eot);
  CHECK(end_with("{\"eos_token\": null}", "{\"eos_token_id\": 5}") == 5);
  CHECK(end_with("{}", "{\"eos_token_id\": [7, 5]}") == 7);
  CHECK(end_with("", "{\"eos_token_id\": null}") == end);
  CHECK(end_with("", "{\"eos_token_id\": []}") == end);
  CHECK(end_with("", "") == end);
  CHECK(end_with("", "", "gpt2") == open_tokenizer(family_path("gpt2"))->id_of("<|endoftext|>"));
  CHECK_FALSE(end_with("", "", "added"));
}

TEST_CASE("a named end of text that is no token is an error where it is needed") {
  const auto refused = [](const std::string& tokens, const std::string& config) {
    return message_of<UsageError>([&] { end_with(tokens, config); });
  };
  CHECK(end_with("{\"eos_token\": \"</s>\"}", "") == open_tokenizer(family_path("llama3"))->vocab());  // it is added
  CHECK_THAT(refused("", "{\"eos_token_id\": 50256}"), Contains("config.json: eos_token_id is 50256"));
  CHECK_THAT(refused("", "{\"eos_token_id\": -1}"), Contains("eos_token_id is -1"));
  CHECK_THAT(refused("{\"eos_token\": 7}", ""), Contains("eos_token is 7, but a token's content"));
  CHECK_THAT(refused("", "{\"eos_token_id\": \"x\"}"), Contains("eos_token_id is not a whole number"));
  CHECK_THAT(refused("[", ""), Contains("tokenizer_config.json"));
}
