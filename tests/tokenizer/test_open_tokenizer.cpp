#include <nlohmann/json.hpp>
#include <set>

#include "file_support.hpp"
#include "sanitized.hpp"
#include "tessera/base/error.hpp"
#include "tessera/tokenizer/tokenizer.hpp"
#include "tokenizer/drawn_text.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

using Ids = std::vector<std::int32_t>;

Ids encoded(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encoder()->encode(text, ids);
  return ids;
}

nlohmann::json read_json(const std::filesystem::path& path) { return nlohmann::json::parse(read_file(path)); }

}  // namespace

TEST_CASE("ids equal the tokenizers library's") {
  const auto folder = std::filesystem::path(TESSERA_REFERENCE_DIR) / "tokenizers";
  const auto cases = read_json(folder / "cases.json").get<std::vector<std::string>>();
  REQUIRE(cases.size() > 200);
  for (const std::string& family : kFamilies) {
    const auto expected = read_json(folder / family / "ids.json").get<std::vector<Ids>>();
    REQUIRE(expected.size() == cases.size());
    const auto tokenizer = open_tokenizer(folder / family);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      INFO(family << ", case " << i << ": " << escaped(cases[i]));
      REQUIRE(encoded(*tokenizer, cases[i]) == expected[i]);
    }
  }
}

TEST_CASE("ids equal AutoTokenizer's where other files of the folder decide") {
  const auto cases = read_json(std::filesystem::path(TESSERA_REFERENCE_DIR) / "tokenizers/folders.json");
  REQUIRE(cases.size() == 40);
  for (std::size_t n = 0; n < cases.size(); ++n) {
    nlohmann::json file = read_json(family_path(cases[n]["family"].get<std::string>()));
    for (const auto& [key, value] : cases[n]["parts"].items()) {
      if (key == "model") {
        file[key].update(value);
      } else {
        file[key] = value;
      }
    }
    const TemporaryFolder folder;
    folder.write("tokenizer.json", file.dump());
    for (const auto& [name, value] : cases[n]["files"].items()) folder.write(name, value.dump());
    const auto tokenizer = open_tokenizer(folder.path());
    const auto texts = cases[n]["texts"].get<std::vector<std::string>>();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      INFO("folder " << n << ", " << escaped(texts[i]));
      REQUIRE(encoded(*tokenizer, texts[i]) == cases[n]["ids"][i].get<Ids>());
    }
  }
}

TEST_CASE("GPT-2's own vocabulary gives nanoGPT's counts of tiny Shakespeare") {
  const auto shared = std::filesystem::path(TESSERA_REFERENCE_DIR) / "../../../shared/data";
  if (!std::filesystem::exists(shared / "gpt2-tokenizer") || !std::filesystem::exists(shared / "tinyshakespeare.txt")) {
    WARN("skipped: ../shared/data has no gpt2-tokenizer and tinyshakespeare.txt");
    return;
  }
  const auto tokenizer = open_tokenizer(shared / "gpt2-tokenizer");
  CHECK(tokenizer->vocab() == 50257);
  CHECK(tokenizer->end_of_text() == 50256);
  CHECK(encoded(*tokenizer, "Hello world<|endoftext|>") == Ids{15496, 995, 50256});
  CHECK(tokenizer->bytes_of(995) == " world");
  const std::string text = read_file(shared / "tinyshakespeare.txt");
  const std::size_t train = text.size() * 9 / 10;  // all ASCII: bytes are characters
  CHECK(encoded(*tokenizer, std::string_view(text).substr(0, train)).size() == 301966);
  CHECK(encoded(*tokenizer, std::string_view(text).substr(train)).size() == 36059);
  CHECK(tokenizer->decode(encoded(*tokenizer, text)) == text);
}

TEST_CASE("a folder, its file and the file's name alone are one tokenizer") {
  const auto by_folder = open_tokenizer(family_path("qwen2").parent_path()),
             by_file = open_tokenizer(family_path("qwen2"));
  CHECK(by_folder->hash() == by_file->hash());
  CHECK(by_folder->describe() == "qwen2/tokenizer.json (byte-level BPE, " + std::to_string(by_file->vocab()) + " ids)");
  CHECK(by_file->describe() == by_folder->describe());
}

