// The CUDA backend's device, memory, copies, captured graphs, elementwise operations and optimizer.
#include "runtime/compute/cuda/cuda_backend.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace railyard::cuda {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
// Code and tables that CUDA and its libraries load when a kernel is first used.
constexpr std::size_t kLibraryMemory = std::size_t{768} << 20U;
constexpr std::size_t kStagingBytes = std::size_t{1} << 20U;
constexpr std::size_t kStagingSlots = 16;

bool is_compute_type(DType type) { return type == DType::kFloat32 || type == DType::kBFloat16; }
bool is_cast_type(DType type) { return is_compute_type(type) || type == DType::kFloat16 || type == DType::kFloat64; }

// Makes the device current before anything of this backend touches CUDA, and says what is wrong with it.
int select_device(int device) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
    throw RunError(
        "there is no NVIDIA GPU here: run with device = \"cpu\", or check nvidia-smi and CUDA_VISIBLE_DEVICES");
  if (status != cudaSuccess)
    throw RunError("CUDA does not start: {}; check the driver with nvidia-smi, or run with device = \"cpu\"",
                   cudaGetErrorString(status));
  if (device < 0 || device >= count)
    throw RunError("GPU {} was asked for, but {} {} visible: check CUDA_VISIBLE_DEVICES and the ranks per node", device,
                   count, count == 1 ? "is" : "are");
  check(cudaSetDevice(device), "select the device");
  return device;
}

// Dense bf16 FLOP/s of the data sheets, by the words in the name; 0: not known. PCIe and NVL cards come first.
double peak_of(const std::string& name) {
  struct Card {
    const char* name;
    double teraflops;
  };
  constexpr Card kCards[] = {{"H100 PCIe", 756.0}, {"H100 NVL", 835.0}, {"H200 NVL", 835.0}, {"H200", 989.5},
                             {"H100", 989.5},      {"H800", 989.5},     {"GH200", 989.5},    {"B200", 2250.0},
                             {"A100", 312.0},      {"A800", 312.0},     {"A40", 149.7},      {"A30", 165.0},
                             {"A10", 125.0},       {"L40S", 362.0},     {"L40", 181.0},      {"L4", 121.0}};
  const auto ends_word = [&name](std::size_t at) {
    return at >= name.size() || std::isalnum(static_cast<unsigned char>(name[at])) == 0;
  };
  for (const Card& card : kCards) {
    const std::size_t at = name.find(card.name);
    if (at != std::string::npos && ends_word(at + std::strlen(card.name)) && (at == 0 || ends_word(at - 1)))
      return card.teraflops * 1e12;
  }
  return 0.0;
}

class Graph final : public CapturedGraph {
 public:
  explicit Graph(cudaGraphExec_t executable) : executable_(executable) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() override { cudaGraphExecDestroy(executable_); }
  [[nodiscard]] cudaGraphExec_t get() const { return executable_; }

 private:
  cudaGraphExec_t executable_;
};

constexpr ScalarPlaces kPlaces{OptimizerScalars::kLearningRate,    OptimizerScalars::kGradientScale,
                               OptimizerScalars::kBiasCorrection1, OptimizerScalars::kBiasCorrection2,
                               OptimizerScalars::kGradientNorm,    OptimizerScalars::kFinite};

}  // namespace

CudaBackend::CudaBackend(const CudaOptions& options)
    : device_(select_device(options.device)),
      deterministic_(options.deterministic),
      in_use_(std::make_shared<std::atomic<std::size_t>>(0)),
      matmul_(options.deterministic) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device_), "device properties");
  if (properties.major < 8)
    throw RunError("{} has compute capability {}.{}: 8.0 or later is needed; run with device = \"cpu\"",
                   properties.name, properties.major, properties.minor);
  processors_ = properties.multiProcessorCount;
  description_ = properties.name;
  peak_flops_ = peak_of(description_);
  staging_.reserve(kStagingSlots);
  for (std::size_t i = 0; i < kStagingSlots; ++i) staging_.push_back({allocate_staging(kStagingBytes), Event()});
  scratch(std::size_t{32} << 20U);
  std::size_t available = 0;
  check(cudaMemGetInfo(&available, &memory_total_), "free memory");
  memory_limit_ = available > kLibraryMemory ? available - kLibraryMemory : available;
}

CudaBackend::~CudaBackend() { cudaStreamSynchronize(stream_.get()); }

