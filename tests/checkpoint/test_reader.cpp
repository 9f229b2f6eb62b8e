// The files of a checkpoint that are opened, how many at a time, and a reader's message for an unreadable one.
#include <sys/resource.h>

#include <cerrno>

#include "checkpoint_case.hpp"
#include "file_spy.hpp"
#include "tessera/files/unreadable_error.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// Reads every element of a kind and compares.
void require_all(const CheckpointReader& reader, int threads) {
  for (std::size_t t = 0; t < reader.manifest().tensors.size(); ++t) {
    std::vector<float> values(static_cast<std::size_t>(reader.manifest().tensors[t].elements));
    const auto tensor = static_cast<std::int64_t>(t);
    const WantedRun want{StateKind::first_moment, tensor, 0, reader.manifest().tensors[t].elements, values.data()};
    reader.read({&want, 1}, threads);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != element_value(StateKind::first_moment, tensor, static_cast<std::int64_t>(i)))
        FAIL("tensor " << t << " element " << i);
    }
  }
}

/// A small limit of open files during its lifetime.
class FewFiles {
 public:
  explicit FewFiles(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    struct rlimit few = before_;
    few.rlim_cur = most;
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;

 private:
  struct rlimit before_ {};
};

}  // namespace

TEST_CASE("more shards than a process may open") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  write_checkpoint(folder, 3, 90);  // and more than stay open
  require_all(CheckpointReader(folder.of_step(3)), 3);
  const FewFiles few(20);
  require_all(CheckpointReader(folder.of_step(3)), 3);
}

TEST_CASE("only files that hold what is wanted are opened, and each rank looks at its share") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  const Manifest manifest = write_checkpoint(folder, 3, 4);
  const std::size_t other = 2;
  std::int64_t tensor = -1, first = 0;
  for (const ElementRun& one : manifest.files[0].runs) tensor = one.tensor, first = one.first;
  float value = 0;
  const WantedRun want{StateKind::parameter, tensor, first, 1, &value};
  file_spy::start();
  for (const std::size_t file : {std::size_t{1}, other, std::size_t{3}, std::size_t{4}})
    file_spy::rule("open", "step-00000003/" + manifest.files[file].name, EIO);
  CheckpointReader(folder.of_step(3)).read({&want, 1}, 1);
  file_spy::stop();
  REQUIRE(value == element_value(StateKind::parameter, tensor, first));

  std::filesystem::resize_file(folder.of_step(3) / manifest.files[other].name, 10);
  CheckpointReader(folder.of_step(3), {1, 2}).read({&want, 1}, 1);
  REQUIRE(message_of<IoError>([&] {
            CheckpointReader(folder.of_step(3), {0, 2});
          }).find("cut short") != std::string::npos);
}

TEST_CASE("what cannot be read is told from what is damaged") {
  const TemporaryFolder run;
  const CheckpointFolder folder(run / "checkpoints");
  write_checkpoint(folder, 3, 1);
  float value = 0;
  const WantedRun want{StateKind::parameter, 0, 0, 1, &value};
  const auto read = [&] { CheckpointReader(folder.of_step(3)).read({&want, 1}, 1); };
  for (const std::string name : {"shard-00000.h5", "manifest.json"}) {
    for (const int error : {EIO, ESTALE, EMFILE, ENOMEM, EACCES}) {
      file_spy::start();
      file_spy::rule("open", name, error);
      REQUIRE_THROWS_AS(read(), UnreadableError);
      file_spy::stop();
    }
  }
  read();
  std::filesystem::remove(folder.of_step(3) / "shard-00000.h5");
  try {
    read();
    FAIL("no error");
  } catch (const UnreadableError&) {
    FAIL("a missing file is damage");
  } catch (const IoError&) {
  }
}
