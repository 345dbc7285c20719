// What this process is doing, kept in a small file in shared memory: others on the node can read it while we hang, are
// stopped, or have died (`railyard status --stacks`, the launcher after a failure, the watch over file systems).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace railyard {

// What a rank waits for while it is in a phase.
enum class PhaseKind : std::uint64_t { kStart, kCompute, kFiles, kEnd };

// Who a board belongs to; long names are cut.
struct ActivityOwner {
  int rank = 0;      // logical
  int gpu = -1;      // -1: none
  std::string host;  // up to 63 bytes
};

// One look at a board. Times are seconds since 1970 by the node's clock.
struct Activity {
  ActivityOwner owner;
  long pid = 0;
  std::int64_t step = 0;  // completed updates
  PhaseKind kind = PhaseKind::kStart;
  std::string phase;  // "backward of layer 3"
  double phase_since = 0.0;
  std::string waiting;  // "all_reduce of group tp 0"; empty: in no communication
  double waiting_since = 0.0;
};

// Written by the threads of one process, without system calls; readers take no lock (a sequence count tells them when
// they have seen half of a change).
class ActivityBoard {
 public:
  // In this process's own memory: nobody else reads it.
  ActivityBoard();
  // In `file` (4 KiB, mode 0600, replaced when it is there), removed again by the destructor. RunError when it cannot
  // be made.
  ActivityBoard(const std::filesystem::path& file, const ActivityOwner& owner);
  ActivityBoard(const ActivityBoard&) = delete;
  ActivityBoard& operator=(const ActivityBoard&) = delete;
  ~ActivityBoard();

  void set_step(std::int64_t completed);
  void set_phase(PhaseKind kind, std::string_view text);
  void begin_wait(std::string_view operation);
  void end_wait();

  // Seconds that this process has spent between begin_wait and end_wait so far.
  [[nodiscard]] double waited() const;
  [[nodiscard]] Activity look() const;
  // What a board's page of another process says; nothing when it is none.
  static std::optional<Activity> read_page(const void* page);

 private:
  struct Page;
  struct Record;
  template <class Change>
  void change(const Change& change);

  mutable std::mutex mutex_;
  std::filesystem::path file_;
  std::unique_ptr<Page> own_;
  Page* page_ = nullptr;
  double waited_ = 0.0;
  std::int64_t wait_began_ = 0;
};

// Reads another process's board; nothing when `file` is none or changes all the time.
std::optional<Activity> read_activity(const std::filesystem::path& file);

}  // namespace railyard
