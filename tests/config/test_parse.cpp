#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "config/check.hpp"
#include "tessera/config/options.hpp"
#include "tessera/config/settings.hpp"

using namespace tessera;
using Catch::Contains;

namespace {
std::string file_error(const std::string& text) {
  return usage_message([&] { parse_text(text, "a.ini"); });
}
}  // namespace

TEST_CASE("Values are read by their type") {
  const auto o = parse_text(
      "[run]\nname = \"a # b\\\"\\\\ \"\ndir = out#1\ntimeout = 2min\n[comm]\nemulate = 1ms, "
      "2GB/s\n[plan]\nmemory=24GiB\n"
      "[ optim ]\nlr = 3e-4 # trailing\n[run]\nqueues = chaos\ndeterministic = false\n",
      "a.ini");
  CHECK(o.run.name == "a # b\"\\ ");
  CHECK(o.run.dir == "out#1");
  CHECK(o.run.timeout == 120.0);
  CHECK(o.comm.emulate == Emulation{0.001, 2e9});
  CHECK(o.plan.memory == 24LL << 30);
  CHECK(o.optim.lr == 3e-4);
  CHECK(o.run.queues == QueueMode::chaos);
  CHECK(o.run.deterministic == Tristate::no);
  CHECK(parse_arguments({"--comm.emulate=0.5,1000"}).comm.emulate == Emulation{0.5, 1000.0});
  CHECK(parse_arguments({"--comm.emulate=none"}).comm.emulate.on() == false);
  CHECK(parse_arguments({"--run.timeout=00:01:30"}).run.timeout == 90.0);
}

TEST_CASE("A ~ at the beginning of a path is the home folder") {
  const std::string home = std::getenv("HOME");
  CHECK(parse_arguments({"--run.dir=~/x"}).run.dir == home + "/x");
  CHECK(parse_text("[model]\nfrom = ~\n", "a.ini").model.from == home);
  CHECK(parse_arguments({"--run.dir=a~/x"}).run.dir == "a~/x");
}

TEST_CASE("The command line wins, its last word most, and what was given is known") {
  const auto o =
      parse_text("[train]\nsteps = 5\n", "a.ini", {"--train.steps=6", "--train.steps", "7", "--optim.lr=0.5"});
  CHECK(o.train.steps == 7);
  CHECK(o.is_given("train.steps"));
  CHECK(o.is_given("optim.lr"));
  CHECK_FALSE(o.is_given("optim.clip"));
  CHECK(parse_arguments({"--model.from="}).model.from.empty());
  CHECK(parse_arguments({"--run.dir", "-odd"}).run.dir == "-odd");
}

TEST_CASE("A value that an earlier run had is not given, unless the option was") {
  Options options = parse_arguments({"--train.seq_len=0"});
  take({"train.seq_len", "64", "the checkpoint"}, options);
  take({"optim.lr", "0.25", "the checkpoint"}, options);
  CHECK((options.train.seq_len == 64 && options.optim.lr == 0.25));
  CHECK((options.is_given("train.seq_len") && !options.is_given("optim.lr")));
  CHECK_THROWS_WITH(take({"optim.lr", "fast", "the checkpoint"}, options), Contains("the checkpoint: optim.lr"));
}

