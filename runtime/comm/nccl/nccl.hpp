// The NCCL communicator as the shared object hands it out.
#pragma once

#include <memory>

#include "runtime/comm/load.hpp"

namespace railyard::nccl {

// As railyard::make_nccl_communicator; RunError where NCCL is missing.
std::unique_ptr<Communicator> make_communicator(Backend& backend, Communicator& host,
                                                const CommunicatorOptions& options);

}  // namespace railyard::nccl
