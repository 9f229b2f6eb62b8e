#pragma once
// The notice of ranks that are threads.

#include "comm/notice_block.hpp"

namespace tessera {

class BlockNotice final : public FailureNotice {
 public:
  explicit BlockNotice(NoticeBlock& block) : block_(block) {}
  bool raise(const Failure& failure) override { return block_.write(failure); }
  bool raised() override { return block_.is_raised(); }
  Failure failure() override { return block_.read(); }

 private:
  NoticeBlock& block_;
};

}  // namespace tessera
