#!/bin/bash
# A launch script as users of Megatron write it.
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
TP=4
CHECKPOINT_PATH=${1:-"/checkpoints/llama3"}
DISTRIBUTED_ARGS=(--nproc_per_node $GPUS_PER_NODE --nnodes 4 --master_addr $MASTER_ADDR --master_port 6000)

MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --seq-length 8192
    --max-position-embeddings 8192
    --position-embedding-type rope
    --rotary-base 500000
    --normalization RMSNorm
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --use-mcore-models
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 1024
    --train-iters 100000
    --lr 3.0e-4 --min-lr 3.0e-5 --lr-decay-style cosine --lr-warmup-iters 2000
    --weight-decay 0.1 --clip-grad 1.0
    --adam-beta1 0.9 --adam-beta2=0.95
    --bf16
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size ${TP}
    --pipeline-model-parallel-size 2
    --num-layers-per-virtual-pipeline-stage 4
    --sequence-parallel
)
DATA_ARGS=(
    --data-path 0.7 $DATA_ROOT/web_text_document 0.3 "$DATA_ROOT/code_text_document"   # two sources
    --split 949,50,1
    --tokenizer-type HuggingFaceTokenizer
    --tokenizer-model "$TOKENIZER"
)
LOGGING_ARGS=(
    --log-interval 10 --eval-interval 1000 --eval-iters 32 --save-interval 1000
    --save $CHECKPOINT_PATH --load $CHECKPOINT_PATH
    --wandb-project llama
    --frobnicate 3
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${MODEL_ARGS[@]} ${TRAINING_ARGS[@]} "${PARALLEL_ARGS[@]}" ${DATA_ARGS[@]} ${LOGGING_ARGS[@]}
