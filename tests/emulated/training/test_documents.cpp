// Documents that the emulated cuDNN keeps apart: their borders are told with each micro-batch.

#include <catch2/catch.hpp>

#include "gpu_case.hpp"
#include "gpu_emulator/libraries/cudnn/cudnn.hpp"
#include "temporary_folder.hpp"
#include "tessera/text/corpus.hpp"
#include "training/sixteen_bits.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;

namespace {

/// Heads of 8, which cuDNN has.
Architecture model_with_heads_of_8(Family family) {
  Architecture a = family == Family::gpt2 ? tiny_gpt2() : small_model(family);
  a.vocab = 67, a.layers = 1;
  if (family == Family::qwen3) a.head_dim = 8;
  return a;
}

std::int64_t documents_in(const Options& options) {
  return open_dataset(options, 67, options.train.seq_len).most_documents();
}

/// Options of documents of 1 to 18 bytes in samples of 12, in 16 bits. Their documents are counted.
Options options_of_documents(const TemporaryFolder& folder, Packing packing) {
  std::string lines;
  for (int i = 0; i < 500; ++i)
    lines += "{\"text\": \"" + std::string(static_cast<std::size_t>(1 + i * 7 % 18), static_cast<char>('0' + i % 10)) +
             "\"}\n";
  folder.write("lines.jsonl", lines);
  Options options = gpu_options();
  options.data.source = (folder / "lines.jsonl").string();
  options.data.synthetic_tokens = DataOptions().synthetic_tokens;
  options.data.cache = (folder / "cache").string();
  options.data.document_mask = Tristate::yes, options.data.packing = packing;
  options.train.seq_len = 12;
  options.precision.compute = DType::bf16;
  options.data.most_documents = documents_in(options);
  return options;
}

}  // namespace

TEST_CASE("with documents apart, cuDNN follows the CPU, packed or not") {
  const TemporaryFolder folder;
  const GpuCount gpus(2);
  for (const auto& [family, packing] :
       {std::pair(Family::gpt2, Packing::stream), {Family::qwen3, Packing::documents}}) {
    INFO(name_of(family) << ", data.packing = " << name_of(packing));
    Options options = options_of_documents(folder, packing);
    options.run.attention = AttentionChoice::cudnn;  // nothing else computes it
    const Architecture architecture = model_with_heads_of_8(family);
    const SixteenBits near(options, architecture, 2);
    emulator::take_deterministic_backwards();
    const RunOutcome gpu = train_locally(options, architecture, 2, 2);
    CHECK(emulator::take_deterministic_backwards() > 0);
    near.check_near(gpu);
    near.check_gradients(gpu);
    options.data.document_mask = Tristate::no, options.data.packing = Packing::stream;
    CHECK(train_locally(options, architecture, 2, 2).losses != gpu.losses);
  }
}

TEST_CASE("with documents apart, strategies, worlds and room for more documents leave cuDNN's bits alone") {
  const TemporaryFolder folder;
  const GpuCount gpus(2);
  Options options = options_of_documents(folder, Packing::stream);
  const Architecture architecture = model_with_heads_of_8(Family::gpt2);
  CHECK_THAT(said_by_compute(options, 1, "", architecture).description,
             Contains("attention by cuDNN 9.25.0, deterministic"));
  const RunOutcome expected = train_locally(options, architecture, 2, 2);
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero2}) {
    options.shard.strategy = strategy;
    CHECK(same_run(train_locally(options, architecture, 2, 2), expected));
  }
  options.train.accumulation = 2;
  CHECK(same_run(train_locally(options, architecture, 1, 1), expected));
  options.data.most_documents += 3;
  options.memory.checkpoint = ActivationCheckpointing::block;
  CHECK(same_run(train_locally(options, architecture, 1, 1), expected));
}

TEST_CASE("no batch has more documents than were counted") {
  const TemporaryFolder folder;
  Options options = options_of_documents(folder, Packing::stream);
  options.data.val_fraction = 0;
  options.data.order = SampleOrder::sequential;
  std::string lines;  // a document of one token each: every sample holds as many as there may be, and a late one counts
  for (int i = 0; i < 200; ++i) lines += i == 190 ? "{\"text\": \"11\"}\n" : "{\"text\": \"1\"}\n";
  options.data.source = folder.write("ones.jsonl", lines).string();
  options.data.separator = "none";
  CHECK(documents_in(options) == 12);
  options.data.most_documents = 12;
  const Architecture architecture = model_with_heads_of_8(Family::gpt2);
  const RunOutcome run = train_locally(options, architecture, 1, 1);
  for (const double loss : run.losses) CHECK(loss == 0);  // nothing is predicted
  options.data.most_documents = 11;
  CHECK_THROWS_WITH(train_locally(options, architecture, 1, 1), Contains("more than 22 documents"));
}

TEST_CASE("a run of documents whose backward stays with own kernels has their forward, too") {
  const TemporaryFolder folder;
  const Options options = options_of_documents(folder, Packing::stream);
  const Architecture architecture = model_with_heads_of_8(Family::gpt2);
  std::string old = said_by_compute(options, 1, "", architecture).table;
  const std::string_view today = ", deterministic", then = ", its backward by own kernels (run.deterministic)";
  old.replace(old.find(today), today.size(), then);
  emulator::take_deterministic_backwards();
  CHECK_THAT(said_by_compute(options, 1, old, architecture).description,
             Contains("attention by own kernels (cuDNN 9.25.0: run.deterministic)"));
  CHECK(emulator::take_deterministic_backwards() == 0);
  emulator::set_capability(8, 0);
  std::string said = said_by_compute(options, 1, "", architecture).description;
  emulator::set_capability(9, 0);
  CHECK_THAT(said, Contains("attention by own kernels (cuDNN 9.25.0: ") && Contains("compute capability 9 or 10"));
  emulator::set_cudnn_version(91700);
  said = said_by_compute(options, 1, "", architecture).description;
  emulator::set_cudnn_version(92500);
  CHECK_THAT(said, Contains("attention by own kernels (cuDNN 9.17.0: samples of several documents need 9.18)"));
}
