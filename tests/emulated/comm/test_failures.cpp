// Failures between GPUs: shared GPUs, calls that differ, hosts that fail between the copies, NCCL that fails.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "cuda/comm/nccl/nccl_abi.hpp"
#include "emulated/comm/device_collectives.hpp"
#include "gpu_emulator/libraries/nccl/nccl.hpp"
#include "gpu_emulator/runtime/enqueue.hpp"
#include "tessera/cuda/launch.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

DeviceCommSettings small(CommBackend backend, double timeout_seconds = 60) {
  DeviceCommSettings settings;
  settings.comm.backend = backend;
  settings.timeout_seconds = timeout_seconds;
  settings.largest_full = 4096;
  settings.largest_result = 4096;
  return settings;
}

/// What each of two ranks has.
struct Two {
  RankContext& context;
  DeviceCommBackend& backend;
  Communicator& group;
  Stream& stream;
  std::byte* shared;

  bool is_first() const { return context.rank() == 0; }
  void gather(std::int64_t elements = 16) { group.all_gather(stream, shared, elements, DType::fp32); }
};

/// Waits to be ended: longer than any time-out here.
void stay() { std::this_thread::sleep_for(std::chrono::seconds(20)); }

/// Runs body(two) on two ranks with a communicator each.
template <class Body>
void with_two(const DeviceCommSettings& settings, Body&& body, int devices = 2) {
  emulator::set_device_count(devices);
  run_ranks(2, 2, [&](RankContext& context) {
    const auto device = make_cuda_device(static_cast<int>(context.rank()) % devices);
    const auto backend = make_device_comm_backend(context, *device, settings);
    const auto shared = backend->allocate_shared(4096);
    const auto stream = device->make_stream("gather");
    const auto communicator = backend->open(ProcessGrid(2, 2, 2), Group::world, "test", 4096);
    Two two{context, *backend, *communicator, *stream, shared->data()};
    body(two);
  });
}

/// Has the process say, before it ends, whether it waited in vain.
void say_whether_it_waited(RankContext& context) {
  context.notice().set_last_words([](const CommunicationError& why) {
    std::fputs(dynamic_cast<const TimeoutError*>(&why) != nullptr ? "It waited. " : "It failed. ", stderr);
  });
}

/// Runs a hidden test case of this binary in another process. Returns its exit code and its stderr.
std::pair<int, std::string> in_child(const char* test) {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(pipe_ends[1], 2);
    close(pipe_ends[0]);
    execl("/proc/self/exe", "test_emulated_comm", test, static_cast<char*>(nullptr));
    _exit(98);
  }
  close(pipe_ends[1]);
  std::string text;
  char piece[512];
  for (ssize_t got = 0; (got = read(pipe_ends[0], piece, sizeof piece)) > 0;) {
    text.append(piece, static_cast<std::size_t>(got));
  }
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

}  // namespace

TEST_CASE("NCCL is refused where ranks share a GPU, and the message names what to do") {
  const auto run = [](CommBackend backend) {
    with_two(
        small(backend), [](Two&) {}, 1);
  };
  CHECK_THROWS_WITH(run(CommBackend::automatic),
                    Catch::Contains("ranks 0 and 1 share a GPU") && Catch::Contains("comm.backend = staged"));
  CHECK_NOTHROW(run(CommBackend::staged));
}

TEST_CASE("a backend says what it is") {
  with_two(small(CommBackend::automatic), [](Two& two) {
    CHECK(two.backend.backend() == CommBackend::nccl);
    CHECK_THAT(two.backend.description(), Catch::Contains("NCCL 2.") && Catch::Contains("fixed tree"));
    CHECK(two.backend.device_bytes() >= 4096);
  });
  with_two(small(CommBackend::staged), [](Two& two) {
    CHECK(two.backend.backend() == CommBackend::staged);
    CHECK(two.backend.pinned_bytes() >= 8192);
  });
}

