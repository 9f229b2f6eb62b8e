#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tessera/backend/stream.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;

namespace {

/// A callable as a task; the callable must outlive the work.
Task task_of(std::function<void()>& work) {
  return {[](void* self, std::int64_t, Stream&) { (*static_cast<std::function<void()>*>(self))(); }, &work, 0};
}

std::unique_ptr<Stream> make(bool serial, const char* name, std::int64_t capacity = 4096) {
  return serial ? make_serial_stream(name) : make_host_stream(name, capacity);
}

}  // namespace

TEST_CASE("a stream does its work in order, whatever its capacity") {
  for (const bool serial : {true, false}) {
    for (const std::int64_t capacity : {1, 2, 7, 4096}) {
      const auto stream = make(serial, "ordered", capacity);
      std::vector<std::int64_t> seen;
      for (std::int64_t i = 0; i < 1000; ++i) {
        stream->submit(
            {[](void* self, std::int64_t i_, Stream&) { static_cast<std::vector<std::int64_t>*>(self)->push_back(i_); },
             &seen, i});
      }
      stream->synchronize();
      REQUIRE(seen.size() == 1000);
      for (std::int64_t i = 0; i < 1000; ++i) REQUIRE(seen[static_cast<std::size_t>(i)] == i);
    }
  }
}

TEST_CASE("a task is given the stream that it runs on") {
  for (const bool serial : {true, false}) {
    const auto stream = make(serial, "self");
    Stream* seen = nullptr;
    stream->submit({[](void* self, std::int64_t, Stream& on) { *static_cast<Stream**>(self) = &on; }, &seen, 0});
    stream->synchronize();
    REQUIRE(seen == stream.get());
    REQUIRE(stream->native() == nullptr);
  }
}

TEST_CASE("a serial stream works on the calling thread, a host stream on its own") {
  std::thread::id id;
  std::function<void()> note = [&] { id = std::this_thread::get_id(); };
  const auto serial = make_serial_stream("serial");
  serial->submit(task_of(note));
  REQUIRE(id == std::this_thread::get_id());
  const auto host = make_host_stream("host");
  host->submit(task_of(note));
  host->synchronize();
  REQUIRE(id != std::this_thread::get_id());
}

TEST_CASE("events order two streams, generation after generation") {
  for (const bool serial : {true, false}) {
    const auto producer = make(serial, "producer", 8), consumer = make(serial, "consumer", 8);
    const auto made = make_host_event(), taken = make_host_event();
    std::int64_t box = 0, wrong = 0;  // not atomic: only the events order the accesses
    struct Shared {
      std::int64_t *box, *wrong;
    } shared{&box, &wrong};
    for (std::int64_t i = 1; i <= 5000; ++i) {
      producer->wait(*taken);
      producer->submit({[](void* s, std::int64_t n, Stream&) { *static_cast<Shared*>(s)->box = n; }, &shared, i});
      producer->record(*made);
      consumer->wait(*made);
      consumer->submit({[](void* s, std::int64_t n, Stream&) {
                          auto* const both = static_cast<Shared*>(s);
                          if (*both->box != n) ++*both->wrong;
                        },
                        &shared, i});
      consumer->record(*taken);
    }
    consumer->synchronize();
    producer->synchronize();
    REQUIRE(wrong == 0);
    REQUIRE(box == 5000);
  }
}

TEST_CASE("an event that was never recorded holds nobody up") {
  const auto event = make_host_event();
  event->synchronize();
  const auto stream = make_host_stream("free");
  stream->wait(*event);
  stream->synchronize();
}

TEST_CASE("a wait means the record that was last when it was submitted") {
  const auto first = make_host_stream("first"), second = make_host_stream("second");
  const auto event = make_host_event();
  std::atomic<bool> go{false}, ran{false};
  first->record(*event);
  second->wait(*event);
  std::function<void()> hold = [&] {
    while (!go) std::this_thread::yield();
  };
  std::function<void()> note = [&] { ran = true; };
  first->submit(task_of(hold));
  first->record(*event);  // a later generation, which is still held up, does not matter to the wait above
  second->submit(task_of(note));
  second->synchronize();
  REQUIRE(ran);
  go = true;
  first->synchronize();
}

TEST_CASE("what work throws surfaces at synchronize, skips what follows, and is then forgotten") {
  for (const bool serial : {true, false}) {
    const auto stream = make(serial, "failing"), other = make(serial, "other");
    const auto event = make_host_event();
    int after = 0, dependent = 0;
    std::function<void()> fail = [] { throw std::runtime_error("broken work"); };
    std::function<void()> count = [&] { ++after; };
    std::function<void()> depend = [&] { ++dependent; };
    stream->submit(task_of(fail));
    stream->submit(task_of(count));
    stream->record(*event);
    other->wait(*event);
    other->submit(task_of(depend));
    REQUIRE_THROWS_WITH(event->synchronize(), "broken work");
    REQUIRE_THROWS_WITH(other->synchronize(), "broken work");
    REQUIRE_THROWS_WITH(stream->synchronize(), "broken work");
    REQUIRE(after == 0);
    REQUIRE(dependent == 0);

    stream->submit(task_of(count));
    stream->record(*event);
    other->wait(*event);
    other->submit(task_of(depend));
    REQUIRE_NOTHROW(other->synchronize());
    REQUIRE_NOTHROW(event->synchronize());
    REQUIRE_NOTHROW(stream->synchronize());
    REQUIRE(after == 1);
    REQUIRE(dependent == 1);
  }
}

TEST_CASE("a stream counts the time that its work waits") {
  const auto stream = make_host_stream("waiting"), other = make_host_stream("other");
  const auto event = make_host_event();
  std::atomic<bool> go{false};
  std::function<void()> hold = [&] {
    while (!go) std::this_thread::yield();
  };
  other->submit(task_of(hold));
  other->record(*event);
  stream->wait(*event);
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  go = true;
  stream->synchronize();
  REQUIRE(stream->waited_ns() > 0);
  REQUIRE(other->waited_ns() == 0);
}

TEST_CASE("a stream finishes its work before it goes away") {
  int done = 0;
  std::function<void()> count = [&] { ++done; };
  {
    const auto stream = make_host_stream("ending");
    for (int i = 0; i < 100; ++i) stream->submit(task_of(count));
  }
  REQUIRE(done == 100);
}

TEST_CASE("an event of another device and an event torn between streams are refused") {
  struct Foreign final : Event {
    void synchronize() override {}
    bool is_reached() override { return true; }
  } foreign;
  const auto stream = make_host_stream("host"), second = make_host_stream("second");
  REQUIRE_THROWS_AS(stream->record(foreign), InternalError);
  const auto event = make_host_event();
  std::atomic<bool> go{false};
  std::function<void()> hold = [&] {
    while (!go) std::this_thread::yield();
  };
  stream->submit(task_of(hold));
  stream->record(*event);
  REQUIRE_THROWS_AS(second->record(*event), InternalError);
  go = true;
  stream->synchronize();
  REQUIRE_NOTHROW(second->record(*event));
  second->synchronize();
}
