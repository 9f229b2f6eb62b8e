#include <map>

#include "checkpoint/checkpoint_case.hpp"
#include "local_world/local_world.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/convert/hugging_face_companions.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/resolve/companions.hpp"
#include "tessera/resolve/origin.hpp"
#include "tessera/resolve/run_checkpoints.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

/// with_origin on some ranks, which must come to the same options.
Options origin_on(std::int64_t ranks, const Options& options) {
  std::vector<Options> results(static_cast<std::size_t>(ranks));
  run_ranks(ranks, ranks, [&](RankContext& context) {
    results[static_cast<std::size_t>(context.rank())] = with_origin(context, options).first;
  });
  for (const Options& other : results) REQUIRE(other == results.front());
  return results.front();
}

}  // namespace

TEST_CASE("a checkpoint is found at its own path, and as the newest of its run") {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder / "run/checkpoints");
  CHECK_FALSE(checkpoint_in(folder.path()));
  CHECK_FALSE(checkpoint_in(folder / "none"));
  CHECK_FALSE(checkpoint_in(folder.write("file", "x")));
  write_checkpoint(checkpoints, 9, 1);
  write_checkpoint(checkpoints, 10, 1);
  CHECK(checkpoint_in(checkpoints.of_step(9)) == checkpoints.of_step(9));
  CHECK(checkpoint_in(folder / "run") == checkpoints.of_step(10));
  CHECK_FALSE(checkpoint_in(folder.path()));
}

TEST_CASE("what the user leaves open comes from the checkpoint, on every rank") {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder / "checkpoints");
  write_checkpoint(checkpoints, 3, 1);  // sequences of 9, 16 of them per step
  const std::string path = checkpoints.of_step(3).string();
  Options options = parse_arguments({"--checkpoint.resume=" + path});
  options.train.micro_batch = 2;
  for (const std::int64_t ranks : {1, 2, 4}) {
    const Options taken = origin_on(ranks, options);
    CHECK(taken.model.from == path);
    CHECK(taken.train.seq_len == 9);
    CHECK(taken.train.micro_batch == 2);
    CHECK(taken.data.document_mask == Tristate::no);  // of a version that did not decide it by the corpus
    CHECK(taken.train.accumulation == 16 / (ranks * 2));
    CHECK(taken.data.begin == "none");  // as before there was such an option
  }
  // 3 ranks cannot make 16 sequences. The options stay as they are, and the run refuses them later.
  CHECK(origin_on(3, options).train.accumulation == options.train.accumulation);
  const Options given = parse_arguments({"--checkpoint.resume=" + path, "--model.preset=nano", "--train.seq_len=5",
                                         "--train.micro_batch=4", "--train.accumulation=7"});
  const Options kept = origin_on(2, given);
  CHECK(kept.model == given.model);
  CHECK(kept.train == given.train);
  options.data.source = (folder / "texts.jsonl").string();
  options.data.document_mask = Tristate::yes;
  options.given.insert("data.document_mask");
  CHECK(origin_on(1, options).data.document_mask == Tristate::yes);
  CHECK(origin_on(2, parse_arguments({"--checkpoint.resume=" + path, "--data.begin=<s>"})).data.begin == "<s>");
}

TEST_CASE("without a checkpoint to go on from nothing changes, and a path that is none is refused") {
  const TemporaryFolder folder;
  const std::string run = "--run.dir=" + folder.path().string();
  const Options fresh = parse_arguments({run});
  CHECK(origin_on(2, fresh) == fresh);
  const Options automatic = parse_arguments({run, "--checkpoint.resume=auto"});
  CHECK(origin_on(2, automatic) == automatic);
  // A damaged manifest is passed over by auto: whoever loads the checkpoint says what is wrong with it.
  const CheckpointFolder checkpoints(folder / "checkpoints");
  write_checkpoint(checkpoints, 3, 1);
  write_checkpoint(checkpoints, 4, 1);
  write_file(checkpoints.of_step(4) / "manifest.json", "{}");
  CHECK(origin_on(1, automatic).model.from == checkpoints.of_step(3).string());
  CHECK_THROWS_WITH(origin_on(1, parse_arguments({run, "--checkpoint.resume=" + (folder / "none").string()})),
                    Contains("is neither a checkpoint nor a run"));
}

