// cuDNN's scaled dot product attention through its frontend headers. cuDNN is opened when the first backend is made, so
// that the part loads where it is missing.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <tuple>

#include "runtime/compute/cuda/attention.hpp"
#include "runtime/compute/cuda/device.hpp"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace railyard::cuda {
namespace {

namespace fe = cudnn_frontend;

enum Uid : std::int64_t { kQ = 1, kK, kV, kO, kStats, kGradO, kGradQ, kGradK, kGradV };

// Everything that a graph is built for.
using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                       float, DType, bool>;
Key key_of(const AttentionShape& s, DType type, bool backward) {
  return {s.batch, s.length, s.q_heads, s.kv_heads, s.d_qk, s.d_v, s.window, s.scale, type, backward};
}

// Heads of [batch * length, row] matrices, `first` elements into a row; heads lie beside each other.
fe::graph::Tensor_attributes heads(const char* name, Uid uid, const AttentionShape& s, std::int64_t count,
                                   std::int64_t size, std::int64_t row) {
  return fe::graph::Tensor_attributes()
      .set_name(name)
      .set_uid(uid)
      .set_dim({s.batch, count, s.length, size})
      .set_stride({s.length * row, size, row, 1});
}

struct Graph {
  std::shared_ptr<fe::graph::Graph> graph;
  std::size_t workspace = 0;
};

class CudnnAttention final : public FusedAttention {
 public:
  CudnnAttention(cudnnHandle_t handle, bool deterministic, std::size_t largest_workspace)
      : handle_(handle), deterministic_(deterministic), largest_workspace_(largest_workspace) {}
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;
  ~CudnnAttention() override {
    graphs_.clear();
    fe::detail::destroy_handle(handle_);
  }

  std::optional<std::size_t> workspace(const AttentionShape& shape, DType type, bool backward) override {
    const auto& graph = find(shape, type, backward);
    if (!graph) return std::nullopt;
    return graph->workspace;
  }

  void forward(const AttentionShape& shape, const Tensor& packed, const Tensor& out, const Tensor& log_sum_exp,
               const Tensor& workspace, cudaStream_t stream) override {
    std::unordered_map<std::int64_t, void*> pointers = inputs(shape, packed);
    pointers[kO] = out.data;
    pointers[kStats] = log_sum_exp.data;
    execute(shape, packed.dtype, false, pointers, workspace, stream);
  }

  void backward(const AttentionShape& shape, const Tensor& packed, const Tensor& out, const Tensor& log_sum_exp,
                const Tensor& grad_out, const Tensor& grad_packed, const Tensor& workspace,
                cudaStream_t stream) override {
    std::unordered_map<std::int64_t, void*> pointers = inputs(shape, packed);
    pointers[kO] = out.data;
    pointers[kStats] = log_sum_exp.data;
    pointers[kGradO] = grad_out.data;
    const std::unordered_map<std::int64_t, void*> gradients = inputs(shape, grad_packed);
    pointers[kGradQ] = gradients.at(kQ);
    pointers[kGradK] = gradients.at(kK);
    pointers[kGradV] = gradients.at(kV);
    execute(shape, packed.dtype, true, pointers, workspace, stream);
  }

 private:
  static std::unordered_map<std::int64_t, void*> inputs(const AttentionShape& s, const Tensor& packed) {
    auto* data = packed.as<std::byte>();
    const auto size = static_cast<std::int64_t>(dtype_size(packed.dtype));
    return {{kQ, data}, {kK, data + s.q_heads * s.d_qk * size}, {kV, data + (s.q_heads + s.kv_heads) * s.d_qk * size}};
  }

  void execute(const AttentionShape& shape, DType type, bool backward,
               std::unordered_map<std::int64_t, void*>& pointers, const Tensor& workspace, cudaStream_t stream) {
    const auto& graph = find(shape, type, backward);
    RAILYARD_CHECK(graph.has_value() && workspace.bytes() >= graph->workspace, "attention workspace");
    if (fe::detail::set_stream(handle_, stream) != CUDNN_STATUS_SUCCESS)
      throw RunError("cuDNN does not take the stream");
    auto status = graph->graph->execute(handle_, pointers, workspace.data);
    if (status.is_bad()) throw RunError("cuDNN attention: {}", status.get_message());
  }

  const std::optional<Graph>& find(const AttentionShape& shape, DType type, bool backward) {
    const Key key = key_of(shape, type, backward);
    auto found = graphs_.find(key);
    if (found == graphs_.end()) found = graphs_.emplace(key, build(shape, type, backward)).first;
    return found->second;
  }

