// Reports broken invariants.
#include "runtime/base/error.hpp"

namespace railyard {

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw std::logic_error(
      fmt::format("internal error at {}:{}: {}{}{}", file, line, condition, message.empty() ? "" : ": ", message));
}

}  // namespace railyard