TEST_CASE("a run whose checkpoints are out of reach does not begin again, in whatever way they are") {
  const TemporaryFolder folder;
  const auto run = folder / "run", checkpoints = run / "checkpoints", scratch = folder / "scratch";
  std::filesystem::create_directories(run);
  const auto told = [&](const std::string& resume) {
    return message_of<IoError>([&] { resume_candidates(resume, run); });
  };
  std::filesystem::create_symlink(scratch, checkpoints);
  CHECK_THAT(told("auto"), Contains("run/checkpoints is a link to " + scratch.string() + ", which does not exist"));
  std::filesystem::create_directory(scratch);
  CHECK(resume_candidates("auto", run).empty());
  write_file(run / "log.jsonl", "{\"step\":12,\"loss\":1.5}\n");  // killed before it had a checkpoint
  CHECK(resume_candidates("auto", run).empty());
  write_file(run / "log.jsonl", "{\"step\":10,\"checkpoint_bytes\":7}\n");
  for (const auto& resume : {std::string("auto"), run.string()})
    CHECK_THAT(told(resume), Contains("has no checkpoint, although") && Contains("of step 10. Mount"));
  std::filesystem::remove(scratch);
  CHECK_THAT(told("auto"), Contains("is a link to") && Contains("of step 10"));
  std::filesystem::remove(checkpoints);
  CHECK_THAT(told("auto"), Contains("has no checkpoint"));
  write_checkpoint(CheckpointFolder(scratch), 10, 1);
  CHECK(describe_missing(run).empty());  // none at all is an error
  write_checkpoint(CheckpointFolder(checkpoints), 9, 1);
  CHECK_THAT(describe_missing(run),
             Contains("step-00000010, the last") && Contains("there is of step 9; ") && Contains("before-step-10"));
  for (const char* other : {"step-00000010.abandoned-1", "step-00000011"}) {
    std::filesystem::create_directory(checkpoints / other);
    CHECK(describe_missing(run).empty());
    std::filesystem::remove(checkpoints / other);
  }
  std::filesystem::create_symlink(scratch / "step-00000010", checkpoints / "step-00000010");
  CHECK(resume_candidates("auto", run).size() == 2);
  CHECK(read_manifest(checkpoints / "step-00000010").step == 10);
  // One that may be whole is not passed over.
  std::filesystem::rename(scratch, folder / "gone");
  CHECK_THAT(message_of<UnreadableError>([&] { read_manifest(checkpoints / "step-00000010"); }),
             Contains("step-00000010 is a link to") && Contains("which does not exist"));
}

TEST_CASE("a run's position comes from its checkpoint, with the batch with which it began") {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder / "checkpoints");
  Manifest manifest = write_checkpoint(checkpoints, 10, 1);
  const Options options = parse_arguments({"--run.dir=" + folder.path().string(), "--checkpoint.resume=auto"});
  const auto position = [&] {
    std::vector<RunPosition> found(2);
    run_ranks(2, 2, [&](RankContext& context) {
      found[static_cast<std::size_t>(context.rank())] = with_origin(context, options).second;
    });
    REQUIRE(found[0] == found[1]);
    return found[0];
  };
  CHECK(position() == RunPosition{10, 160, 16, 9});
  const auto rewrite = [&](std::int64_t next_sample, std::int64_t first_batch) {
    manifest.data.next_sample = next_sample, manifest.data.first_batch = first_batch;
    write_file(checkpoints.of_step(10) / "manifest.json", manifest_text(manifest));
  };
  rewrite(100, 4);
  CHECK(position() == RunPosition{10, 100, 4, 9});
  rewrite(100, 0);  // of an older version
  CHECK(position() == RunPosition{10, 100, 10, 9});
  rewrite(160, 16);
  CHECK_THAT(read_small_file(checkpoints.of_step(10) / "manifest.json").value(), !Contains("first_batch"));
}

