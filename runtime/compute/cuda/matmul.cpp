// cuBLASLt behind Matmul: descriptors of row-major operands, the table of plans, and the measuring of algorithms.
#include "runtime/compute/cuda/matmul.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "runtime/base/json.hpp"

namespace railyard::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20U;
constexpr int kCandidates = 16;

void check_blas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  throw RunError("cuBLASLt: {}: {}", what, cublasLtGetStatusString(status));
}

cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kFloat8E4M3:
      return CUDA_R_8F_E4M3;
    case DType::kFloat8E5M2:
      return CUDA_R_8F_E5M2;
    default:
      check_failed("type", __FILE__, __LINE__, fmt::format("{} in a matrix product", dtype_name(type)));
  }
}

// The largest power of two, up to 256, that divides an address.
int alignment_of(const void* pointer) {
  const auto bits = reinterpret_cast<std::uintptr_t>(pointer) | 256U;
  return static_cast<int>(bits & (~bits + 1));
}

// Everything that an algorithm is chosen for.
struct Problem {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  DType a, b, d;
  bool adds;  // to what d holds, or to an addend
  bool bias, fast_accumulation;
  Scaling a_scaling, b_scaling;
  int alignment;  // of all operands
  auto operator<=>(const Problem&) const = default;

  [[nodiscard]] std::string name() const {
    return fmt::format("{}x{}x{} {}{} {}*{}->{}{}{}{} scales {}{} aligned {}", m, n, k, transpose_a ? "t" : "n",
                       transpose_b ? "t" : "n", dtype_name(a), dtype_name(b), dtype_name(d), adds ? " add" : "",
                       bias ? " bias" : "", fast_accumulation ? " fast" : "", static_cast<int>(a_scaling),
                       static_cast<int>(b_scaling), alignment);
  }
};

class Layout {
 public:
  // A row-major [rows, columns] matrix is a column-major [columns, rows] one.
  Layout(DType type, std::int64_t rows, std::int64_t columns) {
    check_blas(cublasLtMatrixLayoutCreate(&layout_, data_type(type), static_cast<std::uint64_t>(columns),
                                          static_cast<std::uint64_t>(rows), columns),
               "describe a matrix");
  }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
  [[nodiscard]] cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

class Operation {
 public:
  Operation() {
    check_blas(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe a product");
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() { cublasLtMatmulDescDestroy(operation_); }
  [[nodiscard]] cublasLtMatmulDesc_t get() const { return operation_; }
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check_blas(cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof(value)), "describe a product");
  }

 private:
  cublasLtMatmulDesc_t operation_ = nullptr;
};

class Preference {
 public:
  Preference() { check_blas(cublasLtMatmulPreferenceCreate(&preference_), "describe a preference"); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  [[nodiscard]] cublasLtMatmulPreference_t get() const { return preference_; }
  template <class Value>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
    check_blas(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof(value)),
               "describe a preference");
  }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

cublasLtMatmulMatrixScale_t scale_mode(Scaling scaling) {
  switch (scaling) {
    case Scaling::kTensor:
      return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    case Scaling::kRow128:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case Scaling::kBlock128:
      return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  }
  return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

// cuBLASLt computes d transposed, column-major: its A is our b, its B our a.
struct Plan {
  Plan(const Problem& p, bool with_bias)
      : a(p.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k),
        b(p.b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n),
        d(p.d, p.m, p.n),
        bias(with_bias) {
    operation.set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    operation.set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (with_bias) {
      operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      operation.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(p.d));
    }
    if (dtype_size(p.a) == 1) {
      // Products of blocks are added up exactly, or not at all.
      const bool whole = p.a_scaling == Scaling::kTensor && p.b_scaling == Scaling::kTensor;
      operation.set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(p.fast_accumulation && whole));
      operation.set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, static_cast<std::int32_t>(scale_mode(p.b_scaling)));
      operation.set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, static_cast<std::int32_t>(scale_mode(p.a_scaling)));
    }
  }
  Operation operation;
  Layout a, b, d;
  bool bias;  // in the epilogue
  cublasLtMatmulAlgo_t algorithm{};
};

std::string to_hex(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm.data) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<cublasLtMatmulAlgo_t> from_hex(const std::string& text) {
  cublasLtMatmulAlgo_t algorithm{};
  if (text.size() != 16 * std::size(algorithm.data) || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    return std::nullopt;
  for (std::size_t i = 0; i < std::size(algorithm.data); ++i)
    algorithm.data[i] = std::stoull(text.substr(16 * i, 16), nullptr, 16);
  return algorithm;
}

bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "capture status");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

class Matmul::State {
 public:
  explicit State(bool deterministic) : deterministic_(deterministic) {
    check_blas(cublasLtCreate(&handle_), "start");
    for (DeviceMemory& workspace : workspaces_) workspace = DeviceMemory(kWorkspaceBytes);
    int device = 0;
    cudaDeviceProp properties{};
    check(cudaGetDevice(&device), "device");
    check(cudaGetDeviceProperties(&properties, device), "device properties");
    device_ = properties.name;
  }
  ~State() { cublasLtDestroy(handle_); }