TEST_CASE("calls of NCCL block, whatever the environment says") {
  setenv("NCCL_COMM_BLOCKING", "0", 1);
  std::array<std::string, 2> described;
  with_two(small(CommBackend::nccl), [&](Two& two) {
    two.backend.warm_up(two.stream);
    described[static_cast<std::size_t>(two.context.rank())] = two.backend.description();
  });
  CHECK_THAT(described[0] + described[1], Catch::Contains("NCCL_COMM_BLOCKING=1 instead of 0 set here"));
  unsetenv("NCCL_COMM_BLOCKING");
}

TEST_CASE("comm.emulate needs the staged backend") {
  auto settings = small(CommBackend::nccl);
  settings.comm.emulate.latency = 1e-3;
  CHECK_THROWS_WITH(with_two(settings, [](Two&) {}), Catch::Contains("comm.emulate"));
  settings.comm.backend = CommBackend::staged;
  with_two(settings, [](Two& two) {
    two.group.barrier(two.stream);
    two.group.broadcast(two.stream, nullptr, 0, 0);
    two.stream.synchronize();
    two.backend.check();
    CHECK(two.group.count(Collective::broadcast).seconds >= 1e-3);
  });
}

TEST_CASE("ranks in different collectives are told apart") {
  const auto run = [](CommBackend kind) {
    with_two(small(kind), [](Two& two) {
      two.gather(two.is_first() ? 16 : 32);
      try {
        two.stream.synchronize();
      } catch (const std::exception&) {  // a real GPU's stream would not know
      }
      two.backend.check();
    });
  };
  CHECK_THROWS_AS(run(CommBackend::staged), CommunicationError);
  CHECK_THROWS_AS(run(CommBackend::nccl), CommunicationError);
}

TEST_CASE("a staged collective that fails frees the device's stream and is thrown by check") {
  std::promise<void> told;  // a rank that left would be another failure
  const auto rank_0_ends = told.get_future().share();
  CHECK_THROWS_WITH(with_two(small(CommBackend::staged, 0.2),
                             [&](Two& two) {
                               if (!two.is_first()) return rank_0_ends.wait();
                               try {
                                 two.gather();
                                 two.stream.synchronize();
                                 two.backend.check();
                               } catch (...) {
                                 told.set_value();
                                 throw;
                               }
                               told.set_value();
                             }),
                    Catch::Contains("did not arrive within 0.2 s"));
}

TEST_CASE("a collective that does not fit is refused before it is staged") {
  CHECK_THROWS_WITH(with_two(small(CommBackend::staged), [](Two& two) { two.gather(4096); }),
                    Catch::Contains("is staged in"));
}

TEST_CASE("child: NCCL fails", "[.]") {
  with_two(small(CommBackend::nccl), [](Two& two) {
    say_whether_it_waited(two.context);
    emulator::fail_nccl_operation(3);
    for (int i = 0; i < 4; ++i) two.gather();
    two.stream.synchronize();
  });
}

TEST_CASE("an asynchronous error of NCCL ends the process with exit code 5 and one line") {
  const auto [code, text] = in_child("child: NCCL fails");
  CHECK(code == 5);
  CHECK_THAT(text, Catch::Contains("NCCL failed on 'world/test'") && Catch::Contains("It failed."));
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
}

TEST_CASE("child: a rank does not come", "[.]") {
  with_two(small(CommBackend::nccl, 1), [](Two& two) {
    say_whether_it_waited(two.context);
    if (two.is_first()) two.gather();
    stay();
  });
}

TEST_CASE("a rank that does not come ends the process within the time-out") {
  const auto [code, text] = in_child("child: a rank does not come");
  CHECK(code == 5);
  CHECK_THAT(text, Catch::Contains("It waited."));
  CHECK_THAT(text, Catch::Contains("all_gather of 16 fp32 a rank on 'world/test' did not end within 1 s"));
}

TEST_CASE("child: a rank does not come to the last of many", "[.]") {
  with_two(small(CommBackend::nccl, 1), [](Two& two) {
    const int calls = two.is_first() ? 100 : 90;
    for (int i = 0; i < calls; ++i) two.gather();
    stay();
  });
}

TEST_CASE("a rank that does not come to the last of many collectives ends the process too") {
  const auto [code, text] = in_child("child: a rank does not come to the last of many");
  CHECK(code == 5);
  CHECK_THAT(text, Catch::Contains("did not end within 1 s"));
}