TEST_CASE("the hash is of all that decides ids") {
  std::set<std::uint64_t> hashes;
  for (const std::string& family : kFamilies) CHECK(hashes.insert(open_tokenizer(family_path(family))->hash()).second);
  // Equal on every machine, so equal to what it was.
  CHECK(open_tokenizer(family_path("gpt2"))->hash() == 0x102031407f818f62);
  const auto hash_with = [](const std::string& pointer, const nlohmann::json& value) {
    nlohmann::json json = read_json(family_path("added"));
    json[nlohmann::json::json_pointer(pointer)] = value;
    const TemporaryFolder folder;
    folder.write("tokenizer.json", json.dump());
    return open_tokenizer(folder.path())->hash();
  };
  const std::uint64_t plain = open_tokenizer(family_path("added"))->hash();
  CHECK(hash_with("/model/fuse_unk", true) == plain);
  for (const auto& [pointer, value] : std::vector<std::pair<std::string, nlohmann::json>>{
           {"/normalizer", nullptr},
           {"/model/ignore_merges", true},
           {"/pre_tokenizer/add_prefix_space", false},
           {"/added_tokens/0/lstrip", false},
           {"/added_tokens/0/content", "<L>"},
           {"/model/merges/3", read_json(family_path("added"))["model"]["merges"][3]}}) {
    INFO(pointer);
    CHECK((hash_with(pointer, value) == plain) == (pointer == "/model/merges/3"));
  }
}

TEST_CASE("ids of tokens, and ids that are none") {
  const auto tokenizer = open_tokenizer(family_path("qwen2"));
  const auto id = tokenizer->id_of("<|im_end|>");
  REQUIRE(id);
  CHECK(tokenizer->bytes_of(*id) == "<|im_end|>");
  CHECK(tokenizer->id_of("\u0120the"));
  CHECK(tokenizer->bytes_of(*tokenizer->id_of("\u0120the")) == " the");
  CHECK_FALSE(tokenizer->id_of("not a token"));
  const auto last = static_cast<std::int32_t>(tokenizer->vocab());
  CHECK_THAT(message_of<UsageError>([&] { tokenizer->bytes_of(last); }),
             Contains("token " + std::to_string(last)) && Contains("qwen2/tokenizer.json") && Contains("0 to"));
  CHECK_THROWS_AS(tokenizer->bytes_of(-1), UsageError);
}

TEST_CASE("what stands before a document") {
  const auto llama = open_tokenizer(family_path("llama2")), gpt2 = open_tokenizer(family_path("gpt2"));
  CHECK(begin_name(*llama) == "<s>");
  CHECK(begin_name(*gpt2) == "none");
  CHECK(begin_of(*llama, "auto") == Ids{1});
  CHECK(begin_of(*llama, "<s>") == Ids{1});
  CHECK(begin_of(*llama, "</s>") == Ids{2});
  CHECK(begin_of(*llama, "none").empty());
  CHECK(begin_of(*gpt2, "auto").empty());
  CHECK(begin_of(*make_byte_tokenizer(), "auto").empty());
  CHECK_THAT(message_of<UsageError>([&] { begin_of(*gpt2, "<s>"); }),
             Contains("data.begin = <s> does not work") && Contains("has no such token"));
}

TEST_CASE("a prompt with a character that has no token is refused") {
  const auto smol = open_tokenizer(family_path("smol"));
  Ids ids;
  encode_prompt(*smol, *smol->encoder(), "the", ids);
  CHECK(smol->decode(ids) == "the");
  CHECK_THAT(message_of<UsageError>([&] { encode_prompt(*smol, *smol->encoder(), "\U000f0001", ids); }),
             Contains("byte 0xf3") && Contains("smol/tokenizer.json"));
}

TEST_CASE("paths without a tokenizer") {
  const TemporaryFolder folder;
  CHECK_THAT(message_of<UsageError>([&] { open_tokenizer(folder / "none"); }), Contains("does not exist"));
  CHECK_THAT(message_of<UsageError>([&] { open_tokenizer(folder.path()); }),
             Contains("tokenizer.json, or vocab.json with merges.txt"));
  folder.write("vocab.json", "{}");
  CHECK_THAT(message_of<UsageError>([&] { open_tokenizer(folder.path()); }), Contains("has no tokenizer"));
  folder.write("tokenizer.model", "pieces");
  CHECK_THAT(message_of<UsageError>([&] { open_tokenizer(folder.path()); }),
             Contains("can be read, but tokenizer.model. Load it in Python with AutoTokenizer"));
}
