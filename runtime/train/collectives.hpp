// The run's communicator as checkpoints see it.
#pragma once

#include "runtime/checkpoint/collectives.hpp"
#include "runtime/comm/group.hpp"

namespace railyard {

class CommunicatorCollectives final : public Collectives {
 public:
  explicit CommunicatorCollectives(Communicator& communicator) : communicator_(communicator) {}
  [[nodiscard]] int rank() const override { return communicator_.rank(); }
  [[nodiscard]] int size() const override { return communicator_.size(); }
  std::vector<std::string> gather(const std::string& text) override { return communicator_.gather(text, 0); }
  std::string broadcast(const std::string& text) override { return communicator_.broadcast(text, 0); }

 private:
  Communicator& communicator_;
};

}  // namespace railyard
