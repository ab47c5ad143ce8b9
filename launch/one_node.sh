#!/bin/sh
# launch/one_node.sh gpu|RANKS [DATA_DIR] [flags of tpnet_dist.train …]: one rank per GPU of this machine, or RANKS
#
# The same command goes on with an interrupted run, if it names a --run-dir; MAX_RESTARTS=3 lets torchrun do so by
# itself. PYTHON names the interpreter, OMP_NUM_THREADS the threads of a rank (torchrun: 1),
# TORCH_ELASTIC_SHUTDOWN_TIMEOUT the seconds that ranks have to save after SIGTERM (torchrun: 30; here 110).
# If GPUs hang at their first collective: NCCL_DEBUG=INFO says which way they take to one another, NCCL_P2P_DISABLE=1
# sends all through the host, as some boards need. python -m tpnet_dist.doctor checks it.
set -eu

case "${1-}" in
    gpu | [1-9] | [1-9][0-9] | [1-9][0-9][0-9]) ;;
    *)
        echo "usage: $0 gpu|RANKS [DATA_DIR] [flags of tpnet_dist.train …]" >&2
        exit 2
        ;;
esac
ranks=$1
shift
# memory of a GPU in pieces that grow, so that batches of different sizes leave no holes; CPUs do not look at it
export PYTORCH_ALLOC_CONF="${PYTORCH_ALLOC_CONF:-${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}}"

exec "${PYTHON:-python}" -m torch.distributed.run --standalone --nproc_per_node="$ranks" \
    --max_restarts="${MAX_RESTARTS:-0}" --shutdown_timeout="${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-110}" \
    -m tpnet_dist.train "$@"
