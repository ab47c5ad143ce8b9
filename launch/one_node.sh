#!/bin/sh
# launch/one_node.sh gpu|RANKS [DATA_DIR] [flags of tpnet_dist.train …]: one rank per GPU of this machine, or RANKS
#
# The same command goes on with an interrupted run, if it names a --run-dir; MAX_RESTARTS=3 lets torchrun do so by
# itself. PYTHON names the interpreter, OMP_NUM_THREADS the threads of a rank (torchrun: 1),
# TORCH_ELASTIC_SHUTDOWN_TIMEOUT the seconds that ranks have to save after SIGTERM (torchrun: 30; here 110).
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

exec "${PYTHON:-python}" -m torch.distributed.run --standalone --nproc_per_node="$ranks" \
    --max_restarts="${MAX_RESTARTS:-0}" --shutdown_timeout="${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-110}" \
    -m tpnet_dist.train "$@"