  void run(const Gemm& gemm, const Target& target, int lane) {
    const std::int64_t m = gemm.d.rows(), n = gemm.d.columns();
    const std::int64_t k = gemm.transpose_a ? gemm.a.rows() : gemm.a.columns();
    RAILYARD_CHECK((gemm.transpose_a ? gemm.a.columns() : gemm.a.rows()) == m, "rows of a");
    RAILYARD_CHECK((gemm.transpose_b ? gemm.b.columns() : gemm.b.rows()) == k, "inner extents");
    RAILYARD_CHECK((gemm.transpose_b ? gemm.b.rows() : gemm.b.columns()) == n, "columns of b");
    RAILYARD_CHECK(!gemm.bias.defined() || gemm.bias.elements() == n, "bias");
    RAILYARD_CHECK(!gemm.addend.defined() ||
                       (!gemm.accumulate && gemm.addend.elements() == m * n && gemm.addend.dtype == gemm.d.dtype),
                   "addend");
    if (m == 0 || n == 0) return;
    RAILYARD_CHECK(k > 0, "a product over nothing");
    const void* c = gemm.addend.defined() ? gemm.addend.data : gemm.d.data;
    const Problem problem{m,
                          n,
                          k,
                          gemm.transpose_a,
                          gemm.transpose_b,
                          gemm.a.dtype,
                          gemm.b.dtype,
                          gemm.d.dtype,
                          gemm.accumulate || gemm.addend.defined(),
                          gemm.bias.defined(),
                          gemm.fast_accumulation,
                          gemm.a_scaling,
                          gemm.b_scaling,
                          std::min({alignment_of(gemm.a.data), alignment_of(gemm.b.data), alignment_of(gemm.d.data),
                                    alignment_of(c), gemm.bias.defined() ? alignment_of(gemm.bias.data) : 256})};
    auto found = plans_.find(problem);
    if (found == plans_.end()) found = plans_.emplace(problem, make_plan(problem, gemm, c, target, lane)).first;
    Plan& plan = *found->second;
    launch(plan, plan.algorithm, gemm, c, gemm.d.data, target.stream, lane, "multiply");
    if (gemm.bias.defined() && !plan.bias)
      add_bias(target, gemm.d.dtype, gemm.bias.data, gemm.bias.dtype, gemm.d.data, m, n);
  }

  [[nodiscard]] std::string algorithms() const {
    Json list = stored_;
    for (const auto& [problem, plan] : plans_) list[problem.name()] = to_hex(plan->algorithm);
    return Json{{"library", cublasLtGetVersion()}, {"device", device_}, {"algorithms", list}}.dump(1);
  }

  void set_algorithms(const std::string& text) {
    const Json json = parse_json(text, "GEMM algorithms");
    if (!json.is_object() || json.value("library", std::size_t{0}) != cublasLtGetVersion() ||
        json.value("device", std::string()) != device_ || !json.contains("algorithms"))
      return;
    for (const auto& [name, value] : json["algorithms"].items())
      if (value.is_string() && from_hex(value.get<std::string>())) stored_[name] = value;
    for (auto& [problem, plan] : plans_)
      if (const auto algorithm = stored_algorithm(problem, *plan)) plan->algorithm = *algorithm;
  }