void* CudaBackend::scratch(std::size_t bytes) {
  if (scratch_.empty() || scratch_.back().bytes() < bytes) {
    RAILYARD_CHECK(!capturing_, "{} bytes of workspace in a captured graph: the operation has not run before", bytes);
    scratch_.emplace_back(scratch_.empty() ? bytes : std::max(bytes, 2 * scratch_.back().bytes()));
  }
  return scratch_.back().data();
}

// ---- captured graphs ----

bool CudaBackend::begin_capture() {
  RAILYARD_CHECK(!capturing_, "a graph is being captured already");
  check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), "begin a graph");
  capturing_ = true;
  return true;
}

std::unique_ptr<CapturedGraph> CudaBackend::end_capture() {
  RAILYARD_CHECK(capturing_, "no graph is being captured");
  capturing_ = false;
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream_.get(), &graph), "end a graph");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "make a graph");
  return std::make_unique<Graph>(executable);
}

void CudaBackend::launch(CapturedGraph& graph) {
  check(cudaGraphLaunch(static_cast<Graph&>(graph).get(), stream_.get()), "launch a graph");
}

// ---- memory ----

// Memory calls may come from threads that CUDA has not seen, such as a checkpoint's writer.
void CudaBackend::make_current() const { check(cudaSetDevice(device_), "select the device"); }

Buffer CudaBackend::allocate(std::size_t bytes) {
  make_current();
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, std::max<std::size_t>(bytes, 1));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t available = 0, total = 0;
    check(cudaMemGetInfo(&available, &total), "free memory");
    throw RunError(
        "out of memory on {}: {:.2f} GiB wanted, {:.2f} GiB free of {:.2f} GiB, {:.2f} GiB in use by this rank; make "
        "the "
        "micro-batch or the sequence smaller, recompute, or use more GPUs",
        description_, static_cast<double>(bytes) / kGiB, static_cast<double>(available) / kGiB,
        static_cast<double>(total) / kGiB, static_cast<double>(in_use_->load()) / kGiB);
  }
  check(status, "allocate memory");
  *in_use_ += bytes;
  return {data, bytes, [counter = in_use_, bytes](void* memory) {
            cudaFree(memory);
            *counter -= bytes;
          }};
}

Buffer CudaBackend::allocate_staging(std::size_t bytes) {
  make_current();
  void* data = nullptr;
  check(cudaMallocHost(&data, std::max<std::size_t>(bytes, 1)), "allocate page-locked memory");
  return {data, bytes, [](void* memory) { cudaFreeHost(memory); }};
}

void CudaBackend::copy_from_host(std::span<const std::byte> host, const Tensor& device) {
  RAILYARD_CHECK(host.size() == device.bytes(), "{} bytes into {}", host.size(), device.bytes());
  if (host.empty()) return;
  make_current();
  if (host.size() > kStagingBytes) {
    check(cudaMemcpyAsync(device.data, host.data(), host.size(), cudaMemcpyHostToDevice, stream_.get()),
          "copy to the device");
    synchronize();
    return;
  }
  // Small ones must not wait for the device: they go through page-locked memory of our own.
  StagingSlot& slot = staging_[next_slot_];
  next_slot_ = (next_slot_ + 1) % staging_.size();
  check(cudaEventSynchronize(slot.copied.get()), "wait for a copy");
  std::memcpy(slot.memory.data(), host.data(), host.size());
  check(cudaMemcpyAsync(device.data, slot.memory.data(), host.size(), cudaMemcpyHostToDevice, stream_.get()),
        "copy to the device");
  slot.copied.record(stream_.get());
}

void CudaBackend::copy_to_host(const Tensor& device, std::span<std::byte> host) {
  RAILYARD_CHECK(host.size() == device.bytes(), "{} bytes into {}", device.bytes(), host.size());
  if (host.empty()) return;
  make_current();
  check(cudaMemcpyAsync(host.data(), device.data, host.size(), cudaMemcpyDeviceToHost, stream_.get()),
        "copy to the host");
  synchronize();
}

void CudaBackend::copy(const Tensor& from, const Tensor& to) {
  RAILYARD_CHECK(from.dtype == to.dtype && from.elements() == to.elements(), "copy");
  if (from.data == to.data || from.bytes() == 0) return;
  check(cudaMemcpyAsync(to.data, from.data, from.bytes(), cudaMemcpyDeviceToDevice, stream_.get()), "copy");
}

void CudaBackend::synchronize() { check(cudaStreamSynchronize(stream_.get()), "wait for the device"); }

