// A world of threads: every rank is a thread of one process, so that layouts of many ranks run inside one test without
// a launcher. Semantics are those of runtime/comm/group.hpp; calls finish before they return.
#pragma once

#include <functional>

#include "runtime/comm/group.hpp"

namespace railyard::test {

// Runs `body` on `ranks` threads, each with its own communicator, and waits. The first exception of a rank (by number)
// is thrown here; the others are woken up.
void run_threads(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace railyard::test