 private:
  void bind(Plan& plan, const Gemm& gemm) {
    if (plan.bias) plan.operation.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, gemm.bias.data);
    if (dtype_size(gemm.a.dtype) == 1) {
      plan.operation.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, gemm.b.scale);
      plan.operation.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, gemm.a.scale);
    }
  }

  void launch(Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const Gemm& gemm, const void* c, void* d,
              cudaStream_t stream, int lane, const char* what) {
    bind(plan, gemm);
    check_blas(try_launch(plan, algorithm, gemm, c, d, stream, lane), what);
  }

  cublasStatus_t try_launch(Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const Gemm& gemm, const void* c, void* d,
                            cudaStream_t stream, int lane) {
    const float alpha = 1.0F, beta = gemm.accumulate || gemm.addend.defined() ? 1.0F : 0.0F;
    const DeviceMemory& workspace = workspaces_[static_cast<std::size_t>(lane)];
    return cublasLtMatmul(handle_, plan.operation.get(), &alpha, gemm.b.data, plan.b.get(), gemm.a.data, plan.a.get(),
                          &beta, c, plan.d.get(), d, plan.d.get(), &algorithm, workspace.data(), workspace.bytes(),
                          stream);
  }

  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> candidates(const Problem& problem, Plan& plan) {
    Preference preference;
    preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kWorkspaceBytes));
    const auto alignment = static_cast<std::uint32_t>(problem.alignment);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      preference.set(attribute, alignment);
    if (deterministic_) {
      // Sums that are split over blocks must not be added in whatever order the blocks end.
      const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK & ~CUBLASLT_REDUCTION_SCHEME_INPLACE;
      preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
    }
    std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, plan.operation.get(), plan.b.get(), plan.a.get(), plan.d.get(),
                                       plan.d.get(), preference.get(), kCandidates, results.data(), &count);
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    if (status != CUBLAS_STATUS_SUCCESS) return algorithms;
    for (int i = 0; i < count; ++i)
      if (results[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
        algorithms.push_back(results[static_cast<std::size_t>(i)].algo);
    return algorithms;
  }

  std::optional<cublasLtMatmulAlgo_t> stored_algorithm(const Problem& problem, Plan& plan) {
    const auto found = stored_.find(problem.name());
    if (found == stored_.end()) return std::nullopt;
    const auto algorithm = from_hex(found->get<std::string>());
    return algorithm && valid(plan, *algorithm) ? algorithm : std::nullopt;
  }

  // Whether the library knows the algorithm for this plan (a stored choice may be of a damaged file).
  bool valid(Plan& plan, const cublasLtMatmulAlgo_t& algorithm) {
    cublasLtMatmulHeuristicResult_t result{};
    return cublasLtMatmulAlgoCheck(handle_, plan.operation.get(), plan.b.get(), plan.a.get(), plan.d.get(),
                                   plan.d.get(), &algorithm, &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= kWorkspaceBytes;
  }

  std::unique_ptr<Plan> make_plan(const Problem& problem, const Gemm& gemm, const void* c, const Target& target,
                                  int lane) {
    const bool narrow = dtype_size(problem.a) == 1;
    auto plan = std::make_unique<Plan>(problem, problem.bias && gemm.bias.dtype == problem.d);
    bind(*plan, gemm);
    std::vector<cublasLtMatmulAlgo_t> algorithms = candidates(problem, *plan);
    if (algorithms.empty() && plan->bias) {  // the bias is added behind the product then
      plan = std::make_unique<Plan>(problem, false);
      bind(*plan, gemm);
      algorithms = candidates(problem, *plan);
    }
    if (algorithms.empty()) {
      if (narrow)
        throw UsageError(
            "{} with cuBLASLt {} cannot multiply {} in 8 bits: extents are multiples of 16, the second operand is "
            "transposed, and compute capability 8.9 (blocks: 9.0 and CUDA 12.9) is needed; use precision = \"bf16\"",
            device_, cublasLtGetVersion(), problem.name());
      throw RunError("cuBLASLt has no algorithm for {}", problem.name());
    }
    plan->algorithm = algorithms.front();
    if (const auto algorithm = stored_algorithm(problem, *plan)) {
      plan->algorithm = *algorithm;
      return plan;
    }
    if (!deterministic_ && algorithms.size() > 1 && !capturing(target.stream))
      plan->algorithm = measure(*plan, algorithms, gemm, c, target, lane);
    return plan;
  }

  // The fastest of the candidates, each run once to warm up and then timed twice. Results go to d itself, or to memory
  // of their own when the product adds to what is there.
  cublasLtMatmulAlgo_t measure(Plan& plan, const std::vector<cublasLtMatmulAlgo_t>& algorithms, const Gemm& gemm,
                               const void* c, const Target& target, int lane) {
    DeviceMemory copy;
    void* d = gemm.d.data;
    if (c == gemm.d.data && (gemm.accumulate || gemm.addend.defined())) {
      std::size_t available = 0, total = 0;
      check(cudaMemGetInfo(&available, &total), "free memory");
      if (available < gemm.d.bytes() + (std::size_t{64} << 20U)) return algorithms.front();
      copy = DeviceMemory(gemm.d.bytes());
      d = copy.data();
    }
    Event begin(true), end(true);
    float best = 0.0F;
    cublasLtMatmulAlgo_t choice = algorithms.front();
    for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
      constexpr int kRepeats = 2;
      bool ran = try_launch(plan, algorithm, gemm, c, d, target.stream, lane) == CUBLAS_STATUS_SUCCESS;
      begin.record(target.stream);
      for (int i = 0; i < kRepeats && ran; ++i)
        ran = try_launch(plan, algorithm, gemm, c, d, target.stream, lane) == CUBLAS_STATUS_SUCCESS;
      end.record(target.stream);
      check(cudaEventSynchronize(end.get()), "measure a product");
      float time = 0.0F;
      check(cudaEventElapsedTime(&time, begin.get(), end.get()), "measure a product");
      if (!ran || (best > 0.0F && time >= best)) continue;
      best = time;
      choice = algorithm;
    }
    if (best == 0.0F)
      throw RunError("cuBLASLt ran none of its own proposals for a product of {} x {}", gemm.d.rows(),
                     gemm.d.columns());
    return choice;
  }

  bool deterministic_;
  cublasLtHandle_t handle_ = nullptr;
  std::array<DeviceMemory, kLanes> workspaces_;
  std::string device_;
  std::map<Problem, std::unique_ptr<Plan>> plans_;
  Json stored_ = Json::object();
};

Matmul::Matmul(bool deterministic) : state_(std::make_unique<State>(deterministic)) {}
Matmul::~Matmul() = default;
void Matmul::run(const Gemm& gemm, const Target& target, int lane) { state_->run(gemm, target, lane); }
std::string Matmul::algorithms() const { return state_->algorithms(); }
void Matmul::set_algorithms(const std::string& json) { state_->set_algorithms(json); }

}  // namespace railyard::cuda