TEST_CASE("child: a rank does not connect", "[.]") {
  with_two(small(CommBackend::nccl, 1), [](Two& two) {
    emulator::connect_in_nccl_calls();
    if (two.is_first()) two.gather();
    stay();
  });
}

TEST_CASE("a call of NCCL that waits for a rank ends the process within the time-out") {
  const auto [code, text] = in_child("child: a rank does not connect");
  CHECK(code == 5);
  CHECK_THAT(text, Catch::Contains("all_gather of 16 fp32 a rank on 'world/test' did not return within 1 s"));
}

TEST_CASE("child: a rank does not warm up", "[.]") {
  with_two(small(CommBackend::nccl, 1), [](Two& two) {
    if (two.is_first()) two.backend.warm_up(two.stream);
    stay();
  });
}

TEST_CASE("first collectives that wait for a rank end the process within the time-out") {
  const auto [code, text] = in_child("child: a rank does not warm up");
  CHECK(code == 5);
  CHECK_THAT(text, Catch::Contains("the first collectives of NCCL did not return within 1 s"));
}

TEST_CASE("a rank that fails outside of collectives does not wait for its peers at NCCL's end") {
  const auto fail = [](Two& two) {
    if (two.is_first()) throw IoError("the disk is full");
    two.context.control().barrier();
  };
  CHECK_THROWS_WITH(with_two(small(CommBackend::nccl, 5), fail), "the disk is full");
}

TEST_CASE("child: the driver is stuck", "[.]") {
  with_two(small(CommBackend::nccl, 1), [](Two& two) {
    say_whether_it_waited(two.context);
    emulator::stick_driver();
    two.gather();
    stay();
  });
}

TEST_CASE("a driver that does not answer cannot keep the process alive") {
  const auto start = std::chrono::steady_clock::now();
  const auto [code, text] = in_child("child: the driver is stuck");
  CHECK(code == 5);
  CHECK_THAT(text, Catch::Contains("all_gather of 16 fp32") &&
                       Catch::Contains("the driver of the GPU does not answer") && Catch::Contains("It failed."));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(15));
}

TEST_CASE("child: the GPU fails", "[.]") {
  with_two(small(CommBackend::nccl), [](Two& two) {
    emulator::enqueue(cuda_stream(two.stream), [] { throw std::runtime_error("an illegal address"); });
    two.gather();
    stay();
  });
}

TEST_CASE("a GPU that fails ends the process with CUDA's words, not as a rank that is late") {
  const auto [code, text] = in_child("child: the GPU fails");
  CHECK(code == 5);
  CHECK_THAT(text, Catch::Contains("the GPU failed before all_gather of 16 fp32") &&
                       Catch::Contains("cudaErrorLaunchFailure") && !Catch::Contains("did not end"));
}

TEST_CASE("child: the watchdog does not come to its GPU", "[.]") {
  emulator::set_device_count(2);
  run_ranks(2, 2, [](RankContext& context) {
    const auto device = make_cuda_device(static_cast<int>(context.rank()));
    context.control().barrier();
    emulator::set_device_count(1);  // for threads to come
    const auto backend = make_device_comm_backend(context, *device, small(CommBackend::nccl));
    stay();
  });
}

