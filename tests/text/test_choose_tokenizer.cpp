#include "tessera/text/choose_tokenizer.hpp"
#include "text/pair_tokenizer.hpp"
#include "text/text_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;

TEST_CASE("The tokenizer is the given one, that of the model's folder, or bytes") {
  const TemporaryFolder folder;
  Options options;
  CHECK(tokenizer_name(options) == "bytes");
  options.model.from = (folder / "model").string();
  folder.write("model/config.json", "{}");
  CHECK_THAT(error_of([&] { tokenizer_name(options); }),
             Contains("model.from") && Contains("data.tokenizer = bytes or a folder"));
  folder.write("model/vocab.json", "{}");
  CHECK_THAT(error_of([&] { tokenizer_name(options); }), Contains("model.from"));
  folder.write("model/merges.txt", "");
  CHECK(tokenizer_name(options) == (folder / "model").string());
  folder.write("run/hugging_face/tokenizer.json", "{}");
  folder.write("run/checkpoints/step-00000001/manifest.json", "{}");
  options.model.from = (folder / "run").string();
  CHECK(tokenizer_name(options) == (folder / "run/hugging_face").string());
  options.model.from = (folder / "run/checkpoints/step-00000001").string();
  CHECK(tokenizer_name(options) == (folder / "run/hugging_face").string());
  folder.write("export/tokenizer.json", byte_tokenizer_json());
  options.model.from = (folder / "export").string();
  CHECK(tokenizer_name(options) == "bytes");
  options.data.tokenizer = "bytes";
  CHECK(tokenizer_name(options) == "bytes");
  CHECK(open_named_tokenizer("bytes")->vocab() == 256);
}

TEST_CASE("The separator is a token of the tokenizer") {
  const PairTokenizer pairs;
  const auto bytes = make_byte_tokenizer();
  DataOptions options;
  CHECK(separator_of(options, pairs, false) == PairTokenizer::kEnd);
  CHECK_FALSE(separator_of(options, *bytes, true));
  CHECK_THAT(error_of([&] { separator_of(options, *bytes, false); }), Contains("data.separator = auto"));
  options.separator = "none";
  CHECK_FALSE(separator_of(options, pairs, false));
  options.separator = "ab";
  CHECK(separator_of(options, pairs, false) == 257);
  options.separator = "<none such>";
  CHECK_THAT(error_of([&] { separator_of(options, pairs, false); }), Contains("no such token"));
  options.separator = "\n";
  CHECK(separator_of(options, *bytes, true) == 10);
}
