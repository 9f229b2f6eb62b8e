#include "text/pipeline.hpp"

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "tessera/base/threads.hpp"
#include "text/chat_encoder.hpp"

namespace tessera {

namespace {

/// A piece between its reading and its taking.
struct Slot {
  Piece piece;
  std::optional<EncodedPiece> result;
  std::exception_ptr failure;
};

struct Cancelled {};

class Pipeline {
 public:
  Pipeline(const SourceList& sources, const Tokenizer& tokenizer, const PieceSettings& pieces,
           const EncodeSettings& settings, PiecePlace from, int threads)
      : settings_(settings),
        most_slots_(2 * static_cast<std::size_t>(threads) + 2),
        most_bytes_(most_slots_ * 2 * static_cast<std::size_t>(pieces.piece)) {
    try {
      threads_.push_back(start_thread(
          "text read", [this, &sources, &tokenizer, &pieces, from] { read(sources, tokenizer, pieces, from); }));
      for (int i = 0; i < threads; ++i) {
        encoders_.push_back(tokenizer.encoder());
        chats_.push_back(std::make_unique<ChatEncoder>(settings.chats, tokenizer, *encoders_.back()));
      }
      for (std::size_t i = 0; i < encoders_.size(); ++i)
        threads_.push_back(start_thread("text encode", [this, i] { encode(*encoders_[i], *chats_[i]); }));
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Pipeline() { stop(); }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Returns the next piece; nothing after the last.
  std::optional<EncodedPiece> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return slots_.empty() ? ended_ : slots_.front().result || slots_.front().failure; });
    if (slots_.empty() && read_failure_) std::rethrow_exception(read_failure_);
    if (slots_.empty()) return std::nullopt;
    Slot slot = std::move(slots_.front());
    slots_.pop_front();
    --next_;
    bytes_ -= slot.piece.bytes.size();
    changed_.notify_all();
    if (slot.failure) std::rethrow_exception(slot.failure);
    return std::move(slot.result);
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  void read(const SourceList& sources, const Tokenizer& tokenizer, const PieceSettings& pieces, PiecePlace from) {
    std::exception_ptr failure;
    try {
      read_pieces(sources, tokenizer, pieces, from, [&](Piece&& piece) { add(std::move(piece)); });
    } catch (const Cancelled&) {
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    read_failure_ = failure;
    ended_ = true;
    changed_.notify_all();
  }

  void add(Piece&& piece) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return cancelled_ || slots_.empty() ||
             (slots_.size() < most_slots_ && bytes_ + piece.bytes.size() <= most_bytes_);
    });
    if (cancelled_) throw Cancelled();
    bytes_ += piece.bytes.size();
    slots_.emplace_back().piece = std::move(piece);
    changed_.notify_all();
  }

  /// A deque's elements stay where they are while others come and go at its ends.
  void encode(Tokenizer::Encoder& encoder, ChatEncoder& chats) {
    for (;;) {
      Slot* slot = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return cancelled_ || next_ < slots_.size() || ended_; });
        if (cancelled_ || next_ >= slots_.size()) return;
        slot = &slots_[next_++];
      }
      std::optional<EncodedPiece> result;
      std::exception_ptr failure;
      try {
        Piece& piece = slot->piece;
        result =
            EncodedPiece{encode_piece(piece, settings_, encoder, chats), {piece.file, piece.number + 1}, piece.taken};
      } catch (...) {
        failure = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      slot->result = std::move(result);
      slot->failure = failure;
      changed_.notify_all();
    }
  }

  const EncodeSettings& settings_;
  std::size_t most_slots_, most_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Slot> slots_;  ///< in order; the first `next_` are being encoded or done
  std::size_t next_ = 0, bytes_ = 0;
  bool ended_ = false, cancelled_ = false;
  std::exception_ptr read_failure_;  ///< behind the last piece
  std::vector<std::unique_ptr<Tokenizer::Encoder>> encoders_;
  std::vector<std::unique_ptr<ChatEncoder>> chats_;
  std::vector<std::thread> threads_;
};

}  // namespace

void encode_corpus(const SourceList& sources, const Tokenizer& tokenizer, const PieceSettings& pieces,
                   const EncodeSettings& settings, PiecePlace from, int threads,
                   const std::function<void(EncodedPiece&&)>& take) {
  Pipeline pipeline(sources, tokenizer, pieces, settings, from, threads);
  while (auto piece = pipeline.take()) take(std::move(*piece));
}

}  // namespace tessera
