#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/block_file.hpp"
#include "checkpoint_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/manifest.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

using Json = nlohmann::ordered_json;

/// The text of an edited manifest with the checksum that belongs to it.
std::string sealed(Json json) {
  const std::string zeros(16, '0');
  json["checksum"] = zeros;
  std::string text = json.dump(1);
  text.replace(text.rfind(zeros), zeros.size(),
               fmt::format("{:016x}", checksum(text.data(), static_cast<std::int64_t>(text.size()))));
  return text;
}

/// Calls `use` for every key of an object, of the objects in it, and of the first object of its lists.
void for_each_key(const Json& json, const Json::json_pointer& where,
                  const std::function<void(const Json::json_pointer&)>& use) {
  for (const auto& [key, value] : json.items()) {
    const auto place = where / key;
    use(place);
    if (value.is_object()) for_each_key(value, place, use);
    if (value.is_array() && !value.empty() && value[0].is_object()) for_each_key(value[0], place / 0, use);
  }
}

Manifest some_manifest() {
  const TemporaryFolder run;
  return write_checkpoint(CheckpointFolder(run / "checkpoints"), 3, 2);
}

}  // namespace

TEST_CASE("a manifest comes back with every field") {
  Manifest manifest = some_manifest();
  manifest.architecture.dropout = 0.125;
  manifest.evaluation = {{"wiki", 1.0 / 3}, {"code", 2.5}};
  std::ranges::sort(manifest.options);  // a reader has them in the order of their names
  manifest.checked = true;
  const std::string text = manifest_text(manifest);
  const Manifest read = manifest_from(text, "folder");
  CHECK(manifest_text(read) == text);
  CHECK(read.checked);
  CHECK(read.step == 3);
  CHECK(read.grid.strategy == "hsdp");
  CHECK(read.grid.replicas == 2);
  CHECK(read.architecture == manifest.architecture);
  CHECK(read.tensors == manifest.tensors);
  CHECK(read.optimizer == manifest.optimizer);
  CHECK(read.options == manifest.options);
  CHECK(read.evaluation == manifest.evaluation);
  CHECK(read.data.fingerprint == "0123456789abcdef");
  CHECK(read.data.next_sample == 48);
  CHECK(read.files[1].offsets == manifest.files[1].offsets);
  manifest.data = {};
  CHECK_FALSE(manifest_from(manifest_text(manifest), "folder").data.known);
  for (const FileRecord& file : manifest.files) {
    const FileRecord again = parse_file_record(file_record_text(file));
    CHECK(file_record_text(again) == file_record_text(file));
    CHECK(again.runs == file.runs);
  }
}

TEST_CASE("a manifest of weights alone says so, under a name that older versions refuse") {
  const TemporaryFolder run;
  const Manifest manifest = write_checkpoint(CheckpointFolder(run / "checkpoints"), 3, 2, 1, StateContent::weights);
  const std::string text = manifest_text(manifest);
  const Manifest read = manifest_from(text, "folder");
  CHECK(read.content == StateContent::weights);
  CHECK(manifest_text(manifest_from(manifest_text(read), "folder")) == manifest_text(read));
  const Json json = Json::parse(text);
  CHECK(json["format"] == "tessera weights");
  CHECK(json["files"][0]["offsets"].size() == 1);
  Json full = json;
  full["format"] = "tessera checkpoint";
  CHECK_THAT(message_of<IoError>([&] { manifest_from(sealed(full), "folder"); }), Contains("it has no first_moment"));
}