TEST_CASE("a watchdog that fails ends the process with one line") {
  const auto [code, text] = in_child("child: the watchdog does not come to its GPU");
  CHECK(code == 5);
  CHECK_THAT(text, Catch::Contains("nothing watches NCCL any more: cudaSetDevice"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
}

TEST_CASE("child: a peer fails and ends nothing", "[.]") {
  with_two(small(CommBackend::nccl, 15), [](Two& two) {
    if (two.is_first()) {
      two.gather();
    } else {
      two.context.notice().raise({1, ExitCode::input_output, "the disk is full"});
    }
    stay();
  });
}

TEST_CASE("a rank behind a peer that failed ends with the peer's exit code") {
  const auto [code, text] = in_child("child: a peer fails and ends nothing");
  CHECK(code == 4);
  CHECK_THAT(text, !Catch::Contains("did not end within"));
}

TEST_CASE("child: a rank fails that waits for its peer", "[.]") {
  with_two(small(CommBackend::nccl, 15), [](Two& two) {
    if (two.is_first()) {
      two.gather();
      two.context.notice().raise({0, ExitCode::input_output, "the disk is full"});
    }
    stay();
  });
}

TEST_CASE("a rank that fails while a collective does not end says why") {
  const auto [code, text] = in_child("child: a rank fails that waits for its peer");
  CHECK(code == 4);
  CHECK_THAT(text, Catch::Contains("the disk is full"));
}

TEST_CASE("child: a rank fails outside of its collectives", "[.]") {
  with_two(small(CommBackend::nccl, 15), [](Two& two) {
    const auto gather_after = [&](std::chrono::milliseconds pause) {
      emulator::enqueue(cuda_stream(two.stream), [pause] { std::this_thread::sleep_for(pause); });
      two.gather();
    };
    gather_after(std::chrono::milliseconds(1500));
    two.stream.synchronize();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (two.is_first()) two.context.notice().raise({0, ExitCode::input_output, "the disk is full"});
    // Work is under way for longer than a rank waits that is left behind, and then ends as seldom as it did
    // before.
    for (int i = 0; i < 30; ++i) gather_after(std::chrono::milliseconds(50));
    for (int i = 0; i < 2; ++i) gather_after(std::chrono::milliseconds(800));
    two.stream.synchronize();
    std::fputs("They went on. ", stderr);
  });
}

TEST_CASE("ranks go on while their collectives end, although one has failed, and end by themselves") {
  const auto [code, text] = in_child("child: a rank fails outside of its collectives");
  CHECK(code == 0);
  CHECK_THAT(text, Catch::Contains("They went on."));
}

TEST_CASE("child: a rank does not replay its graph", "[.]") {
  with_two(small(CommBackend::nccl, 1), [](Two& two) {
    const auto device = make_cuda_device(static_cast<int>(two.context.rank()));
    two.backend.warm_up(two.stream);
    device->begin_capture(two.stream);
    two.gather();
    const auto graph = device->end_capture(two.stream);
    if (two.is_first()) {
      graph->launch(two.stream);
      two.backend.watch_until_done(two.stream, "the graph of a step");
    }
    stay();
  });
}

TEST_CASE("a graph that waits for a rank ends the process within the time-out") {
  const auto [code, text] = in_child("child: a rank does not replay its graph");
  CHECK(code == 5);
  CHECK_THAT(text, Catch::Contains("the graph of a step did not end within 1 s"));
}

TEST_CASE("child: a communicator ends before its graph", "[.]") {
  std::array<std::unique_ptr<DeviceGraph>, 2> graphs;
  with_two(small(CommBackend::nccl), [&](Two& two) {
    const auto device = make_cuda_device(static_cast<int>(two.context.rank()));
    two.backend.warm_up(two.stream);
    device->begin_capture(two.stream);
    two.gather();
    graphs[static_cast<std::size_t>(two.context.rank())] = device->end_capture(two.stream);
  });
}

TEST_CASE("the emulated NCCL notices a communicator that ends before its graphs") {
  const auto [code, text] = in_child("child: a communicator ends before its graph");
  CHECK(code != 0);
  CHECK_THAT(text, Catch::Contains("ends before the graphs"));
}

TEST_CASE("child: NCCL does not start", "[.]") {
  emulator::set_device_count(2);
  run_ranks(2, 2, [](RankContext& context) {
    const auto device = make_cuda_device(static_cast<int>(context.rank()));
    const auto backend = make_device_comm_backend(context, *device, small(CommBackend::nccl, 1));
    const ProcessGrid grid(2, 2, 2);
    if (context.rank() == 0) {
      const auto group = backend->open(grid, Group::world, "test", 0);
    } else {  // takes the id and does not come
      ControlPlane plane = context.control().part({0, 1});
      ncclUniqueId id;
      plane.broadcast(std::as_writable_bytes(std::span(id.internal)), 0);
      stay();
    }
  });
}

TEST_CASE("a start of NCCL that hangs ends the process within the time-out") {
  const auto [code, text] = in_child("child: NCCL does not start");
  CHECK(code == 5);
  CHECK_THAT(text, Catch::Contains("the start of NCCL on 'world/test' did not return within 1 s"));
}
