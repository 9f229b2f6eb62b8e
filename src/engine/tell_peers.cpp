#include "tessera/engine/tell_peers.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

void tell_peers(RankContext& context) {
  FailureNotice& notice = context.notice();
  const std::int64_t rank = context.rank();
  try {
    throw;
  } catch (const PeerError&) {
    return;  // they know already
  } catch (const Error& error) {
    notice.raise({rank, error.code(), error.what()});
  } catch (const std::exception& error) {
    notice.raise({rank, ExitCode::internal, error.what()});
  } catch (...) {
    notice.raise({rank, ExitCode::internal, "an exception of unknown type"});
  }
}

}  // namespace tessera
