// The main of tests over mpiexec: MPI is started once, rank 0 reports, failures of other ranks carry their number, and
// all ranks exit alike.

#include <algorithm>
#include <iostream>
#include <sstream>

#include "mpi_world.hpp"
#include "run_catch.hpp"

namespace {

tessera::World* the_world = nullptr;

/// Redirects std::cout during its lifetime.
class Redirect {
 public:
  explicit Redirect(std::streambuf* to) : before_(std::cout.rdbuf(to)) {}
  ~Redirect() { std::cout.rdbuf(before_); }
  Redirect(const Redirect&) = delete;
  Redirect& operator=(const Redirect&) = delete;

 private:
  std::streambuf* before_;
};

/// Runs the tests; ranks other than 0 only report failures.
int run_tests(int argc, char** argv, std::int64_t rank) {
  if (rank == 0) return tessera::test::run_catch(argc, argv);
  std::ostringstream report;
  int failed = 0;
  {
    const Redirect redirect(report.rdbuf());
    failed = tessera::test::run_catch(argc, argv);
  }
  if (failed == 0) return 0;
  std::istringstream lines(report.str());
  std::string all;
  for (std::string line; std::getline(lines, line);) all += "[rank " + std::to_string(rank) + "] " + line + "\n";
  std::cerr << all;
  return failed;
}

}  // namespace

tessera::World& tessera::test::world() { return *the_world; }

int main(int argc, char** argv) {
  tessera::World world(&argc, &argv);
  the_world = &world;
  return world.run(
      [&] {
        const std::int64_t failed = run_tests(argc, argv, world.rank());
        return static_cast<int>(std::min<std::int64_t>(world.control().maximum(failed), 1));
      },
      20);
}
