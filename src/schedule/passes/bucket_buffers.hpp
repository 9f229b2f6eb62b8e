#pragma once
// Two buffers on the host through which buckets of parameters pass in turn: while one is copied to the device, the next
// one is made.

#include <array>

#include "schedule/writer.hpp"

namespace tessera {

class BucketBuffers {
 public:
  explicit BucketBuffers(Writer& writer) : w_(writer) {}

  /// Lets `op` write a bucket into the buffer whose turn it is, once the previous bucket there has been read.
  ValueId write(Operation& op, const Value& bucket) {
    const std::size_t turn = next_++ % buffers_.size();
    Buffer& buffer = buffers_[turn];
    Storage place = in_host_memory("buffer", local(fmt::format("of parameters {}", turn), Category::parameters));
    if (!buffer.storage) buffer.storage = w_.add(std::move(place));
    w_.enlarge(buffer.storage, bucket.bytes());
    if (w_.is_in_segment(buffer.reader)) op.after.push_back({buffer.reader, EdgeReason::staging});
    return w_.write(op, buffer.storage, bucket);
  }
  /// Notes the last reader of a bucket that was written.
  void read_by(OperationId reader, ValueId bucket) {
    for (Buffer& buffer : buffers_) {
      if (buffer.storage == w_.value(bucket).storage) buffer.reader = reader;
    }
  }

 private:
  struct Buffer {
    StorageId storage;
    OperationId reader;
  };

  Writer& w_;
  std::array<Buffer, 2> buffers_;
  std::size_t next_ = 0;
};

}  // namespace tessera