TEST_CASE("Counts may have an exponent or a decimal unit, byte sizes the units that the program prints") {
  const auto steps = [](const std::string& text) { return parse_arguments({"--train.steps=" + text}).train.steps; };
  CHECK(steps("1e6") == 1'000'000);
  CHECK(steps("1e3") == 1000);
  CHECK(steps("500K") == 500'000);
  CHECK(steps("2M") == 2'000'000);
  CHECK(steps("3G") == 3'000'000'000);
  CHECK(steps("1.5K") == 1500);
  CHECK(steps("1.005K") == 1005);  // 1004.9999999999999 in doubles
  CHECK(steps("9223372036854775807") == 9223372036854775807);
  for (const std::string bad : {"1.5", "2.0", "1.5e0", "1.0005K", "1e-3", "-1K", "1k", "1 000", "1e", "K", "1e19",
                                "1e400", "9223372036854775808", "10000000000G", "0x10", "nan", "infK"}) {
    CAPTURE(bad);
    CHECK_THAT(error_of({"--train.steps=" + bad}),
               Contains("is not an allowed value. Allowed values: whole number, 1 or more"));
  }
  const auto bytes = [](const std::string& text) { return parse_arguments({"--plan.memory=" + text}).plan.memory; };
  CHECK(bytes("100kB") == 100'000);
  CHECK(bytes("100KB") == 100'000);
  CHECK(bytes("1.5GiB") == 3LL << 29);
  CHECK(bytes("59.4 MB") == 59'400'000);
}

TEST_CASE("Words are told apart as they were: quotes, signs and empty values") {
  const auto name = [](const std::vector<std::string>& words) { return parse_arguments(words).data.source; };
  CHECK(name({"--data.source=a=b"}) == "a=b");
  CHECK(name({"--data.source=a="}) == "a=");
  CHECK(name({"--data.source", "a="}) == "a=");
  CHECK(name({"--data.source", "x", "--data.source= y # z "}) == " y # z ");
  CHECK(name({"--data.source", "-"}) == "-");
  CHECK(parse_arguments({"--optim.lr", "1e-3", "--run.dir", ""}).run.dir.empty());
  CHECK_THAT(error_of({"--run.seed"}), Contains("run.seed has no value. Allowed values: whole number"));
  CHECK_THAT(error_of({"--run.seed", "-1"}), Contains("run.seed = '-1'"));
  CHECK_THAT(error_of({"--no.such="}), Contains("unknown option 'no.such'."));
  CHECK_THAT(error_of({"--=3"}), Contains("'3' is not an option"));
  CHECK_THAT(error_of({"--help=3"}), Contains("--section.key=value"));
  CHECK(parse_text("[run]\nname = a#b # c\n dir = \"x;#y\" ; z\n", "a.ini").run.name == "a#b");
  CHECK(parse_text("[run]\nname = a#b # c\n dir = \"x;#y\" ; z\n", "a.ini").run.dir == "x;#y");
  CHECK(parse_text("[run]\ndir =\n[data]\nsource = a = b\n", "a.ini").data.source == "a = b");
  CHECK_THAT(file_error(std::string("[run]\nname = a\0b\n", 17)), Contains("a.ini:2"));
}

TEST_CASE("Unknown and abbreviated names are refused with the closest name") {
  CHECK_THAT(error_of({"--shard.strat=ddp"}), Contains("unknown option 'shard.strat'") &&
                                                  Contains("did you mean shard.strategy? Names are never abbreviated"));
  CHECK_THAT(error_of({"--train.lr", "1"}), Contains("did you mean optim.lr?"));
  CHECK_THAT(error_of({"--shrad.wrap=block"}), Contains("did you mean shard.wrap?"));
  CHECK_THAT(file_error("\n[train]\nstesp = 3\n"),
             Contains("a.ini:3") && Contains("'train.stesp' = '3'") && Contains("train.steps"));
  CHECK_THAT(file_error("[sweep.vary]\nranks = 1, 2\n"),
             Contains("[sweep.vary] is of a sweep. Give the file to tessera sweep"));
  CHECK_THAT(file_error("[sweep.row a]\nranks = 1\n"),
             Contains("[sweep.row a] is of a sweep. Give the file to tessera sweep"));
  for (const auto& [given, near] :
       std::vector<std::pair<std::string, std::string>>{{"train.max_steps", "train.steps"},
                                                        {"optim.learning_rate", "optim.lr"},
                                                        {"learning_rate", "optim.lr"},
                                                        {"batch_size", "train.micro_batch"},
                                                        {"train.batch_size", "train.micro_batch"},
                                                        {"model.n_layer", "model.layers"}}) {
    CHECK_THAT(error_of({"--" + given + "=1"}), Contains("did you mean " + near + "?"));
  }
  for (const auto& [word, meant] :
       std::vector<std::pair<std::string, std::string>>{{"--bf16=true", "precision.compute?"},
                                                        {"--precision=bf16", "precision.compute?"},
                                                        {"--model=x", "model.from?"},
                                                        {"--data.path=x", "data.source?"},
                                                        {"--data=x", "data.source?"},
                                                        {"--peft.r=8", "lora.rank, lora.from"},
                                                        {"--wandb=x", "tessera-report RUN --wandb"}})
    CHECK_THAT(error_of({word}), Contains(meant));
  CHECK_THAT(error_of({"--zzzzzzzzzzzz=1"}), Contains("All options are listed by tessera help options"));
  CHECK_THAT(error_of({"train.steps=3"}), Contains("--section.key=value"));
  CHECK_THAT(error_of({"--shard.wrap"}), Contains("no value") && Contains("block|size|model"));
  CHECK_THAT(error_of({"--shard.wrap", "--run.seed=1"}), Contains("no value"));
}

TEST_CASE("Bad values name the place and what is allowed") {
  CHECK_THAT(file_error("[shard]\nstrategy = fsdp\n"),
             Contains("a.ini:2: shard.strategy = 'fsdp'") && Contains("ddp|zero1|zero2|zero3|hsdp|hsdp-zero2"));
  CHECK_THAT(error_of({"--train.micro_batch=0"}), Contains("whole number, 1 to 1048576"));
  CHECK_THAT(error_of({"--train.steps=99999999999999999999"}), Contains("whole number"));
  CHECK_THAT(error_of({"--optim.beta2=1"}), Contains("number, 0 to below 1"));
  CHECK_THAT(error_of({"--optim.lr=nan"}), Contains("number"));
  CHECK_THAT(error_of({"--optim.clip=inf"}), Contains("number, 0 or more"));
  CHECK_THAT(error_of({"--run.deterministic=yes"}), Contains("true|false"));
  CHECK_THAT(error_of({"--comm.emulate=1ms"}), Contains("latency,bandwidth"));
  CHECK_THAT(error_of({"--plan.memory=24 gibi"}), Contains("24GiB"));
  CHECK_THAT(error_of({std::string("--run.name=a\0b", 14)}), Contains("run.name = 'a\\x00b'"));
  CHECK_THAT(error_of({"--data.source=\xff"}), Contains("\\xff"));
}

TEST_CASE("A missing INI file is a usage error, a file is read") {
  CHECK_THAT(usage_message([] { resolve("no/such.ini", {}); }), Contains("no/such.ini") && Contains("does not exist"));
  CHECK_THAT(usage_message([] { resolve(".", {}); }), Contains("is a folder"));
  const auto name = std::filesystem::temp_directory_path() / ("tessera_parse_test_" + std::to_string(::getpid()));
  std::ofstream(name) << "[run]\nseed = 77\n";
  CHECK(resolve(name, {}).run.seed == 77);
  std::filesystem::remove(name);
}

TEST_CASE("The run's folder") {
  CHECK(run_folder(parse_arguments({"--run.name=x"})) == "runs/x");
  CHECK(run_folder(parse_arguments({"--run.dir=/tmp/y"})) == "/tmp/y");
  CHECK_THAT(error_of({"--run.name=../x"}), Contains("run.name"));
}
