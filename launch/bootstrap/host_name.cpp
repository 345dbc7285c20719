// The name of this host.
#include <unistd.h>

#include "launch/bootstrap/bootstrap.hpp"

namespace railyard::launch {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace railyard::launch