  std::optional<Graph> build(const AttentionShape& s, DType type, bool backward) const {
    if (type != DType::kBFloat16 || s.d_qk % 8 != 0 || s.d_v % 8 != 0) return std::nullopt;
    // 9.14 and before have errors with windows.
    if (s.window != 0 && s.window < s.length && fe::detail::get_backend_version() < 91500) return std::nullopt;
    const std::int64_t row = s.packed_columns(), out_row = s.output_columns();
    auto graph = std::make_shared<fe::graph::Graph>();
    graph->set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const auto q = graph->tensor(heads("q", kQ, s, s.q_heads, s.d_qk, row));
    const auto k = graph->tensor(heads("k", kK, s, s.kv_heads, s.d_qk, row));
    const auto v = graph->tensor(heads("v", kV, s, s.kv_heads, s.d_v, row));
    const auto statistics = fe::graph::Tensor_attributes()
                                .set_name("log_sum_exp")
                                .set_uid(kStats)
                                .set_data_type(fe::DataType_t::FLOAT)
                                .set_dim({s.batch, s.q_heads, s.length, 1})
                                .set_stride({s.q_heads * s.length, s.length, 1, 1});
    const auto mask = [&s](auto& options) {
      options.set_attn_scale(s.scale)
          .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
          .set_diagonal_band_right_bound(0);
      if (s.window != 0 && s.window < s.length) options.set_diagonal_band_left_bound(static_cast<int>(s.window));
    };
    const auto place = [&s](const auto& tensor, Uid uid, std::int64_t count, std::int64_t size, std::int64_t columns) {
      tensor->set_output(true)
          .set_uid(uid)
          .set_dim({s.batch, count, s.length, size})
          .set_stride({s.length * columns, size, columns, 1});
    };
    if (!backward) {
      auto options = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
      mask(options);
      const auto [o, stats] = graph->sdpa(q, k, v, options);
      place(o, kO, s.q_heads, s.d_v, out_row);
      stats->set_output(true)
          .set_uid(kStats)
          .set_data_type(fe::DataType_t::FLOAT)
          .set_dim({s.batch, s.q_heads, s.length, 1})
          .set_stride({s.q_heads * s.length, s.length, 1, 1});
    } else {
      const auto o = graph->tensor(heads("o", kO, s, s.q_heads, s.d_v, out_row));
      const auto grad = graph->tensor(heads("grad_o", kGradO, s, s.q_heads, s.d_v, out_row));
      const auto stats = graph->tensor(statistics);
      auto options =
          fe::graph::SDPA_backward_attributes().set_name("attention").set_deterministic_algorithm(deterministic_);
      mask(options);
      const auto [grad_q, grad_k, grad_v] = graph->sdpa_backward(q, k, v, o, grad, stats, options);
      place(grad_q, kGradQ, s.q_heads, s.d_qk, row);
      place(grad_k, kGradK, s.kv_heads, s.d_qk, row);
      place(grad_v, kGradV, s.kv_heads, s.d_v, row);
    }
    if (graph->build(handle_, {fe::HeurMode_t::A}).is_bad()) return std::nullopt;
    std::int64_t bytes = 0;
    if (graph->get_workspace_size(bytes).is_bad() || bytes < 0) return std::nullopt;
    if (static_cast<std::size_t>(bytes) > largest_workspace_) return std::nullopt;
    return Graph{graph, static_cast<std::size_t>(bytes)};
  }

  cudnnHandle_t handle_;
  bool deterministic_;
  std::size_t largest_workspace_;
  std::map<Key, std::optional<Graph>> graphs_;
};

}  // namespace

std::unique_ptr<FusedAttention> open_fused_attention(bool deterministic, std::size_t largest_workspace) {
  if (fe::cudnn_dlhandle == nullptr) {
    fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (fe::cudnn_dlhandle == nullptr) return nullptr;
    // The frontend looks for the runtime itself; it must find the one that this library uses.
    static const std::string runtime = fmt::format("libcudart.so.{}", CUDART_VERSION / 1000);
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", runtime.c_str(), 0);
  }
  if (fe::detail::get_backend_version() < 90000) return nullptr;
  cudnnHandle_t handle = nullptr;
  if (fe::detail::create_handle(&handle) != CUDNN_STATUS_SUCCESS) return nullptr;
  return std::make_unique<CudnnAttention>(handle, deterministic, largest_workspace);
}

}  // namespace railyard::cuda
