// What a checkpoint needs of the ranks that write it together. The trainer adapts its communicator to this.
#pragma once

#include <string>
#include <vector>

namespace railyard {

// Calls are collective: all ranks make the same ones in the same order, from the thread that owns the object.
class Collectives {
 public:
  virtual ~Collectives() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // On rank 0 the texts of all ranks in their order, elsewhere nothing. Texts may hold any bytes and differ in length.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
  // Rank 0's text, on all ranks.
  virtual std::string broadcast(const std::string& text) = 0;
};

// A program of one process.
class SingleProcess final : public Collectives {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  std::vector<std::string> gather(const std::string& text) override { return {text}; }
  std::string broadcast(const std::string& text) override { return text; }
};

}  // namespace railyard
