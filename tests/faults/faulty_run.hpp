#pragma once
// A training run with checkpoints, on ranks as threads, in which something goes wrong, and what each rank saw of it.

#include <atomic>

#include "tessera/engine/operation_log.hpp"
#include "tessera/flight/survey.hpp"
#include "training/checkpoint_case.hpp"
#include "training/draw.hpp"

namespace tessera::testing {

/// What goes wrong, and where. Unset parts do nothing.
struct Strike {
  std::int64_t rank = 0;  ///< that it hits
  /// Called on that rank after each of its operations, with their number in this start, from 0.
  std::function<void(RankContext&, std::int64_t operation)> after_operation;
  /// Called on all ranks before each step, when all state may be read.
  std::function<void(RankContext&, TrainingSession&)> before_step;
  /// From this message of that rank on, from 0, nothing passes between it and the peer of that message. -1: all does.
  std::int64_t cut_at = -1;
};

/// How a rank ended.
struct RankEnd {
  enum class Kind : char { finished, own_error, peer_error } kind = Kind::finished;
  ExitCode code = ExitCode::finished;
  std::string said;
};

/// What a run left.
struct FaultyOutcome : Outcome {
  std::vector<RankEnd> ends;                       ///< by rank
  std::vector<std::int64_t> operations, messages;  ///< that each rank played and sent or received
  std::int64_t saved = 0;                          ///< the last step whose checkpoint was reported as complete
  std::int64_t saving = 0;                         ///< the last step whose checkpoint was begun
  std::string verdict;                             ///< of the flight recorders, when a rank gave up waiting
  std::int64_t cut_from = -1;                      ///< the rank that the link was cut to
};

/// The pair of ranks that a Strike cuts, once its message has come.
class Link {
 public:
  Link(const Strike& strike, std::int64_t world) : strike_(strike), counts_(static_cast<std::size_t>(world)) {}

  /// Notes a message; returns whether it is lost.
  bool loses(std::int64_t rank, std::int64_t peer) {
    const std::int64_t number = counts_[static_cast<std::size_t>(rank)]++;
    if (rank == strike_.rank && number == strike_.cut_at) peer_ = peer;
    const std::int64_t other = peer_;
    return other >= 0 && ((rank == strike_.rank && peer == other) || (rank == other && peer == strike_.rank));
  }
  std::int64_t peer() const { return peer_; }
  std::int64_t count(std::int64_t rank) const { return counts_[static_cast<std::size_t>(rank)]; }

 private:
  const Strike& strike_;
  std::vector<std::atomic<std::int64_t>> counts_;
  std::atomic<std::int64_t> peer_{-1};
};

class CutTransport final : public Transport {
 public:
  CutTransport(std::unique_ptr<Transport> inner, std::vector<std::int64_t> members, Link& link)
      : inner_(std::move(inner)), members_(std::move(members)), link_(link) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  MessageSlot start_send(int peer, int tag, const void* data, std::int64_t bytes) override {
    return loses(peer) ? MessageSlot{kLost} : inner_->start_send(peer, tag, data, bytes);
  }
  MessageSlot start_receive(int peer, int tag, void* data, std::int64_t bytes) override {
    return loses(peer) ? MessageSlot{kLost} : inner_->start_receive(peer, tag, data, bytes);
  }
  bool finished(MessageSlot slot) override { return slot.index != kLost && inner_->finished(slot); }
  void cancel() override { inner_->cancel(); }

 private:
  static constexpr int kLost = kSlots;
  bool loses(int peer) {
    return link_.loses(members_[static_cast<std::size_t>(rank())], members_[static_cast<std::size_t>(peer)]);
  }
  std::unique_ptr<Transport> inner_;
  std::vector<std::int64_t> members_;
  Link& link_;
};

/// A rank's context whose messages pass through a Link.
class LinkedContext final : public RankContext {
 public:
  LinkedContext(RankContext& inner, Link& link) : inner_(inner), link_(link) {}
  std::int64_t rank() const override { return inner_.rank(); }
  std::int64_t size() const override { return inner_.size(); }
  std::int64_t ranks_per_node() const override { return inner_.ranks_per_node(); }
  const std::string& host() const override { return inner_.host(); }
  const std::string& machine() const override { return inner_.machine(); }
  ControlPlane& control() override { return inner_.control(); }
  FailureNotice& notice() override { return inner_.notice(); }
  MemoryExchange& memory() override { return inner_.memory(); }
  std::unique_ptr<Transport> open_transport(const std::vector<std::int64_t>& members) override {
    return std::make_unique<CutTransport>(inner_.open_transport(members), members, link_);
  }

 private:
  RankContext& inner_;
  Link& link_;
};

/// A run of a drawn case, in its folder.
class FaultyRun {
 public:
  FaultyRun(const Drawn& drawn, const std::filesystem::path& folder, const Strike& strike)
      : drawn_(drawn), folder_(folder), strike_(strike), link_(strike, drawn.world) {
    RunShape shape = run_shape(drawn.options, {small_model(drawn.family), drawn.world, drawn.ranks_per_node});
    shape.policy.offload_bucket = drawn.bucket;
    planned_ = plan_shape(shape);
    require_verified(planned_.schedule, planned_.plan);
    const auto ranks = static_cast<std::size_t>(drawn.world);
    outcome_.ends.resize(ranks), outcome_.operations.resize(ranks), outcome_.messages.resize(ranks);
    for (auto& kind : outcome_.state) kind = empty_tensors(planned_.schedule.model);
  }

