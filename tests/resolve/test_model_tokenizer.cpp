#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "file_support.hpp"
#include "temporary_folder.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/options.hpp"
#include "tessera/convert/hugging_face_companions.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/resolve/companions.hpp"
#include "tessera/resolve/model_tokenizer.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;

const fs::path kTokenizers = fs::path(TESSERA_REFERENCE_DIR) / "tokenizers";

/// Makes the folder of a model: config.json, with ends of text, and one of the reference's tokenizers.
fs::path folder_of(const TemporaryFolder& in, const std::string& name, const std::string& tokenizer, const Json& config,
                   const Json& tokens = Json::object()) {
  fs::create_directories(in / name);
  fs::copy(kTokenizers / tokenizer / "tokenizer.json", in / name / "tokenizer.json");
  in.write(name + "/config.json", config.dump());
  in.write(name + "/tokenizer_config.json", tokens.dump());
  return in / name;
}

}  // namespace

TEST_CASE("a run that reads its text with another tokenizer than its weights' keeps that one's ids and ends") {
  const TemporaryFolder folder;
  const auto own_end = *open_tokenizer(kTokenizers / "qwen2")->end_of_text();
  const Json model = {{"model_type", "qwen2"}, {"eos_token_id", {own_end, 5}}, {"pad_token_id", 5}};
  const fs::path weights = folder_of(folder, "weights", "qwen2", model);
  const Json own = Json{{"model_type", "gpt2"}, {"eos_token_id", 11}};
  std::string kept_before;
  for (const char* other : {"gpt2", "llama3"}) {
    // Whether its own config.json says so, or nobody says which class it has.
    const fs::path named = folder_of(folder, other, other, other == std::string("gpt2") ? own : Json::object());
    Options options;
    options.run.dir = (folder / ("run-" + std::string(other))).string();
    options.model.from = weights.string(), options.data.tokenizer = named.string();
    keep_companions(options);
    const fs::path kept = fs::path(options.run.dir) / kCompanionFolder;
    const auto used = open_tokenizer(named), read = open_tokenizer(kept), theirs = open_tokenizer(weights);
    CHECK(read->hash() == used->hash());
    CHECK(read->end_of_text() == used->end_of_text());
    Ids ends = ends_of_text(*used, named.string(), {});
    if (used->bytes_of(5) == theirs->bytes_of(5)) ends.push_back(5);
    std::ranges::sort(ends);
    CHECK(ends_of_text(*read, kept.string(), kept) == ends);
    CHECK(ends_of_text(*used, named.string(), kept) == ends);     // as training asks for its samples
    CHECK(ends_of_text(*used, named.string(), weights) == ends);  // and as a model is asked with another tokenizer
    // A run that begins from this one, without a tokenizer by name.
    Options next;
    next.run.dir = options.run.dir + "-next", next.model.from = options.run.dir;
    copy_companions(kept, fs::path(next.run.dir) / kCompanionFolder);
    CHECK(open_tokenizer(fs::path(next.run.dir) / kCompanionFolder)->hash() == used->hash());
    // An export: the tokenizer lies next to config.json, and the library is told its class where it listens.
    const fs::path out = folder / ("export-" + std::string(other));
    fs::create_directories(out / "..");
    fs::create_directories(fs::path(options.run.dir) / "checkpoints/step-00000001");
    copy_companions_of(fs::path(options.run.dir) / "checkpoints/step-00000001", Manifest(), out);
    CHECK_FALSE(finish_tokenizer(out));  // Qwen2's class is taken whatever a folder says
    CHECK_FALSE(fs::exists(out / kNamedTokenizer));
    CHECK(Json::parse(read_file(out / "config.json"))["eos_token_id"] ==
          (ends.size() == 1 ? Json(ends[0]) : Json(ends)));
  }
  // A copy of the weights' own tokenizer changes nothing.
  const fs::path copy = folder_of(folder, "copy", "qwen2", {{"model_type", "qwen2"}});
  Options same;
  same.run.dir = (folder / "same").string(), same.model.from = weights.string(), same.data.tokenizer = copy.string();
  keep_companions(same);
  const fs::path kept = folder / "same/hugging_face";
  CHECK(Json::parse(read_file(kept / "config.json")) == model);
  CHECK(ends_of_text(*open_tokenizer(kept), kept.string(), kept) ==
        ends_of_text(*open_tokenizer(weights), weights.string(), weights));
}

TEST_CASE("an export tells the library the class of a named tokenizer where the model's would give other ids") {
  const TemporaryFolder folder;
  const fs::path out = folder_of(folder, "export", "qwen2", {{"model_type", "gpt2"}});
  folder_of(folder, "export/" + std::string(kNamedTokenizer), "qwen2", Json::object());
  const auto used = open_tokenizer(kTokenizers / "qwen2");
  CHECK(open_tokenizer(out / "tokenizer.json")->hash() != used->hash());
  CHECK(finish_tokenizer(out));
  CHECK(open_tokenizer(out)->hash() == used->hash());
  CHECK(Json::parse(read_file(out / "tokenizer_config.json"))["tokenizer_class"] == "PreTrainedTokenizerFast");
  CHECK(finish_tokenizer(out));
}