TEST_CASE("a field that is missing or of another type is named with its file") {
  const Json good = Json::parse(manifest_text(some_manifest()));
  CHECK(manifest_from(sealed(good), "folder").step == 3);
  int keys = 0;
  for_each_key(good, Json::json_pointer(), [&](const Json::json_pointer& place) {
    const std::string text = place.to_string();
    const auto is_in = [&](const char* part) { return text.starts_with(part) && text != part; };
    // Free names, fields that the model's own reader checks, and those that say which reader is needed.
    if (is_in("/options") || is_in("/provenance") || is_in("/model") || text == "/schema" || text == "/checksum")
      return;
    ++keys;
    INFO(text);
    Json without = good;
    without[place.parent_pointer()].erase(place.back());
    CHECK_THAT(message_of<IoError>([&] { manifest_from(sealed(without), "folder"); }),
               Contains("folder/manifest.json") && Contains(place.back()));
    Json other = good;
    other[place] = true;
    CHECK_THAT(message_of<IoError>([&] { manifest_from(sealed(other), "folder"); }), Contains("folder/manifest.json"));
  });
  CHECK(keys > 30);
  for (const char* key : {"/options/run.seed", "/provenance/version"}) {
    Json number = good;
    number[Json::json_pointer(key)] = 7;
    CHECK_THAT(message_of<IoError>([&] { manifest_from(sealed(number), "folder"); }), Contains("object of texts"));
  }
}

TEST_CASE("a manifest of another schema, of no schema or with another checksum is refused") {
  Json json = Json::parse(manifest_text(some_manifest()));
  const auto error = [](const std::string& text) {
    return message_of<IoError>([&] { manifest_from(text, "folder"); });
  };
  std::string text = sealed(json);
  text.replace(text.find("\"step\": 3"), 9, "\"step\": 4");
  CHECK_THAT(error(text), Contains("its checksum is wrong"));
  json["schema"] = 2;
  CHECK_THAT(error(sealed(json)), Contains("schema 2, which a newer program wrote, but") && Contains("reads schema 1"));
  json["schema"] = 0;
  CHECK_THAT(error(sealed(json)), Contains("has schema 0, which is unknown, but"));
  json["schema"] = "1";
  CHECK_THAT(error(sealed(json)), Contains("has schema \"1\", which is unknown, but"));
  json.erase("schema");
  CHECK_THAT(error(sealed(json)), Contains("has schema null, which is unknown, but"));
  CHECK_THAT(error("[]"), Contains("checksum"));
  CHECK_THAT(error(""), Contains("is damaged"));
}

TEST_CASE("random texts in place of a manifest end in messages") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  write_checkpoint(folder, 3, 2);
  const auto path = folder.of_step(3) / "manifest.json";
  const std::string good = read_file(path);
  Manifest manifest = read_manifest(folder.of_step(3));
  const auto refused = [&](const Manifest& m) {
    write_file(path, manifest_text(m));
    return !message_of<IoError>([&] { CheckpointReader reader(folder.of_step(3)); }).empty();
  };
  const std::int64_t huge = std::int64_t{1} << 62;
  Manifest bad = manifest;
  bad.files[0].runs[0].first = huge;
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].runs[0].count = huge;
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].runs[0].tensor = 99;
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].offsets[1] = huge;
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].bytes = huge;
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].block_bytes = 0;
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].name = "../shard-00000.h5";
  REQUIRE(refused(bad));
  bad = manifest, bad.tensors[0].shape = {huge, huge};
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].runs.pop_back();
  REQUIRE(refused(bad));
  bad = manifest, bad.files[0].runs.push_back(bad.files[1].runs[0]);
  REQUIRE(refused(bad));
  bad = manifest, bad.tensors[0].states[static_cast<std::size_t>(StateKind::parameter)] = false;
  REQUIRE(refused(bad));
  bad = manifest, bad.step = -1;
  REQUIRE(refused(bad));
  write_file(path, R"({"schema":1,"model":)" + std::string(100000, '[') + std::string(100000, ']') + "}");
  REQUIRE(message_of<IoError>([&] { CheckpointReader reader(folder.of_step(3)); }).find("nested") != std::string::npos);
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    std::string text = good;
    for (int k = 0; k < 3; ++k) text[random() % text.size()] = static_cast<char>(random());
    write_file(path, text);
    REQUIRE(!message_of<IoError>([&] { CheckpointReader reader(folder.of_step(3)); }).empty());
  }
}