  /// Trains from the newest checkpoint on; returns when all ranks have ended.
  FaultyOutcome play() {
    std::filesystem::create_directories(folder_ / "flight");
    try {
      run_ranks(drawn_.world, drawn_.ranks_per_node, [this](RankContext& context) { run_rank(context); });
    } catch (const std::exception&) {
      // outcome_.ends has it
    }
    for (std::int64_t rank = 0; rank < drawn_.world; ++rank)
      outcome_.messages[static_cast<std::size_t>(rank)] = link_.count(rank);
    outcome_.cut_from = link_.peer();
    return std::move(outcome_);
  }

 private:
  /// Runs a rank and notes how it ends, as run_train does.
  void run_rank(RankContext& context) {
    const std::int64_t number = context.rank();
    FlightRecorder flight({folder_ / "flight", false}, number, drawn_.world, "", planned_.schedule.hash(),
                          flight_operations(planned_.schedule));
    const auto end = [&](RankEnd::Kind kind, ExitCode code, const char* said, FlightEnd how = FlightEnd::failed) {
      flight.failed(said, how);
      outcome_.ends[static_cast<std::size_t>(number)] = {kind, code, said};
    };
    try {
      LinkedContext linked(context, link_);
      train(linked, flight);
    } catch (const PeerError& error) {
      end(RankEnd::Kind::peer_error, error.code(), error.what(), FlightEnd::told);
      throw;
    } catch (const CommunicationError& error) {
      {
        const std::lock_guard lock(mutex_);
        if (outcome_.verdict.empty()) outcome_.verdict = flight_verdict(survey({folder_ / "flight"}));
      }
      const bool waited = dynamic_cast<const TimeoutError*>(&error) != nullptr;
      end(RankEnd::Kind::own_error, error.code(), error.what(), waited ? FlightEnd::gave_up : FlightEnd::failed);
      throw;
    } catch (const Error& error) {
      end(RankEnd::Kind::own_error, error.code(), error.what());
      throw;
    } catch (const std::exception& error) {
      end(RankEnd::Kind::own_error, ExitCode::internal, error.what());
      throw;
    }
  }

  void train(RankContext& context, FlightRecorder& flight) {
    const Options& options = drawn_.options;
    const StepSchedule& schedule = planned_.schedule;
    const Dataset data = open_dataset(options, schedule.model.architecture.vocab, schedule.model.sequence);
    const ResumeSettings resume{options, planned_, data, folder_, 2, [this](const std::string& line) {
                                  const std::lock_guard lock(mutex_);
                                  outcome_.said.push_back(line);
                                }};
    TrainingSession session(context, options, planned_, data, drawn_.machine, {}, state_loader(context, resume),
                            &flight);
    CheckpointSettings settings;
    settings.options = options.checkpoint;
    settings.folder = folder_ / "checkpoints";
    CheckpointWriter writer(context, session, settings);
    const WaitPhase phase(context.control().waits(), "the run trained", options.run.timeout, "run.timeout");
    if (context.rank() == 0) outcome_.first_step = session.first_step();
    std::atomic<std::int64_t> operations = 0;
    session.player().watch([&](OperationId) {
      const std::int64_t number = operations++;
      if (context.rank() == strike_.rank && strike_.after_operation) strike_.after_operation(context, number);
    });
    flight.enter(FlightPhase::step);
    try {
      for (std::int64_t step = session.first_step(); step <= session.steps(); ++step) {
        flight.set_step(step);
        train_one(context, session, writer, step);
      }
      session.check_state();
      writer.wait();
      note_saved(context, writer);
      session.player().finish_step();
    } catch (const CorruptionError&) {
      throw;  // as TrainLoop: on all ranks alike
    } catch (...) {
      writer.give_up();
      throw;
    }
    context.control().barrier();
    outcome_.operations[static_cast<std::size_t>(context.rank())] = operations;
    const std::lock_guard lock(mutex_);
    collect_state(session, outcome_);
  }

  void train_one(RankContext& context, TrainingSession& session, CheckpointWriter& writer, std::int64_t step) {
    if (strike_.before_step) {
      session.player().finish_step();
      strike_.before_step(context, session);
    }
    const StepResult& result = session.train_step();
    const bool reports = context.rank() == 0;
    if (reports) outcome_.losses[step] = result.loss;
    if (step % drawn_.options.checkpoint.every == 0) {
      if (reports) outcome_.saving = step;
      {
        const FlightScope scope(session.flight(), FlightPhase::evaluation);
        session.evaluate(1);
      }
      const FlightScope scope(session.flight(), FlightPhase::checkpoint);
      writer.begin();
    }
    note_saved(context, writer);
  }

  void note_saved(RankContext& context, CheckpointWriter& writer) {
    while (const auto report = writer.finished()) {
      if (context.rank() == 0) outcome_.saved = report->step;
    }
  }

  const Drawn& drawn_;
  std::filesystem::path folder_;
  const Strike& strike_;
  Link link_;
  PlannedRun planned_;
  std::mutex mutex_;
  FaultyOutcome outcome_;
};

}  // namespace tessera::testing
