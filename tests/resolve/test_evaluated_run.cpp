#include <catch2/catch.hpp>

#include "tessera/base/error.hpp"
#include "tessera/resolve/evaluated_run.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

const NamedTexts kRun{{"train.micro_batch", "3"},
                      {"train.seq_len", "32"},
                      {"train.eval_batches", "5"},
                      {"data.source", "texts"},
                      {"data.val_source", ""},
                      {"data.val_fraction", "0.2"},
                      {"data.separator", "none"},
                      {"data.text_key", "text"},
                      {"precision.compute", "bf16"},
                      {"shard.strategy", "zero1"},
                      {"data.synthetic_tokens", "1000000"}};

Options resolved(const std::vector<std::string>& arguments, const NamedTexts& of_run = kRun) {
  return evaluation_options(parse_arguments(arguments), of_run);
}

}  // namespace

TEST_CASE("What is not given is as the checkpoint's run had it, but for how the model is sharded") {
  const Options same = resolved({});
  CHECK((same.train.micro_batch == 3 && same.train.seq_len == 32 && same.train.eval_batches == 5));
  CHECK((same.data.source == "texts" && same.data.val_fraction == 0.2 && same.data.separator == "none"));
  CHECK((same.precision.compute == DType::bf16 && same.shard.strategy == Strategy::zero3));
  NamedTexts wide = kRun;
  wide.emplace_back("precision.logits", "fp32");
  CHECK(resolved({}, wide).precision.logits == LogitsPrecision::fp32);
  CHECK(resolved({"--precision.compute=fp32"}, wide).precision.logits == LogitsPrecision::compute);
  const Options other = resolved({"--data.val_source=a:x,b:y", "--train.eval_batches=0"});
  CHECK((other.data.val_source == "a:x,b:y" && other.train.eval_batches == 0 && other.train.seq_len == 32));
  CHECK((other.data.source == "synthetic" && other.data.separator == "none"));
  const Options corpus = resolved({"--data.source=synthetic", "--data.synthetic_tokens=70"});
  CHECK((corpus.data.source == "synthetic" && corpus.data.val_fraction == 0.2 && corpus.data.separator == "auto"));
  const Options fraction = resolved({"--data.val_fraction=0.5"});
  CHECK((fraction.data.source == "texts" && fraction.data.val_fraction == 0.5));
}

TEST_CASE("Linears multiply as in the run, unless precision.linear is given") {
  const NamedTexts fp8{{"precision.compute", "bf16"}, {"precision.linear", "fp8"}, {"precision.fp8_smallest", "7"}};
  const auto linears = [&](const std::vector<std::string>& arguments, const NamedTexts& run) {
    return with_linears_of(parse_arguments(arguments), run).precision;
  };
  CHECK((linears({}, fp8).linear == LinearPrecision::fp8 && linears({}, fp8).fp8_smallest == 7));
  CHECK(linears({}, fp8).compute == DType::fp32);
  CHECK(linears({"--precision.linear=compute"}, fp8).linear == LinearPrecision::compute);
  CHECK(linears({"--precision.linear=fp8"}, fp8).fp8_smallest == 7);
  CHECK(linears({"--precision.linear=fp8", "--precision.fp8_smallest=9"}, fp8).fp8_smallest == 9);
  CHECK(smallest_fp8_side(linears({"--precision.linear=fp8"}, kRun)) == 1024);
  CHECK(linears({}, kRun).linear == LinearPrecision::compute);
}

TEST_CASE("A run with sets of its own is evaluated on them, unless other data are given") {
  NamedTexts of_run = kRun;
  of_run[4].second = "a:x,b:y", of_run[5].second = "0.1";
  CHECK(resolved({}, of_run).data.val_source == "a:x,b:y");
  CHECK(resolved({"--data.source=other"}, of_run).data.val_source.empty());
  CHECK(resolved({"--data.val_fraction=0.3"}, of_run).data.val_source.empty());
  CHECK(resolved({"--eval.choices=q.jsonl"}, of_run).data.val_source.empty());
}

TEST_CASE("Data that are given are evaluated whole, whatever the run evaluated of its own") {
  for (const char* given : {"--data.val_source=x", "--data.source=x", "--data.val_fraction=0.5"}) {
    CHECK(resolved({given}).train.eval_batches == 0);
    CHECK(resolved({given, "--train.eval_batches=4"}).train.eval_batches == 4);
  }
}

TEST_CASE("A model without a run is evaluated on all of what is given, and refused without") {
  CHECK(resolved({"--data.val_source=x"}, {}).train.eval_batches == 0);
  CHECK(resolved({"--data.val_source=x", "--train.eval_batches=4"}, {}).train.eval_batches == 4);
  CHECK_THROWS_WITH(resolved({}, {}), Contains("there is nothing to evaluate"));
  NamedTexts of_run = kRun;
  of_run[5].second = "0", of_run[2].second = "16";
  CHECK_THROWS_WITH(resolved({}, of_run), Contains("there is nothing to evaluate"));
  CHECK_THROWS_WITH(resolved({"--eval.choices=q", "--data.val_source=x"}),
                    Contains("eval.choices is evaluated instead"));
}

TEST_CASE("A run from before data.begin is evaluated without, another as it was trained") {
  CHECK(resolved({}).data.begin == "none");
  CHECK(resolved({"--data.val_source=x"}).data.begin == "none");
  CHECK(resolved({"--data.begin=auto"}).data.begin == "auto");
  CHECK(resolved({"--data.val_source=x"}, {}).data.begin == "auto");
  NamedTexts newer = kRun;
  newer.emplace_back("data.begin", "<s>");
  CHECK(resolved({}, newer).data.begin == "<s>");
}