TEST_CASE("what lies beside the weights is copied into the run, once") {
  const TemporaryFolder folder;
  folder.write("hf/config.json", "{}");
  folder.write("hf/tokenizer.json", "tokens");
  folder.write("hf/model.safetensors", "weights");
  Options options;
  options.run.dir = (folder / "run").string();
  keep_companions(options);
  CHECK_FALSE(std::filesystem::exists(folder / "run/hugging_face"));
  options.model.from = (folder / "hf").string();
  std::filesystem::resize_file(folder / "hf/tokenizer.json", std::uintmax_t{2} << 30);  // cannot be copied
  CHECK_THROWS_AS(keep_companions(options), Error);
  CHECK(std::filesystem::is_empty(folder / "run"));  // the next start copies all of it
  folder.write("hf/tokenizer.json", "tokens");
  keep_companions(options);
  CHECK(read_file(folder / "run/hugging_face/tokenizer.json") == "tokens");
  CHECK_FALSE(std::filesystem::exists(folder / "run/hugging_face/model.safetensors"));
  // A named tokenizer takes the place of the one there.
  folder.write("hf/tokenizer_config.json", "of hf");
  folder.write("words/vocab.json", "words"), folder.write("words/merges.txt", "merges");
  folder.write("words/special_tokens_map.json", "special"), folder.write("words/config.json", "not this one");
  const auto kept_with = [&](const std::string& run, const std::string& tokenizer, const std::string& from) {
    Options named;
    named.run.dir = (folder / run).string(), named.data.tokenizer = tokenizer, named.model.from = from;
    keep_companions(named);
    std::map<std::string, std::string> files;
    const std::filesystem::path kept = folder / run / "hugging_face";
    if (std::filesystem::exists(kept)) {
      for (const auto& file : std::filesystem::recursive_directory_iterator(kept))
        if (file.is_regular_file()) files[file.path().lexically_relative(kept).string()] = read_file(file.path());
    }
    return files;
  };
  using Files = std::map<std::string, std::string>;
  // Its own config.json tells its class; that of the weights does not.
  const std::string in = std::string(kNamedTokenizer) + "/";
  const Files words{{in + "vocab.json", "words"},
                    {in + "merges.txt", "merges"},
                    {in + "special_tokens_map.json", "special"},
                    {in + "config.json", "not this one"}};
  Files both = words;
  both["config.json"] = "{}";
  CHECK(kept_with("a", (folder / "words").string(), options.model.from) == both);
  CHECK(kept_with("b", (folder / "words").string(), "") == words);
  CHECK(kept_with("c", (folder / "words/merges.txt").string(), "") == words);
  CHECK(kept_with("d", "bytes", options.model.from) == Files{{"config.json", "{}"}});
  CHECK(kept_with("e", "bytes", "").empty());
  folder.write("words/mine.json", "mine");
  CHECK(kept_with("f", (folder / "words/mine.json").string(), "") == Files{{in + "tokenizer.json", "mine"},
                                                                           {in + "special_tokens_map.json", "special"},
                                                                           {in + "config.json", "not this one"}});
  // A run that begins from that one keeps it likewise.
  CHECK(kept_with("h", "", (folder / "a/hugging_face").string()) == both);
  folder.write("hf/additional_chat_templates/tools.jinja", "{{ tools }}");
  keep_companions(parse_arguments({"--run.dir=" + (folder / "g").string(), "--model.from=" + options.model.from}));
  CHECK(read_file(folder / "g/hugging_face/additional_chat_templates/tools.jinja") == "{{ tools }}");
  folder.write("hf/tokenizer.json", "others");
  keep_companions(options);
  CHECK(read_file(folder / "run/hugging_face/tokenizer.json") == "tokens");
}

TEST_CASE("a run keeps the type of the weights that it began from, whatever config.json says of it") {
  const TemporaryFolder folder;
  const auto origin_of = [&](const std::string& run, const std::string& config, std::optional<DType> stored) {
    folder.write("hf/config.json", config);
    Options options;
    options.run.dir = (folder / run).string(), options.model.from = (folder / "hf").string();
    keep_companions(options, stored);
    std::filesystem::remove(folder / "hf/config.json");
    return dtype_of_origin(folder / run / "checkpoints/step-00000001", Manifest());
  };
  CHECK(origin_of("a", "{}", DType::bf16) == DType::bf16);
  CHECK(origin_of("b", R"({"dtype": "float32", "torch_dtype": "float32"})", DType::fp16) == DType::fp16);
  CHECK(origin_of("c", R"({"torch_dtype": "bfloat16"})", std::nullopt) == DType::bf16);  // as older runs kept it
  CHECK(origin_of("d", R"({"dtype": "float16"})", std::nullopt) == DType::fp16);
  CHECK_FALSE(origin_of("e", R"({"torch_dtype": "auto"})", std::nullopt));
}
