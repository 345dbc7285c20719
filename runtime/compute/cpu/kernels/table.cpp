// The table of one instruction set's kernels.
#include "runtime/compute/cpu/kernels/operations.hpp"

#define RAILYARD_TEXT_OF(name) #name
#define RAILYARD_TEXT(name) RAILYARD_TEXT_OF(name)

namespace railyard::cpu::RAILYARD_ISA {

extern const Kernels kTable;
const Kernels kTable = {
    RAILYARD_TEXT(RAILYARD_ISA),
    fill,
    cast,
    add,
    scale,
    bias_gradient,
    norm_forward,
    norm_backward,
    head_norm_forward,
    head_norm_backward,
    rope,
    attention_workspace,
    attention_forward,
    attention_backward,
    activation_forward,
    activation_backward,
    residual_add,
    embedding_forward,
    embedding_backward,
    softmax_statistics,
    cross_entropy_gradient,
    squared_norm,
    adamw,
    split_master,
};

}  // namespace railyard::cpu::RAILYARD_ISA
