// librailyard_pmix.so: the bootstrap over PMIx (the Process Management Interface standard, version 3 and later). A
// library of its own, so that the program also runs where there is no PMIx.
#include <pmix.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>

#include "launch/bootstrap/bootstrap.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

// Waits for a callback of PMIx, which comes on a thread of the library. Shared with the callback, since a callback may
// come after we have stopped waiting.
class Completion {
 public:
  void finish(pmix_status_t status, const pmix_value_t* value) {
    const std::lock_guard guard(mutex_);
    status_ = status;
    if (status == PMIX_SUCCESS && value != nullptr) {
      if (value->type == PMIX_BYTE_OBJECT && value->data.bo.bytes != nullptr)
        bytes_.assign(value->data.bo.bytes, value->data.bo.size);
      if (value->type == PMIX_STRING) bytes_ = value->data.string;
    }
    done_.notify_all();
  }
  // The status, or PMIX_ERR_TIMEOUT after `seconds`.
  pmix_status_t wait(double seconds) {
    std::unique_lock guard(mutex_);
    done_.wait_for(guard, std::chrono::duration<double>(seconds), [this] { return status_.has_value(); });
    return status_.value_or(PMIX_ERR_TIMEOUT);
  }
  [[nodiscard]] std::string bytes() const { return bytes_; }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  std::optional<pmix_status_t> status_;
  std::string bytes_;
};

using Shared = std::shared_ptr<Completion>;

void on_fence(pmix_status_t status, void* data) {
  const std::unique_ptr<Shared> completion(static_cast<Shared*>(data));
  (*completion)->finish(status, nullptr);
}

void on_value(pmix_status_t status, pmix_value_t* value, void* data) {
  const std::unique_ptr<Shared> completion(static_cast<Shared*>(data));
  (*completion)->finish(status, value);
}

class PmixBootstrap final : public Bootstrap {
 public:
  explicit PmixBootstrap(double timeout) : timeout_(timeout) {
    const pmix_status_t status = PMIx_Init(&self_, nullptr, 0);
    if (status != PMIX_SUCCESS)
      throw RunError("no PMIx server answers ({}); under Slurm start with srun --mpi=pmix", PMIx_Error_string(status));
    identity_.rank = static_cast<int>(self_.rank);
    identity_.size = static_cast<int>(number(PMIX_JOB_SIZE, true).value_or(1));
    identity_.local_rank = static_cast<int>(number(PMIX_LOCAL_RANK, false).value_or(0));
    identity_.local_size = static_cast<int>(number(PMIX_LOCAL_SIZE, true).value_or(1));
    // Our own name of the host, not the server's: what the user sees, the same in every bootstrap.
    identity_.host = host_name();
  }
  PmixBootstrap(const PmixBootstrap&) = delete;
  PmixBootstrap& operator=(const PmixBootstrap&) = delete;
  // A rank that ends without PMIx_Finalize counts as crashed. MPI counts its own use of the same library.
  ~PmixBootstrap() override { PMIx_Finalize(nullptr, 0); }

  [[nodiscard]] const Identity& identity() const override { return identity_; }
  [[nodiscard]] const char* maker() const override { return "PMIx"; }

  std::vector<std::string> gather(const std::string& bytes) override {
    const std::string key = next_key();
    put(key, bytes);
    fence();
    if (identity_.rank != 0) return {};
    std::vector<std::string> all;
    for (int rank = 0; rank < identity_.size; ++rank) all.push_back(rank == 0 ? bytes : get(rank, key));
    return all;
  }

  std::string broadcast(const std::string& bytes) override {
    const std::string key = next_key();
    if (identity_.rank == 0) put(key, bytes);
    fence();
    return identity_.rank == 0 ? bytes : get(0, key);
  }

  void barrier() override { fence(); }

 private:
  std::optional<std::uint32_t> number(const char* key, bool of_job) {
    pmix_proc_t whom = self_;
    if (of_job) whom.rank = PMIX_RANK_WILDCARD;
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    bool here_only = true;  // a key that nobody gives must not be waited for
    PMIX_INFO_LOAD(&info, PMIX_OPTIONAL, &here_only, PMIX_BOOL);
    pmix_value_t* value = nullptr;
    const pmix_status_t status = PMIx_Get(&whom, key, &info, 1, &value);
    PMIX_INFO_DESTRUCT(&info);
    if (status != PMIX_SUCCESS || value == nullptr) return std::nullopt;
    std::optional<std::uint32_t> result;
    if (value->type == PMIX_UINT32) result = value->data.uint32;
    if (value->type == PMIX_UINT16) result = value->data.uint16;
    if (value->type == PMIX_PROC_RANK) result = value->data.rank;
    if (value->type == PMIX_INT) result = static_cast<std::uint32_t>(value->data.integer);
    PMIX_VALUE_RELEASE(value);
    return result;
  }

  std::string next_key() { return "railyard." + std::to_string(++exchanges_); }

  void put(const std::string& key, const std::string& bytes) {
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    pmix_byte_object_t object;
    object.bytes = const_cast<char*>(bytes.data());
    object.size = bytes.size();
    PMIX_VALUE_LOAD(&value, &object, PMIX_BYTE_OBJECT);
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key.c_str(), &value);
    PMIX_VALUE_DESTRUCT(&value);
    if (status == PMIX_SUCCESS) status = PMIx_Commit();
    if (status != PMIX_SUCCESS)
      throw RunError("start-up: PMIx takes no data from rank {}: {}", identity_.rank, PMIx_Error_string(status));
  }

  // Collects data even when nobody needs them: under Slurm a fence that collects none is no barrier across nodes.
  void fence() {
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    bool collect = true;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    const auto completion = std::make_shared<Completion>();
    auto context = std::make_unique<Shared>(completion);
    pmix_status_t status = PMIx_Fence_nb(nullptr, 0, &info, 1, on_fence, context.get());
    if (status == PMIX_SUCCESS) {
      (void)context.release();  // the callback's now
      status = completion->wait(timeout_);
    }
    // PMIX_OPERATION_SUCCEEDED: done at once, and no callback comes.
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
      throw RunError(
          "start-up: rank {} on {}: not all {} ranks came within {:.0f} s ({}); look for one that failed or never "
          "started",
          identity_.rank, identity_.host, identity_.size, timeout_, PMIx_Error_string(status));
    if (status == PMIX_SUCCESS) PMIX_INFO_DESTRUCT(&info);
  }

  std::string get(int rank, const std::string& key) {
    pmix_proc_t whom = self_;
    whom.rank = static_cast<pmix_rank_t>(rank);
    const auto completion = std::make_shared<Completion>();
    auto context = std::make_unique<Shared>(completion);
    pmix_status_t status = PMIx_Get_nb(&whom, key.c_str(), nullptr, 0, on_value, context.get());
    if (status == PMIX_SUCCESS) {
      (void)context.release();
      status = completion->wait(timeout_);
    }
    if (status != PMIX_SUCCESS)
      throw RunError("start-up: PMIx has no word from rank {}: {}", rank, PMIx_Error_string(status));
    return completion->bytes();
  }

  double timeout_;
  pmix_proc_t self_{};
  Identity identity_;
  int exchanges_ = 0;
};

}  // namespace
}  // namespace railyard::launch

// The one symbol that the program looks up (launch/bootstrap/pmix_loader.cpp).
extern "C" __attribute__((visibility("default"))) railyard::launch::Bootstrap* railyard_make_pmix_bootstrap(
    double timeout) {
  return std::make_unique<railyard::launch::PmixBootstrap>(timeout).release();
}
