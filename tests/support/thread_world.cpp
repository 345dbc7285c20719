// Meeting points for threads, and groups made of them.
#include "tests/support/thread_world.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace railyard::test {
namespace {

// Raised in ranks that wait for one that has failed.
struct WorldEnded : std::runtime_error {
  WorldEnded() : std::runtime_error("another rank has failed") {}
};

// Where the ranks of one group meet. `meet` returns once all have come, with everybody's word.
class MeetingPoint {
 public:
  MeetingPoint(int size, const bool& ended, std::mutex& mutex, std::condition_variable& changed)
      : size_(size), ended_(ended), mutex_(mutex), changed_(changed), words_(static_cast<size_t>(size)) {}

  std::vector<const void*> meet(int rank, const void* word) {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    words_[static_cast<size_t>(rank)] = word;
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++round_;
      met_ = words_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != round || ended_; });
      if (round_ == round) throw WorldEnded();
    }
    return met_;
  }
  void post(int from, int to, std::vector<std::byte> message) {
    const std::lock_guard lock(mutex_);
    mail_[{from, to}].push_back(std::move(message));
    changed_.notify_all();
  }
  std::vector<std::byte> take(int from, int to) {
    std::unique_lock lock(mutex_);
    auto& queue = mail_[{from, to}];
    changed_.wait(lock, [&] { return !queue.empty() || ended_; });
    if (queue.empty()) throw WorldEnded();
    auto message = std::move(queue.front());
    queue.pop_front();
    return message;
  }
  [[nodiscard]] int size() const { return size_; }

 private:
  int size_;
  const bool& ended_;
  std::mutex& mutex_;
  std::condition_variable& changed_;
  std::vector<const void*> words_, met_;
  int arrived_ = 0;
  std::uint64_t round_ = 0;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> mail_;
};

struct World {
  explicit World(int ranks) : size(ranks), everybody(ranks, ended, mutex, changed) {}
  int size;
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  MeetingPoint everybody;
  std::map<std::pair<std::vector<int>, int>, std::shared_ptr<MeetingPoint>> groups;  // by members and occurrence

  std::shared_ptr<MeetingPoint> group(const std::vector<int>& members, int occurrence) {
    const std::lock_guard lock(mutex);
    auto& point = groups[{members, occurrence}];
    if (!point) point = std::make_shared<MeetingPoint>(static_cast<int>(members.size()), ended, mutex, changed);
    return point;
  }
};

double load(const Tensor& tensor, std::int64_t i) {
  switch (tensor.dtype) {
    case DType::kFloat32:
      return tensor.as<float>()[i];
    case DType::kFloat64:
      return tensor.as<double>()[i];
    case DType::kBFloat16:
      return bf16_to_float(tensor.as<std::uint16_t>()[i]);
    case DType::kInt64:
      return static_cast<double>(tensor.as<std::int64_t>()[i]);
    default:
      throw std::logic_error("dtype of a reduction");
  }
}
void store(const Tensor& tensor, std::int64_t i, double value) {
  switch (tensor.dtype) {
    case DType::kFloat32:
      tensor.as<float>()[i] = static_cast<float>(value);
      break;
    case DType::kFloat64:
      tensor.as<double>()[i] = value;
      break;
    case DType::kBFloat16:
      tensor.as<std::uint16_t>()[i] = float_to_bf16(static_cast<float>(value));
      break;
    case DType::kInt64:
      tensor.as<std::int64_t>()[i] = static_cast<std::int64_t>(value);
      break;
    default:
      throw std::logic_error("dtype of a reduction");
  }
}

class ThreadGroup final : public Group {
 public:
  ThreadGroup(std::shared_ptr<MeetingPoint> point, int rank, std::string name)
      : point_(std::move(point)), rank_(rank), name_(std::move(name)) {}
  int rank() const override { return rank_; }
  int size() const override { return point_->size(); }
  const std::string& name() const override { return name_; }

