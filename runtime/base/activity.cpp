// The board's page and its sequence count.
#include "runtime/base/activity.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "runtime/base/error.hpp"

namespace railyard {
namespace {

constexpr std::uint64_t kMagic = 0x3159544956544341;  // "ACTIVTY1"
constexpr std::size_t kPageBytes = 4096;
constexpr int kLooks = 1000;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

template <std::size_t N>
void put(std::array<char, N>& field, std::string_view text) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::memcpy(field.data(), text.data(), length);
  std::memset(field.data() + length, 0, N - length);
}

template <std::size_t N>
std::string take(const std::array<char, N>& field) {
  return {field.data(), strnlen(field.data(), N)};
}

}  // namespace

struct ActivityBoard::Record {
  std::uint64_t magic = kMagic;
  std::int64_t pid = 0, rank = 0, gpu = -1, step = 0, phase_since = 0, waiting_since = 0;
  std::uint64_t kind = 0;
  std::array<char, 64> host{};
  std::array<char, 128> phase{};
  std::array<char, 192> waiting{};
};

// The record as words, so that a reader of another process never sees torn ones.
struct ActivityBoard::Page {
  static constexpr std::size_t kWords = sizeof(Record) / sizeof(std::uint64_t);
  static_assert(sizeof(Record) % sizeof(std::uint64_t) == 0);
  std::atomic<std::uint64_t> sequence{0};  // odd while it is being written
  std::array<std::atomic<std::uint64_t>, kWords> words{};

  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  void write(const Record& record) {
    const auto plain = std::bit_cast<std::array<std::uint64_t, kWords>>(record);
    sequence.fetch_add(1, std::memory_order_acq_rel);
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t i = 0; i < kWords; ++i) words[i].store(plain[i], std::memory_order_relaxed);
    sequence.fetch_add(1, std::memory_order_release);
  }
  [[nodiscard]] std::optional<Record> read() const {
    for (int look = 0; look < kLooks; ++look) {
      const std::uint64_t before = sequence.load(std::memory_order_acquire);
      std::array<std::uint64_t, kWords> plain;
      for (std::size_t i = 0; i < kWords; ++i) plain[i] = words[i].load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      // A writer that died in the middle leaves an odd count for ever: what it wrote last is still worth showing.
      const bool settled = before % 2 == 0 && sequence.load(std::memory_order_relaxed) == before;
      if (!settled && look + 1 < kLooks) continue;
      return std::bit_cast<Record>(plain);
    }
    return std::nullopt;
  }
};

namespace {

Activity told(const auto& record) {
  Activity activity;
  activity.owner = {static_cast<int>(record.rank), static_cast<int>(record.gpu), take(record.host)};
  activity.pid = static_cast<long>(record.pid);
  activity.step = record.step;
  activity.kind = record.kind <= static_cast<std::uint64_t>(PhaseKind::kEnd) ? static_cast<PhaseKind>(record.kind)
                                                                             : PhaseKind::kStart;
  activity.phase = take(record.phase);
  activity.phase_since = static_cast<double>(record.phase_since) * 1e-9;
  activity.waiting = take(record.waiting);
  activity.waiting_since = static_cast<double>(record.waiting_since) * 1e-9;
  return activity;
}

}  // namespace

ActivityBoard::ActivityBoard() : own_(std::make_unique<Page>()), page_(own_.get()) {
  Record record;
  record.pid = getpid();
  record.phase_since = now_ns();
  page_->write(record);
}

ActivityBoard::ActivityBoard(const std::filesystem::path& file, const ActivityOwner& owner) : file_(file) {
  static_assert(sizeof(Page) <= kPageBytes);
  unlink(file.c_str());  // an earlier start's
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) throw RunError("{}: cannot be made: {}", file.string(), std::strerror(errno));
  // Allocated now: a full /dev/shm found out by a later store would be a bus error.
  const int full = posix_fallocate(descriptor, 0, static_cast<off_t>(kPageBytes));
  void* memory = full == 0 ? mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) : MAP_FAILED;
  const int problem = full != 0 ? full : errno;
  close(descriptor);
  if (memory == MAP_FAILED) {
    unlink(file.c_str());
    throw RunError("{}: cannot be used: {}", file.string(), std::strerror(problem));
  }
  page_ = new (memory) Page;
  Record record;
  record.pid = getpid();
  record.rank = owner.rank;
  record.gpu = owner.gpu;
  put(record.host, owner.host);
  record.phase_since = now_ns();
  page_->write(record);
}

ActivityBoard::~ActivityBoard() {
  if (own_) return;
  munmap(page_, kPageBytes);
  unlink(file_.c_str());
}

template <class Change>
void ActivityBoard::change(const Change& change) {
  const std::lock_guard guard(mutex_);
  Record record = *page_->read();
  change(record);
  page_->write(record);
}

void ActivityBoard::set_step(std::int64_t completed) {
  change([&](Record& record) { record.step = completed; });
}

void ActivityBoard::set_phase(PhaseKind kind, std::string_view text) {
  change([&](Record& record) {
    record.kind = static_cast<std::uint64_t>(kind);
    record.phase_since = now_ns();
    put(record.phase, text);
  });
}

void ActivityBoard::begin_wait(std::string_view operation) {
  change([&](Record& record) {
    record.waiting_since = wait_began_ = now_ns();
    put(record.waiting, operation);
  });
}

void ActivityBoard::end_wait() {
  change([&](Record& record) {
    if (wait_began_ != 0) waited_ += static_cast<double>(now_ns() - wait_began_) * 1e-9;
    wait_began_ = record.waiting_since = 0;
    put(record.waiting, {});
  });
}

double ActivityBoard::waited() const {
  const std::lock_guard guard(mutex_);
  return waited_;
}

Activity ActivityBoard::look() const {
  const std::lock_guard guard(mutex_);
  return told(*page_->read());
}

std::optional<Activity> ActivityBoard::read_page(const void* page) {
  const auto record = static_cast<const Page*>(page)->read();
  if (!record || record->magic != kMagic) return std::nullopt;
  return told(*record);
}

std::optional<Activity> read_activity(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  struct stat status {};
  const bool whole =
      fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == static_cast<off_t>(kPageBytes);
  void* memory = whole ? mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, descriptor, 0) : MAP_FAILED;
  close(descriptor);
  if (memory == MAP_FAILED) return std::nullopt;
  std::optional<Activity> activity = ActivityBoard::read_page(memory);
  munmap(memory, kPageBytes);
  return activity;
}

}  // namespace railyard
