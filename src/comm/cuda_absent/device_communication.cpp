#include "tessera/base/error.hpp"
#include "tessera/comm/device_communicators.hpp"

namespace tessera {

std::unique_ptr<DeviceCommunication> make_device_communication(RankContext&, Device&,
                                                               const DeviceCommunicationSettings&) {
  throw UsageError("GPUs cannot talk to each other (built without CUDA): a build with TESSERA_CUDA=ON");
}

std::string nccl_version() { return "none (built without CUDA)"; }

}  // namespace tessera