// ---- elementwise ----

void CudaBackend::zero(const Tensor& out) {
  if (out.bytes() > 0) check(cudaMemsetAsync(out.data, 0, out.bytes(), stream_.get()), "zero");
}

void CudaBackend::fill(const Tensor& out, float value) {
  const std::size_t size = dtype_size(out.dtype);
  std::uint64_t bits = 0;
  convert_elements(&value, DType::kFloat32, &bits, out.dtype, 1);
  fill_bits(target(), out.data, size, out.elements(), bits);
}

void CudaBackend::fill_normal(const Tensor& out, std::uint64_t key, std::int64_t first_row, std::int64_t first_column,
                              std::int64_t logical_columns, float mean, float deviation) {
  RAILYARD_CHECK(is_compute_type(out.dtype), "{}", dtype_name(out.dtype));
  cuda::fill_normal(target(), out.dtype, out.data, out.rows(), out.columns(), key, first_row, first_column,
                    logical_columns, mean, deviation);
}

void CudaBackend::cast(const Tensor& in, const Tensor& out) {
  RAILYARD_CHECK(in.elements() == out.elements(), "cast");
  RAILYARD_CHECK(is_cast_type(in.dtype) && is_cast_type(out.dtype), "cast of {} to {}", dtype_name(in.dtype),
                 dtype_name(out.dtype));
  cuda::cast(target(), in.data, in.dtype, out.data, out.dtype, in.elements());
}

void CudaBackend::add(const Tensor& a, const Tensor& b, const Tensor& out) {
  RAILYARD_CHECK(is_compute_type(out.dtype) && a.dtype == out.dtype && b.dtype == out.dtype, "add");
  RAILYARD_CHECK(a.elements() == out.elements() && b.elements() == out.elements(), "add");
  cuda::add(target(), out.dtype, a.data, b.data, out.data, out.elements());
}

void CudaBackend::scale(const Tensor& tensor, float factor) {
  RAILYARD_CHECK(is_compute_type(tensor.dtype), "{}", dtype_name(tensor.dtype));
  cuda::scale(target(), tensor.dtype, tensor.data, factor, tensor.elements());
}

void CudaBackend::gemm(const Gemm& arguments) { matmul_.run(arguments, target()); }

// ---- optimizer ----

void CudaBackend::squared_norm(const Tensor& tensor, const Tensor& sum) {
  RAILYARD_CHECK(tensor.dtype == DType::kFloat32 && sum.dtype == DType::kFloat64, "squared_norm");
  const std::int64_t count = tensor.elements();
  auto* partial = static_cast<double*>(scratch(static_cast<std::size_t>(squared_norm_scratch(count)) * sizeof(double)));
  cuda::squared_norm(target(), tensor.as<float>(), count, sum.as<double>(), partial);
}

void CudaBackend::clip_scale(const Tensor& sum, float factor, float clip, const OptimizerScalars& scalars) {
  cuda::clip_scale(target(), sum.as<double>(), factor, clip, kPlaces, scalars.values.as<float>());
}

void CudaBackend::adamw(const AdamW& a, const OptimizerScalars& scalars) {
  const std::int64_t count = a.parameter.elements();
  RAILYARD_CHECK(is_compute_type(a.parameter.dtype) && a.exp_avg.elements() == count &&
                     a.exp_avg_sq.elements() == count && a.grad.elements() == count &&
                     a.remainder.defined() == (a.parameter.dtype == DType::kBFloat16) &&
                     (!a.remainder.defined() || a.remainder.elements() == count),
                 "adamw");
  cuda::adamw(target(),
              {a.parameter.data, a.parameter.dtype, a.remainder.as<std::uint16_t>(), a.exp_avg.as<float>(),
               a.exp_avg_sq.as<float>(), a.grad.as<float>(), count, a.beta1, a.beta2, a.epsilon, a.weight_decay},
              kPlaces, scalars.values.as<float>());
}

void CudaBackend::split_master(const Tensor& weights, const Tensor& parameter, const Tensor& remainder) {
  const std::int64_t count = weights.elements();
  RAILYARD_CHECK(weights.dtype == DType::kFloat32 && parameter.dtype == DType::kBFloat16 &&
                     parameter.elements() == count && remainder.elements() == count,
                 "split_master");
  cuda::split_master(target(), weights.as<float>(), count, parameter.data, remainder.as<std::uint16_t>());
}

}  // namespace railyard::cuda