  Handle all_reduce(const Tensor& tensor, ReduceOp op) override {
    reduce(tensor, tensor, 0, op);
    return {};
  }
  Handle all_gather(const Tensor& part, const Tensor& gathered) override {
    const std::vector<std::byte> mine(part.as<std::byte>(), part.as<std::byte>() + part.bytes());
    const auto parts = point_->meet(rank_, mine.data());
    for (size_t r = 0; r < parts.size(); ++r)
      std::memcpy(gathered.as<std::byte>() + r * part.bytes(), parts[r], part.bytes());
    point_->meet(rank_, nullptr);
    return {};
  }
  Handle reduce_scatter(const Tensor& whole, const Tensor& part) override {
    reduce(whole, part, rank_ * part.elements(), ReduceOp::kSum);
    return {};
  }
  Handle all_to_all(const Tensor& input, const Tensor& output) override {
    const size_t block = input.bytes() / static_cast<size_t>(size());
    const auto parts = point_->meet(rank_, input.data);
    for (size_t r = 0; r < parts.size(); ++r)
      std::memcpy(output.as<std::byte>() + r * block,
                  static_cast<const std::byte*>(parts[r]) + static_cast<size_t>(rank_) * block, block);
    point_->meet(rank_, nullptr);
    return {};
  }
  Handle broadcast(const Tensor& tensor, int root) override {
    const auto parts = point_->meet(rank_, tensor.data);
    if (rank_ != root) std::memcpy(tensor.data, parts[static_cast<size_t>(root)], tensor.bytes());
    point_->meet(rank_, nullptr);
    return {};
  }
  Handle send(const Tensor& tensor, int peer) override {
    point_->post(rank_, peer, {tensor.as<std::byte>(), tensor.as<std::byte>() + tensor.bytes()});
    return {};
  }
  Handle receive(const Tensor& tensor, int peer) override {
    const auto message = point_->take(peer, rank_);
    if (message.size() != tensor.bytes()) throw std::logic_error("message of another size");
    std::memcpy(tensor.data, message.data(), message.size());
    return {};
  }

 private:
  void reduce(const Tensor& whole, const Tensor& out, std::int64_t first, ReduceOp op) {
    const auto parts = point_->meet(rank_, &whole);
    std::vector<double> sum(static_cast<size_t>(out.elements()));
    for (std::int64_t i = 0; i < out.elements(); ++i) {
      float narrow = 0.0F;  // fp32 sums in rank order, as a real library does them
      double wide = 0.0;
      for (size_t r = 0; r < parts.size(); ++r) {
        const double value = load(*static_cast<const Tensor*>(parts[r]), first + i);
        if (op == ReduceOp::kMax) {
          wide = r == 0 ? value : std::max(wide, value);
        } else {
          narrow += static_cast<float>(value);
          wide += value;
        }
      }
      const bool fp32 = op == ReduceOp::kSum && (whole.dtype == DType::kFloat32 || whole.dtype == DType::kBFloat16);
      sum[static_cast<size_t>(i)] = fp32 ? narrow : wide;
    }
    point_->meet(rank_, nullptr);
    for (std::int64_t i = 0; i < out.elements(); ++i) store(out, i, sum[static_cast<size_t>(i)]);
  }

  std::shared_ptr<MeetingPoint> point_;
  int rank_;
  std::string name_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(World& world, int rank) : world_(world), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return world_.size; }
  std::unique_ptr<Group> make_group(const std::vector<int>& ranks, const std::string& name) override {
    const auto at = std::find(ranks.begin(), ranks.end(), rank_);
    if (at == ranks.end()) throw std::logic_error("rank is not in its own group");
    return std::make_unique<ThreadGroup>(world_.group(ranks, occurrences_[ranks]++),
                                         static_cast<int>(at - ranks.begin()), name);
  }
  void barrier() override { world_.everybody.meet(rank_, nullptr); }
  std::string broadcast(const std::string& bytes, int root) override {
    const auto words = world_.everybody.meet(rank_, &bytes);
    const std::string copy = *static_cast<const std::string*>(words[static_cast<size_t>(root)]);
    barrier();
    return copy;
  }
  std::vector<std::string> gather(const std::string& bytes, int root) override {
    const auto words = world_.everybody.meet(rank_, &bytes);
    std::vector<std::string> all;
    if (rank_ == root)
      for (const void* word : words) all.push_back(*static_cast<const std::string*>(word));
    barrier();
    return all;
  }
  double all_reduce(double value, ReduceOp op) override {
    all_reduce(std::span(&value, 1), op);
    return value;
  }
  void all_reduce(std::span<double> values, ReduceOp op) override {
    const auto words = world_.everybody.meet(rank_, values.data());
    std::vector<double> result(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      for (size_t r = 0; r < words.size(); ++r) {
        const double value = static_cast<const double*>(words[r])[i];
        result[i] = r == 0 ? value : op == ReduceOp::kMax ? std::max(result[i], value) : result[i] + value;
      }
    }
    barrier();
    std::copy(result.begin(), result.end(), values.begin());
  }
  void abort(int exit_code) override { std::_Exit(exit_code); }

 private:
  World& world_;
  int rank_;
  std::map<std::vector<int>, int> occurrences_;
};

}  // namespace

void run_threads(int ranks, const std::function<void(Communicator&)>& body) {
  World world(ranks);
  std::vector<std::exception_ptr> failures(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        ThreadCommunicator communicator(world, rank);
        body(communicator);
      } catch (const WorldEnded&) {  // somebody else's failure is the one to show
      } catch (...) {
        failures[static_cast<size_t>(rank)] = std::current_exception();
        const std::lock_guard lock(world.mutex);
        world.ended = true;
        world.changed.notify_all();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace railyard::test
