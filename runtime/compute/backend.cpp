// The fused pairs of product and communication, one after the other: what a backend that cannot overlap them does.
#include "runtime/compute/backend.hpp"

namespace railyard {

void Backend::all_gather_gemm(Group& group, const Tensor& part, const Tensor& gathered, const Gemm& arguments) {
  RAILYARD_CHECK(arguments.a.data == gathered.data, "the product must take what was gathered");
  group.all_gather(part, gathered).wait();
  gemm(arguments);
}

void Backend::gemm_reduce_scatter(Group& group, const Gemm& arguments, const Tensor& part) {
  gemm(arguments);
  group.reduce_scatter(arguments.d, part).wait();
}

}  // namespace railyard
